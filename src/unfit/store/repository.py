"""One repository for both databases: SQLite in the workspace, PostgreSQL by URL.

`commit` is the only way a model changes: one transaction moves the employed pointer, the forgotten
rows, the request states, the decision and the known length of the deletion list together, and only
if the version it started from is still employed. Time is handed in.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.errors import BadInput, Damaged, Unavailable
from unfit.store import migrations
from unfit.store.database import open_engine
from unfit.store.reading import CHUNK, Records
from unfit.store.records import (
    Applied,
    Decision,
    IdKind,
    NewVersion,
    Version,
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

BUSY_SECONDS = 30.0


class Store(Records):
    """The records of one model in a database that may hold several."""

    def __init__(
        self, url: str, model_key: str, now: datetime, digest_key: bytes,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:  # fmt: skip
        """digest_key: kept elsewhere, so that nobody can guess ids from their digests here.

        alone: what to hold while the tables are made or changed.
        """
        self.engine = open_engine(url, BUSY_SECONDS)
        self.sqlite = self.engine.dialect.name == "sqlite"
        with self._said():
            if not migrations.up_to_date(self.engine):
                with alone():
                    migrations.upgrade(self.engine)
            self._model_id = self._find_or_create(model_key, now)
        self._digest_key = digest_key

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

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with self._said(), self.engine.execution_options(write=True).begin() as connection:
            yield connection

    def _find_or_create(self, key: str, now: datetime) -> int:
        select = sa.select(models.c.id).where(models.c.key == key)
        with self._read() as connection:
            found = connection.execute(select).scalar()
        if found is None:
            row = {"key": key, "created_at": now, "list_position": 0, "purge_due": False,
                   "changes": 0}  # fmt: skip
            try:
                with self._write() as connection:
                    connection.execute(sa.insert(models).values(**row))
            except sa.exc.IntegrityError:  # another process was first
                pass
            with self._read() as connection:
                found = connection.execute(select).scalar_one()
        return int(found)

    # --- what changes it -----------------------------------------------------------------------

    def submit(self, key: str, ids: Sequence[tuple[IdKind, str]], now: datetime) -> int:
        """File a request, once: the same key with the same ids is the same request."""
        fingerprint = self.digest(*sorted(f"{kind}\0{value}" for kind, value in ids))
        known = (requests.c.model_id == self._model_id) & (requests.c.key == key)
        with self._write() as connection:
            row = connection.execute(
                sa.select(requests.c.id, requests.c.fingerprint).where(known)
            ).first()
            if row is not None:
                if row.fingerprint != fingerprint:
                    raise BadInput(f"the key {key!r} was used for another request")
                return int(row.id)
            made = connection.execute(
                sa.insert(requests).values(
                    model_id=self._model_id, key=key, fingerprint=fingerprint, state="pending",
                    submitted_at=now,
                )
            ).inserted_primary_key  # fmt: skip
            assert made is not None
            _insert(
                connection, items,
                ({"request_id": made[0], "kind": kind, "value": value} for kind, value in ids),
            )  # fmt: skip
            return int(made[0])

    def take_back(self, key: str) -> None:
        """Drop a request that waits, as if it had never been filed."""
        mine = (requests.c.model_id == self._model_id) & (requests.c.key == key)
        with self._write() as connection:
            found = connection.execute(
                sa.select(requests.c.id).where(mine & (requests.c.state == "pending"))
            ).scalar()
            if found is not None:
                connection.execute(sa.delete(items).where(items.c.request_id == found))
                connection.execute(sa.delete(requests).where(requests.c.id == found))

    def commit(
        self,
        started_from: Version | None,
        new: NewVersion | None,
        decision: Decision | None,
        applied: Applied,
        now: datetime,
    ) -> Version:
        """Employ a version (None: keep the one in use) and settle requests, all or nothing."""
        with self._fitting(), self._write() as connection:
            if not self.sqlite:  # SQLite's transaction has locked the whole database already
                mine = sa.select(models.c.id).where(models.c.id == self._model_id)
                connection.execute(mine.with_for_update())
            current = connection.execute(
                sa.select(versions).where(
                    (versions.c.model_id == self._model_id) & (versions.c.state == "employed")
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
                        model_id=self._model_id, version_id=version_id, at=decision.at,
                        action=decision.action, reason=decision.reason,
                        inputs=json.dumps(decision.inputs, sort_keys=True),
                        estimate=decision.estimate, threshold=decision.threshold,
                    )
                )  # fmt: skip
            self._settle(connection, version_id, applied, now)
        number = 0 if started_from is None else started_from.number
        if new is None:
            assert started_from is not None
            return replace(started_from, **applied.kept)
        fields = {name: getattr(new, name) for name in NewVersion.__dataclass_fields__}
        return Version(id=version_id, number=number + 1, state="employed", employed_at=now,
                       superseded_at=None, **fields)  # fmt: skip

    def _employ(
        self, connection: sa.Connection, before: Version | None, new: NewVersion, now: datetime
    ) -> int:
        if before is not None:
            connection.execute(
                sa.update(versions)
                .where(versions.c.id == before.id)
                .values(state="superseded", superseded_at=now)
            )
        fields = {name: getattr(new, name) for name in NewVersion.__dataclass_fields__}
        fields["baseline"] = json.dumps(new.baseline, sort_keys=True)
        made = connection.execute(
            sa.insert(versions).values(
                model_id=self._model_id, number=1 if before is None else before.number + 1,
                state="employed", employed_at=now, **fields,
            )
        ).inserted_primary_key  # fmt: skip
        assert made is not None
        return int(made[0])

    def _settle(
        self, connection: sa.Connection, version_id: int, applied: Applied, now: datetime
    ) -> None:
        mine = self._model_id
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
            connection.execute(
                sa.update(versions).where(versions.c.id == version_id).values(**applied.kept)
            )
        outcomes = [{"item": i, "outcome": o, "rows": r} for i, o, r in applied.outcomes]
        if outcomes:
            connection.execute(
                sa.update(items)
                .where(items.c.id == sa.bindparam("item"))
                .values(outcome=sa.bindparam("outcome"), rows=sa.bindparam("rows")),
                outcomes,
            )
        _insert(
            connection, forgotten,
            ({"model_id": mine, "row": row, "version_id": version_id, "erased": False}
             for row in applied.rows),
        )  # fmt: skip
        _insert(
            connection, forgotten_ids,
            ({"model_id": mine, "kind": kind, "digest": digest}
             for kind, digest in applied.digests),
        )  # fmt: skip
        changed: dict[str, Any] = {"purge_due": True, "changes": models.c.changes + 1}
        if applied.list_position is not None:
            changed["list_position"] = applied.list_position
        connection.execute(sa.update(models).where(models.c.id == mine).values(**changed))

    def set_list_position(self, position: int) -> None:
        with self._write() as connection:
            connection.execute(
                sa.update(models)
                .where(models.c.id == self._model_id)
                .values(list_position=position)
            )

    def set_statistics(self, version: Version, sha: str) -> None:
        with self._write() as connection:
            connection.execute(
                sa.update(versions)
                .where(versions.c.id == version.id)
                .values(statistics_sha=sha)
            )  # fmt: skip

    def add_audit(
        self, version: Version, passed: bool | None, report: dict[str, Any], now: datetime
    ) -> None:
        with self._write() as connection:
            connection.execute(
                sa.insert(audits).values(
                    model_id=self._model_id, version_id=version.id, at=now, passed=passed,
                    report=json.dumps(report, sort_keys=True),
                )
            )  # fmt: skip

    # --- purge ---------------------------------------------------------------------------------

    def record_purge(self, version: Version, card_sha: str | None) -> None:
        """Rows were erased: drop the ids of applied requests and the names of removed files."""
        mine = requests.c.model_id == self._model_id
        with self._write() as connection:
            applied = sa.select(requests.c.id).where(mine & (requests.c.state == "applied"))
            connection.execute(
                sa.update(items)
                .where(items.c.request_id.in_(applied) & items.c.value.is_not(None))
                .values(value=None)
            )
            connection.execute(
                sa.update(forgotten)
                .where((forgotten.c.model_id == self._model_id) & ~forgotten.c.erased)
                .values(erased=True)
            )
            connection.execute(
                sa.update(versions)
                .where(
                    (versions.c.model_id == self._model_id) & (versions.c.state == "superseded")
                    & versions.c.model_sha.is_not(None)
                )
                .values(model_sha=None, card_sha=None, statistics_sha=None, generation=None)
            )  # fmt: skip
            if card_sha != version.card_sha:
                connection.execute(
                    sa.update(versions).where(versions.c.id == version.id).values(card_sha=card_sha)
                )

    def clean(self) -> None:
        """Rewrite the tables that held ids, so that no free page or log still does."""
        if not self.sqlite:
            with self._said(), self.engine.connect() as connection:
                plain = connection.execution_options(isolation_level="AUTOCOMMIT")
                plain.exec_driver_sql(f"SET lock_timeout = '{int(1000 * BUSY_SECONDS / 3)}ms'")
                try:
                    plain.exec_driver_sql("VACUUM FULL request_items")
                finally:
                    plain.exec_driver_sql("RESET lock_timeout")
            return
        raw = self.engine.raw_connection()
        try:
            raw.cursor().execute("VACUUM")
            busy, _, _ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the database says: {error}") from None
        finally:
            raw.close()
        if busy:
            raise Unavailable("the database's log is in use by a reader; the purge goes on later")

    def purge_done(self) -> None:
        with self._write() as connection:
            connection.execute(
                sa.update(models).where(models.c.id == self._model_id).values(purge_due=False)
            )


def _insert(connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    block: list[dict[str, Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == CHUNK:
            connection.execute(sa.insert(table), block)
            block = []
    if block:
        connection.execute(sa.insert(table), block)
