"""Audits: the reports that were kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.store.database import ModelDatabase, insert
from unfit.store.records import AuditRecord, Version
from unfit.store.schema import audits, versions


class Audits:
    """The `audits` table."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database

    def add(
        self, version: Version, passed: bool | None, report: Mapping[str, Any], now: datetime
    ) -> int:
        """Keep a report; its id."""
        with self._database.writing() as connection:
            self._database.fence(connection)
            of = {"model_id": self._database.model_id, "version_id": version.id}
            return insert(connection, audits, **of, at=now, passed=passed, report=report)

    def find(self, *, id: int | None = None, last: int | None = None) -> list[AuditRecord]:
        """In the order in which they were made; the last so many."""
        select = (
            sa.select(audits, versions.c.number)
            .join(versions, versions.c.id == audits.c.version_id)
            .where(audits.c.model_id == self._database.model_id)
            .order_by(audits.c.id.desc())
            .limit(last)
        )
        if id is not None:
            select = select.where(audits.c.id == id)
        with self._database.reading() as connection:
            rows = connection.execute(select).all()
        return [AuditRecord.from_row(row) for row in reversed(rows)]
