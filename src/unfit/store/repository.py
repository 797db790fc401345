"""One repository for both databases: SQLite in the workspace, PostgreSQL by URL.

`commit` is the only way a model changes: one transaction moves the employed pointer, the forgotten
rows, the request states, the decision and the known length of the deletion list together, and only
if the version it started from is still employed. Time is handed in.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from unfit.data.sources import psycopg_url
from unfit.errors import BadInput, Damaged, Unavailable
from unfit.store import migrations
from unfit.store.records import (
    Applied,
    AuditRecord,
    Decision,
    IdKind,
    Item,
    Model,
    NewVersion,
    Request,
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
_CHUNK = 5000  # rows a statement


class Store:
    """The records of one model in a database that may hold several."""

    def __init__(
        self, url: str, model_key: str, now: datetime, digest_key: bytes,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:  # fmt: skip
        """digest_key: kept elsewhere, so that nobody can guess ids from their digests here.

        alone: what to hold while the tables are made or changed.
        """
        self.engine = _engine(url)
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
    def _said(self) -> Iterator[None]:
        """What a database complains of, in a sentence."""
        try:
            yield
        except sa.exc.DatabaseError as error:
            first = str(error.orig or error).strip().splitlines()[0][:200]
            if isinstance(error, sa.exc.IntegrityError):
                raise
            if "not a database" in first or "malformed" in first:
                raise Damaged(f"the workspace's database cannot be read: {first}") from None
            raise Unavailable(f"the database says: {first}") from None

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

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._said(), self.engine.connect() as connection:
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

    # --- what there is -------------------------------------------------------------------------

    def model(self) -> Model:
        with self._read() as connection:
            row = connection.execute(
                sa.select(models).where(models.c.id == self._model_id)
            ).one()  # fmt: skip
        return Model(row.id, row.key, row.list_position, row.purge_due, row.changes)

    def employed(self) -> Version | None:
        mine = (versions.c.model_id == self._model_id) & (versions.c.state == "employed")
        with self._read() as connection:
            row = connection.execute(sa.select(versions).where(mine)).first()
        return None if row is None else _version(row)

    def versions(self) -> list[Version]:
        select = sa.select(versions).where(versions.c.model_id == self._model_id)
        with self._read() as connection:
            rows = connection.execute(select.order_by(versions.c.number)).all()
        return [_version(row) for row in rows]

    def decision_on(self, request: Request) -> Decision | None:
        """The decision a request led to; None if the version in use stayed."""
        if request.version is None or request.applied_at is None:
            return None
        same = (versions.c.number == request.version) & (
            versions.c.employed_at == request.applied_at
        )
        found = self._decisions(same)
        return found[0] if found else None

    def decisions(self) -> list[Decision]:
        return self._decisions(sa.true())

    def _decisions(self, where: sa.ColumnElement[bool]) -> list[Decision]:
        select = (
            sa.select(decisions, versions.c.number)
            .join(versions, versions.c.id == decisions.c.version_id)
            .where(decisions.c.model_id == self._model_id, where)
            .order_by(versions.c.number)
        )
        with self._read() as connection:
            rows = connection.execute(select).all()
        return [
            Decision(row.number, _utc(row.at), row.action, row.reason, json.loads(row.inputs),
                     row.estimate, row.threshold)
            for row in rows
        ]  # fmt: skip

    def audits(self) -> list[AuditRecord]:
        select = (
            sa.select(audits, versions.c.number)
            .join(versions, versions.c.id == audits.c.version_id)
            .where(audits.c.model_id == self._model_id)
            .order_by(audits.c.id)
        )
        with self._read() as connection:
            rows = connection.execute(select).all()
        return [
            AuditRecord(row.number, _utc(row.at), row.passed, json.loads(row.report))
            for row in rows
        ]

    def request_counts(self) -> dict[str, int]:
        count = sa.select(requests.c.state, sa.func.count()).where(
            requests.c.model_id == self._model_id
        )
        with self._read() as connection:
            rows = connection.execute(count.group_by(requests.c.state)).all()
        return {"pending": 0, "applied": 0} | {row[0]: row[1] for row in rows}

    def requests(
        self, *, state: str | None = None, key: str | None = None, ids: Sequence[int] | None = None
    ) -> list[Request]:
        """Requests with their items, in order of submission."""
        where = requests.c.model_id == self._model_id
        if state is not None:
            where &= requests.c.state == state
        if key is not None:
            where &= requests.c.key == key
        if ids is not None:
            where &= requests.c.id.in_(ids)
        number = (
            sa.select(versions.c.number)
            .where(versions.c.id == requests.c.version_id)
            .scalar_subquery()
        )
        with self._read() as connection:
            rows = connection.execute(
                sa.select(requests, number.label("version")).where(where).order_by(requests.c.id)
            ).all()
            of = {row.id: list[Item]() for row in rows}
            known = list(of)  # requests filed between the two statements are left for later
            for start in range(0, len(known), _CHUNK):
                part = items.c.request_id.in_(known[start : start + _CHUNK])
                for item in connection.execute(sa.select(items).where(part).order_by(items.c.id)):
                    of[item.request_id].append(
                        Item(item.id, item.kind, item.value, item.outcome, item.rows)
                    )
        return [
            Request(row.id, row.key, row.state, _utc(row.submitted_at),
                    None if row.applied_at is None else _utc(row.applied_at), row.version,
                    of[row.id])
            for row in rows
        ]  # fmt: skip

    def forgotten_rows(self, *, erased: bool | None = None) -> list[tuple[int, int]]:
        """(row, version number) of every forgotten row, or of those (not yet) erased."""
        where = forgotten.c.model_id == self._model_id
        if erased is not None:
            where &= forgotten.c.erased == erased
        select = sa.select(forgotten.c.row, versions.c.number).join(versions).where(where)
        with self._read() as connection:
            rows = connection.execute(select.order_by(forgotten.c.row)).all()
        return [(row[0], row[1]) for row in rows]

    def known_digests(self, digests: Sequence[tuple[IdKind, str]]) -> set[tuple[IdKind, str]]:
        """Which of these ids were forgotten before."""
        found: set[tuple[IdKind, str]] = set()
        if not digests:
            return found
        with self._read() as connection:
            for start in range(0, len(digests), _CHUNK):
                part = [digest for _, digest in digests[start : start + _CHUNK]]
                select = sa.select(forgotten_ids.c.kind, forgotten_ids.c.digest).where(
                    (forgotten_ids.c.model_id == self._model_id) & forgotten_ids.c.digest.in_(part)
                )
                found |= {(kind, digest) for kind, digest in connection.execute(select)}
        return found

    def digest(self, *texts: str) -> str:
        """A keyed digest: tells that two texts are equal, and not what they are."""
        state = hashlib.blake2b(key=self._digest_key, digest_size=20)
        for text in texts:
            raw = text.encode()
            state.update(len(raw).to_bytes(8, "big") + raw)
        return state.hexdigest()

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
        for start in range(0, len(applied.requests), _CHUNK):
            part = applied.requests[start : start + _CHUNK]
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


def _engine(url: str) -> sa.Engine:
    try:
        engine = sa.create_engine(psycopg_url(url), json_serializer=json.dumps)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise BadInput(f"store.url cannot be used: {str(error).splitlines()[0][:200]}") from None
    name = engine.dialect.name
    if name not in ("sqlite", "postgresql"):
        raise BadInput(f"store.url is of {name}; unfit keeps its records in SQLite or PostgreSQL")
    if name == "sqlite":
        engine.dispose()
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        path = Path(engine.url.database or "")
        sa.event.listen(engine, "connect", _sqlite_settings)
        sa.event.listen(engine, "begin", _begin)
        if path.exists() and path.stat().st_size == 0:
            raise Damaged(f"{path.name} is empty; restore it from a backup")
    return engine


def _sqlite_settings(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin
    for setting in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON",
        "temp_store=MEMORY",
    ):  # fmt: skip
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("write", False):  # a read is one statement
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _insert(connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    block: list[dict[str, Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == _CHUNK:
            connection.execute(sa.insert(table), block)
            block = []
    if block:
        connection.execute(sa.insert(table), block)


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _version(row: sa.Row) -> Version:
    fields = dict(row._mapping)
    del fields["model_id"]
    fields["baseline"] = json.loads(fields["baseline"])
    for name in ("employed_at", "superseded_at", "retained_until"):
        if fields[name] is not None:
            fields[name] = _utc(cast(datetime, fields[name]))
    return Version(**fields)
