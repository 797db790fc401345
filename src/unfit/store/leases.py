"""The lease of the one worker that serves a model.

Written by hand, because it must hold on SQLite and PostgreSQL and without any clock: the holder
counts a number up, and whoever sees the same number for long enough, by a watch of their own,
takes the lease over by a swap that only one can win.
"""

from datetime import datetime

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.database import ModelDatabase
from unfit.store.schema import leases

LEASE_SECONDS = 5.0  # without a beat, before a lease is taken over


class Lease:
    """The right to apply requests, held by one worker at a time."""

    def __init__(self, database: ModelDatabase, holder: str) -> None:
        self._database, self.holder = database, holder
        self._mine = leases.c.model_id == database.model_id

    def read(self) -> tuple[str | None, int]:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(leases).where(self._mine)).first()
        return (None, 0) if row is None else (row.holder, row.beat)

    def take(self, seen: tuple[str | None, int], now: datetime) -> bool:
        """Take the lease over from the state that was read; False if somebody else was faster."""
        holder, beat = seen
        values = {"holder": self.holder, "beat": beat + 1, "since": now}
        try:
            with self._database.writing() as connection:
                same = (
                    self._mine
                    & (leases.c.beat == beat)
                    & leases.c.holder.is_not_distinct_from(holder)
                )
                if connection.execute(sa.update(leases).where(same).values(values)).rowcount:
                    return True
                if beat or connection.execute(sa.select(leases).where(self._mine)).first():
                    return False
                connection.execute(
                    sa.insert(leases).values(model_id=self._database.model_id, **values)
                )
                return True
        except sa.exc.IntegrityError:
            return False

    def beat(self) -> bool:
        """Show that the holder is alive; False if the lease is lost."""
        mine = self._mine & (leases.c.holder == self.holder)
        with self._database.writing() as connection:
            beat = sa.update(leases).where(mine).values(beat=leases.c.beat + 1)
            return bool(connection.execute(beat).rowcount)

    def release(self) -> None:
        mine = self._mine & (leases.c.holder == self.holder)
        with self._database.writing() as connection:
            connection.execute(sa.update(leases).where(mine).values(holder=None))

    def fence(self, connection: sa.Connection) -> None:
        """Called within a transaction: it raises if the lease is lost, and nobody takes the lease
        before the transaction has ended."""
        held = sa.select(leases.c.holder).where(self._mine).with_for_update(read=True)
        holder = connection.execute(held).scalar()
        if holder != self.holder:
            raise Unavailable("another worker has taken this model over")
