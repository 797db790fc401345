"""Versions of the model: the active one, and those before it with what is kept of them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, chunks, insert
from unfit.store.records import NewVersion, Version, column_value
from unfit.store.schema import items, requests, versions


class Versions:
    """The `versions` table. What changes which version is active is in `store.commit`."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._mine = versions.c.model_id == database.model_id
        self._active = sa.select(versions).where(self._mine & (versions.c.state == "active"))
        kept = self._mine & versions.c.retained_until.is_not(None)
        self._retained = sa.select(versions).where(kept).order_by(versions.c.number)
        self._active_id = self._active.with_only_columns(versions.c.id)
        self._update = sa.update(versions).where(versions.c.id == sa.bindparam("version"))
        names = (versions.c.model_sha, versions.c.card_sha, versions.c.statistics_sha)
        old = self._mine & (versions.c.state == "superseded") & versions.c.model_sha.is_not(None)
        gone = {"model_sha": None, "card_sha": None, "statistics_sha": None, "generation": None}
        self._superseded_files = sa.select(*names).where(old)
        self._drop_superseded_files = sa.update(versions).where(old).values(**gone)

    def active(self) -> Version | None:
        """The version that answers now."""
        with self._database.reading() as connection:
            row = connection.execute(self._active).first()
        return None if row is None else Version.from_row(row)

    def find(
        self, *, number: int | None = None, before: int | None = None, last: int | None = None
    ) -> list[Version]:
        """In the order of their numbers; the last so many below a number."""
        select = sa.select(versions).where(self._mine)
        if number is not None:
            select = select.where(versions.c.number == number)
        if before is not None:
            select = select.where(versions.c.number < sa.literal(before, sa.BigInteger))
        with self._database.reading() as connection:
            rows = connection.execute(select.order_by(versions.c.number.desc()).limit(last)).all()
        return [Version.from_row(row) for row in reversed(rows)]

    def retained(self) -> list[Version]:
        """The versions whose deleted rows are kept for audits."""
        with self._database.reading() as connection:
            rows = connection.execute(self._retained).all()
        return [Version.from_row(row) for row in rows]

    def rows_retained_until(self) -> datetime | None:
        """How long deleted rows that were named one by one are kept for audits."""
        latest = (
            sa.select(sa.func.max(versions.c.retained_until))
            .join(requests, requests.c.version_id == versions.c.id)
            .join(items, items.c.request_id == requests.c.id)
            .where(self._mine, items.c.kind == "row", items.c.rows > 0)
        )
        with self._database.reading() as connection:
            return connection.execute(latest).scalar()

    def end_retention(self, version_ids: Sequence[int]) -> None:
        """The deleted rows of these versions, kept for audits until now, are removed."""
        with self._database.writing() as connection:
            for part in chunks(version_ids):
                connection.execute(
                    sa.update(versions).where(versions.c.id.in_(part)).values(retained_until=None)
                )

    def set_statistics(self, version: Version, sha: str) -> None:
        with self._database.changing() as connection:
            self.update(connection, version.id, {"statistics_sha": sha})

    # --- within a transaction ------------------------------------------------------------------

    def active_id(self, connection: sa.Connection) -> int | None:
        found = connection.execute(self._active_id).scalar()
        return None if found is None else int(found)

    def activate(
        self, connection: sa.Connection, before: Version | None, new: NewVersion, now: datetime
    ) -> Version:
        """Put a new version in the place of the active one."""
        if before is not None:
            self.update(connection, before.id, {"state": "superseded", "superseded_at": now})
        number = 1 if before is None else before.number + 1
        state = {"state": "active", "activated_at": now}
        mine = {"model_id": self._database.model_id, "number": number}
        id = insert(connection, versions, **mine, **state, **new.columns())
        return Version.activated(new, id=id, number=number, now=now)

    def update(
        self, connection: sa.Connection, version_id: int, changes: Mapping[str, Any]
    ) -> None:
        values = {name: column_value(value) for name, value in changes.items()}
        connection.execute(self._update, {"version": version_id, **values})

    def purge_superseded_files(
        self, connection: sa.Connection, kept: Collection[str | None]
    ) -> list[str]:
        """The files of superseded versions are removed; drop their names, and return them.

        kept: names that the active version has, too.
        """
        found = connection.execute(self._superseded_files).all()
        connection.execute(self._drop_superseded_files)
        return sorted({name for row in found for name in row if name and name not in kept})
