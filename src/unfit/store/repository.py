"""One repository for both databases: SQLite in the workspace, PostgreSQL by URL.

`commit` is the only way a model changes: one transaction moves the employed pointer, the forgotten
rows, the request states, the decision and what is known of the deletion list together, and only if
the version it started from is still employed. Time is handed in.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.errors import Damaged, Unavailable
from unfit.store import migrations
from unfit.store.cleaning import BUSY_SECONDS, Cleaning
from unfit.store.database import open_engine
from unfit.store.filing import drawn, insert_rows
from unfit.store.reading import CHUNK
from unfit.store.records import (
    Applied,
    Decision,
    NewVersion,
    Version,
    column_value,
)
from unfit.store.schema import (
    audits,
    decisions,
    forgotten,
    forgotten_ids,
    items,
    models,
    requests,
    versions,
)


class Store(Cleaning):
    """The records of one model in a database that may hold several."""

    def __init__(
        self,
        url: str,
        model_key: str,
        now: datetime,
        digest_key: bytes | Callable[[], bytes],
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """digest_key: kept elsewhere, so that nobody can guess ids from their digests here.

        alone: what to hold while the tables are made or changed.
        """
        self.engine = open_engine(url, BUSY_SECONDS)
        self.fence: Callable[[sa.Connection], None] | None = None  # asked before every commit
        self.sqlite = self.engine.dialect.name == "sqlite"
        with self.said():
            if not migrations.up_to_date(self.engine):
                with alone():
                    migrations.upgrade(self.engine)
            self.model_id = self._find_or_create(model_key, now)
        self._digest_key = digest_key if callable(digest_key) else lambda: digest_key
        self.change = 0  # the number that the last commit of this process has drawn

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """A row forgotten twice: the records and the rows come from different times."""
        try:
            yield
        except sa.exc.IntegrityError:
            raise Damaged(
                "the records and the rows of this workspace do not fit together; restore the "
                "database and the folder from the same backup"
            ) from None

    def _find_or_create(self, key: str, now: datetime) -> int:
        select = sa.select(models.c.id).where(models.c.key == key)
        with self.reading() as connection:
            found = connection.execute(select).scalar()
        if found is None:
            row = {"key": key, "created_at": now, "list_position": 0, "purge_due": False}
            row |= {"changes": drawn(), "access": drawn()}
            try:
                with self.writing() as connection:
                    connection.execute(sa.insert(models).values(**row))
            except sa.exc.IntegrityError:  # another process was first
                pass
            with self.reading() as connection:
                found = connection.execute(select).scalar_one()
        return int(found)

    # --- what changes it -----------------------------------------------------------------------

    def commit(
        self,
        started_from: Version | None,
        new: NewVersion | None,
        decision: Decision | None,
        applied: Applied,
        now: datetime,
    ) -> Version:
        """Employ a version (None: keep the one in use) and settle requests, all or nothing."""
        with self._fitting(), self.changing() as connection:
            if self.fence is not None:
                self.fence(connection)
            current = connection.execute(
                sa.select(versions).where(
                    (versions.c.model_id == self.model_id) & (versions.c.state == "employed")
                )
            ).first()
            if (current and current.id) != (started_from and started_from.id):
                raise Unavailable("another worker has changed the model meanwhile; try again")
            if new is None:
                assert started_from is not None
                version_id = started_from.id
            else:
                version_id = self._employ(connection, started_from, new, now)
            if decision is not None:
                connection.execute(
                    sa.insert(decisions).values(
                        model_id=self.model_id,
                        version_id=version_id,
                        at=decision.at,
                        action=decision.action,
                        reason=decision.reason,
                        inputs=decision.inputs,
                        estimate=decision.estimate,
                        threshold=decision.threshold,
                    )
                )
            self._settle(connection, version_id, applied, now)
        if new is None:
            assert started_from is not None
            return replace(started_from, **applied.kept)
        number = 1 if started_from is None else started_from.number + 1
        return Version.employed(new, id=version_id, number=number, now=now)

    def _employ(
        self, connection: sa.Connection, before: Version | None, new: NewVersion, now: datetime
    ) -> int:
        if before is not None:
            connection.execute(
                sa.update(versions)
                .where(versions.c.id == before.id)
                .values(state="superseded", superseded_at=now)
            )
        made = connection.execute(
            sa.insert(versions).values(
                model_id=self.model_id,
                number=1 if before is None else before.number + 1,
                state="employed",
                employed_at=now,
                **new.columns(),
            )
        ).inserted_primary_key
        assert made is not None
        return int(made[0])

    def _settle(
        self, connection: sa.Connection, version_id: int, applied: Applied, now: datetime
    ) -> None:
        mine = self.model_id
        for start in range(0, len(applied.requests), CHUNK):
            part = applied.requests[start : start + CHUNK]
            done = connection.execute(
                sa.update(requests)
                .where(requests.c.id.in_(part) & (requests.c.state == "pending"))
                .values(state="applied", applied_at=now, version_id=version_id)
            )
            if done.rowcount != len(part):
                raise Unavailable("another worker has applied these requests meanwhile")
        if applied.kept:
            kept = {name: column_value(value) for name, value in applied.kept.items()}
            connection.execute(
                sa.update(versions).where(versions.c.id == version_id).values(**kept)
            )
        outcomes = [{"item": i, "outcome": o, "rows": r} for i, o, r in applied.outcomes]
        if outcomes:
            connection.execute(
                sa.update(items)
                .where(items.c.id == sa.bindparam("item"))
                .values(outcome=sa.bindparam("outcome"), rows=sa.bindparam("rows")),
                outcomes,
            )
        self._tell_unmatched(connection, applied.requests)
        gone = {"model_id": mine, "version_id": version_id, "erased": False}
        insert_rows(connection, forgotten, (gone | {"row": row} for row in applied.rows))
        ids = ({"model_id": mine, "kind": kind, "digest": it} for kind, it in applied.digests)
        insert_rows(connection, forgotten_ids, ids)
        changed: dict[str, Any] = {"purge_due": True}
        self.require_term(connection)  # and a plain statement: PostgreSQL 15 does not end a
        listed = applied.list_known  # transaction that idles after a pipeline of them
        if listed is not None:
            changed["list_known"] = listed() if callable(listed) else listed
        self.note_change(connection, **changed)

    def _tell_unmatched(self, connection: sa.Connection, settled: Sequence[int]) -> None:
        """Of the requests just settled, those of whose ids nobody had any."""
        of = sa.select(items.c.id).where(items.c.request_id == requests.c.id)
        unknown = items.c.outcome == "unknown"
        nobody = (
            of.where(unknown).exists() & ~of.where(~unknown | items.c.outcome.is_(None)).exists()
        )
        for start in range(0, len(settled), CHUNK):
            part = settled[start : start + CHUNK]
            connection.execute(
                sa.update(requests).where(requests.c.id.in_(part), nobody).values(state="unmatched")
            )

    def set_list_known(self, known: str) -> None:
        """The deletion list holds nothing that is not applied here, up to a position."""
        with self.changing() as connection:
            self.note_change(connection, list_known=known)

    def set_key_fingerprint(self, found: str) -> None:
        with self.writing() as connection:
            connection.execute(
                sa.update(models).where(models.c.id == self.model_id).values(key_fingerprint=found)
            )

    def set_statistics(self, version: Version, sha: str) -> None:
        with self.changing() as connection:
            connection.execute(
                sa.update(versions).where(versions.c.id == version.id).values(statistics_sha=sha)
            )

    def add_audit(
        self, version: Version, passed: bool | None, report: dict[str, Any], now: datetime
    ) -> int:
        """Keep a report; its number."""
        with self.writing() as connection:
            if self.fence is not None:
                self.fence(connection)
            made = connection.execute(
                sa.insert(audits).values(
                    model_id=self.model_id,
                    version_id=version.id,
                    at=now,
                    passed=passed,
                    report=report,
                )
            ).inserted_primary_key
            assert made is not None
            return int(made[0])
