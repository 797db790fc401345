"""Long work in a queue, and the lease of the one worker that serves it.

The lease needs no clock: its holder counts a number up, and whoever sees the same number for long
enough, by a watch of their own, takes it over by a swap that only one can win.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.filing import QueueFull
from unfit.store.records import Job, JobKind
from unfit.store.repository import Store
from unfit.store.schema import jobs, leases

WAITING = 20  # jobs that may wait
ATTEMPTS = 3
LEASE_SECONDS = 5.0  # without a beat, before a lease is taken over


class Jobs:
    """Audits and retrainings that were asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mine = jobs.c.model_id == store.model_id

    def submit(
        self, kind: JobKind, options: Mapping[str, Any], now: datetime, by: str | None = None
    ) -> int:
        with self._store.writing() as connection:
            self._store.lock(connection)
            count = sa.select(sa.func.count()).select_from(jobs)
            waiting = connection.execute(count.where(self._mine, jobs.c.state == "pending"))
            if waiting.scalar_one() >= WAITING:
                raise QueueFull(f"{WAITING} jobs wait already; try again later")
            made = connection.execute(
                sa.insert(jobs).values(
                    model_id=self._store.model_id,
                    kind=kind,
                    state="pending",
                    options=options,
                    submitted_at=now,
                    submitted_by=by,
                )
            ).inserted_primary_key
            assert made is not None
            return int(made[0])

    def find(
        self,
        *,
        id: int | None = None,
        kind: str | None = None,
        state: str | None = None,
        before: int | None = None,
        last: int | None = None,
    ) -> list[Job]:
        """In order of submission; the last so many, below an id."""
        select = sa.select(jobs).where(self._mine).order_by(jobs.c.id.desc()).limit(last)
        for column, wanted in ((jobs.c.id, id), (jobs.c.kind, kind), (jobs.c.state, state)):
            if wanted is not None:
                select = select.where(column == wanted)
        if before is not None:
            select = select.where(jobs.c.id < before)
        with self._store.reading() as connection:
            rows = connection.execute(select).all()
        return [Job.from_row(row) for row in reversed(rows)]

    def start(self, job: Job, now: datetime) -> None:
        begun = {"started_at": now, "attempts": jobs.c.attempts + 1}
        self._set(job.id, state="running", stage="starting", done=0, total=0, **begun)

    def progress(self, id: int, stage: str, done: int, total: int) -> None:
        self._set(id, stage=stage, done=done, total=total)

    def finish(
        self, id: int, now: datetime, *, audit_id: int | None = None, version: int | None = None
    ) -> None:
        self._set(id, state="done", finished_at=now, audit_id=audit_id, version=version, stage=None)

    def fail(self, id: int, error: str, now: datetime) -> None:
        self._set(id, state="failed", finished_at=now, error=error[:500], stage=None)

    def resume(self, now: datetime) -> None:
        """What a worker that died was doing waits again: audits and retrainings can be repeated.
        Not for ever: a job that takes its worker down with it is given up."""
        with self._store.writing() as connection:
            running = sa.update(jobs).where(self._mine & (jobs.c.state == "running"))
            error = f"its process and its worker ended {ATTEMPTS} times before it was done"
            connection.execute(
                running.where(jobs.c.attempts >= ATTEMPTS).values(
                    state="failed", finished_at=now, stage=None, error=error
                )
            )
            connection.execute(running.values(state="pending", started_at=None, stage=None))

    def _set(self, id: int, **values: Any) -> None:
        with self._store.writing() as connection:
            if self._store.fence is not None:  # another worker may be doing this job again
                self._store.fence(connection)
            connection.execute(sa.update(jobs).where(self._mine & (jobs.c.id == id)).values(values))


class Lease:
    """The right to apply requests, held by one worker at a time."""

    def __init__(self, store: Store, holder: str) -> None:
        self._store, self.holder = store, holder
        self._mine = leases.c.model_id == store.model_id

    def read(self) -> tuple[str | None, int]:
        with self._store.reading() as connection:
            row = connection.execute(sa.select(leases).where(self._mine)).first()
        return (None, 0) if row is None else (row.holder, row.beat)

    def take(self, seen: tuple[str | None, int], now: datetime) -> bool:
        """Swap what was seen for oneself; False if somebody else was faster."""
        holder, beat = seen
        values = {"holder": self.holder, "beat": beat + 1, "since": now}
        try:
            with self._store.writing() as connection:
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
                    sa.insert(leases).values(model_id=self._store.model_id, **values)
                )
                return True
        except sa.exc.IntegrityError:
            return False

    def beat(self) -> bool:
        """Show that one lives; False if the lease is lost."""
        mine = self._mine & (leases.c.holder == self.holder)
        with self._store.writing() as connection:
            beat = sa.update(leases).where(mine).values(beat=leases.c.beat + 1)
            return bool(connection.execute(beat).rowcount)

    def release(self) -> None:
        mine = self._mine & (leases.c.holder == self.holder)
        with self._store.writing() as connection:
            connection.execute(sa.update(leases).where(mine).values(holder=None))

    def fence(self, connection: sa.Connection) -> None:
        """Asked in the transaction of every commit: nothing is changed by who lost the lease, and
        nobody takes it before the commit is done."""
        held = sa.select(leases.c.holder).where(self._mine).with_for_update(read=True)
        holder = connection.execute(held).scalar()
        if holder != self.holder:
            raise Unavailable("another worker has taken this model over")
