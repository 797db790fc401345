"""What the records say: the reading half of the repository."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import cast

import sqlalchemy as sa

from unfit.errors import Damaged, Unavailable
from unfit.store.records import (
    AuditRecord,
    Decision,
    IdKind,
    Item,
    Model,
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

CHUNK = 5000  # rows a statement


class Records:
    """The records of one model; nothing here changes them."""

    engine: sa.Engine
    _model_id: int
    _digest_key: bytes

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
    def _read(self) -> Iterator[sa.Connection]:
        with self._said(), self.engine.connect() as connection:
            yield connection

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
            for start in range(0, len(known), CHUNK):
                part = items.c.request_id.in_(known[start : start + CHUNK])
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
            for start in range(0, len(digests), CHUNK):
                part = [digest for _, digest in digests[start : start + CHUNK]]
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
