"""Decisions: why each version became the active one."""

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, insert
from unfit.store.records import Decision, Request
from unfit.store.schema import decisions, versions


class Decisions:
    """The `decisions` table: one decision per version."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database

    def find(
        self, *, version: int | None = None, before: int | None = None, last: int | None = None
    ) -> list[Decision]:
        """In the order of the versions they led to; the last so many below a number."""
        where: sa.ColumnElement[bool] = sa.true()
        if before is not None:
            where = versions.c.number < sa.literal(before, sa.BigInteger)
        if version is not None:
            where &= versions.c.number == version
        return self._find(where, last)

    def on(self, request: Request) -> Decision | None:
        """The decision that a request led to; None if the active version stayed."""
        if request.version is None or request.applied_at is None or request.state == "unmatched":
            return None
        same_version = versions.c.number == request.version
        found = self._find(same_version & (versions.c.activated_at == request.applied_at))
        return found[0] if found else None

    def _find(self, where: sa.ColumnElement[bool], last: int | None = None) -> list[Decision]:
        select = (
            sa.select(decisions, versions.c.number)
            .join(versions, versions.c.id == decisions.c.version_id)
            .where(decisions.c.model_id == self._database.model_id, where)
            .order_by(versions.c.number.desc())
            .limit(last)
        )
        with self._database.reading() as connection:
            rows = connection.execute(select).all()
        return [Decision.from_row(row) for row in reversed(rows)]

    def add(self, connection: sa.Connection, version_id: int, decision: Decision) -> None:
        """Within a transaction: record why a version is made the active one."""
        mine = {"model_id": self._database.model_id, "version_id": version_id}
        insert(connection, decisions, **mine, **decision.columns())
