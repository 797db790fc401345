"""What the records say: the reading half of the repository."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import get_args

import sqlalchemy as sa

from unfit.errors import Damaged, Unavailable
from unfit.store.records import (
    AuditRecord,
    Decision,
    IdKind,
    Item,
    Model,
    Request,
    State,
    Tally,
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
    model_id: int
    _digest_key: Callable[[], bytes]

    @contextmanager
    def said(self) -> Iterator[None]:
        """What a database complains of, in a sentence."""
        try:
            yield
        except sa.exc.TimeoutError:
            raise Unavailable("too many ask the database at once; try again") from None
        except sa.exc.DBAPIError as error:
            first = str(error.orig or error).strip().splitlines()[0][:200]
            if isinstance(error, sa.exc.IntegrityError):
                raise
            if "not a database" in first or "malformed" in first:
                raise Damaged(f"the workspace's database cannot be read: {first}") from None
            raise Unavailable(f"the database says: {first}") from None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.said(), self.engine.connect() as connection:
            yield connection

    def model(self) -> Model:
        with self.reading() as connection:
            mine = sa.select(models).where(models.c.id == self.model_id)
            return Model.from_row(connection.execute(mine).one())

    def employed(self) -> Version | None:
        mine = (versions.c.model_id == self.model_id) & (versions.c.state == "employed")
        with self.reading() as connection:
            row = connection.execute(sa.select(versions).where(mine)).first()
        return None if row is None else Version.from_row(row)

    def versions(
        self, *, number: int | None = None, before: int | None = None, last: int | None = None
    ) -> list[Version]:
        """In order of their numbers; the last so many, below one."""
        select = sa.select(versions).where(versions.c.model_id == self.model_id)
        if number is not None:
            select = select.where(versions.c.number == number)
        if before is not None:
            select = select.where(versions.c.number < sa.literal(before, sa.BigInteger))
        with self.reading() as connection:
            rows = connection.execute(select.order_by(versions.c.number.desc()).limit(last)).all()
        return [Version.from_row(row) for row in reversed(rows)]

    def retained_versions(self) -> list[Version]:
        """Those whose deleted rows are kept for audits."""
        mine = (versions.c.model_id == self.model_id) & versions.c.retained_until.is_not(None)
        with self.reading() as connection:
            kept = sa.select(versions).where(mine).order_by(versions.c.number)
            rows = connection.execute(kept).all()
        return [Version.from_row(row) for row in rows]

    def retained_by_row(self) -> datetime | None:
        """How long deleted rows are kept for audits that were named one by one."""
        latest = (
            sa.select(sa.func.max(versions.c.retained_until))
            .join(requests, requests.c.version_id == versions.c.id)
            .join(items, items.c.request_id == requests.c.id)
            .where(versions.c.model_id == self.model_id, items.c.kind == "row", items.c.rows > 0)
        )
        with self.reading() as connection:
            return connection.execute(latest).scalar()

    def decision_on(self, request: Request) -> Decision | None:
        """The decision a request led to; None if the version in use stayed."""
        if request.version is None or request.applied_at is None or request.state == "unmatched":
            return None
        same = (versions.c.number == request.version) & (
            versions.c.employed_at == request.applied_at
        )
        found = self._decisions(same)
        return found[0] if found else None

    def decisions(
        self, *, version: int | None = None, before: int | None = None, last: int | None = None
    ) -> list[Decision]:
        """In order of the versions they led to; the last so many, below one."""
        where: sa.ColumnElement[bool] = sa.true()
        if before is not None:
            where = versions.c.number < sa.literal(before, sa.BigInteger)
        if version is not None:
            where &= versions.c.number == version
        return self._decisions(where, last)

    def _decisions(self, where: sa.ColumnElement[bool], last: int | None = None) -> list[Decision]:
        select = (
            sa.select(decisions, versions.c.number)
            .join(versions, versions.c.id == decisions.c.version_id)
            .where(decisions.c.model_id == self.model_id, where)
            .order_by(versions.c.number.desc())
            .limit(last)
        )
        with self.reading() as connection:
            rows = connection.execute(select).all()[::-1]
        return [Decision.from_row(row) for row in rows]

    def audits(self, *, id: int | None = None, last: int | None = None) -> list[AuditRecord]:
        """In order of their making; the last so many."""
        select = (
            sa.select(audits, versions.c.number)
            .join(versions, versions.c.id == audits.c.version_id)
            .where(audits.c.model_id == self.model_id)
            .order_by(audits.c.id.desc())
            .limit(last)
        )
        if id is not None:
            select = select.where(audits.c.id == id)
        with self.reading() as connection:
            rows = connection.execute(select).all()
        return [AuditRecord.from_row(row) for row in reversed(rows)]

    def request_counts(self) -> dict[str, int]:
        count = sa.select(requests.c.state, sa.func.count()).where(
            requests.c.model_id == self.model_id
        )
        with self.reading() as connection:
            rows = connection.execute(count.group_by(requests.c.state)).all()
        return dict.fromkeys(get_args(State), 0) | {row[0]: row[1] for row in rows}

    def waiting(self) -> tuple[bool, bool]:
        """Whether requests wait, and whether a purge is due."""
        some = sa.select(requests.c.id).where(
            (requests.c.model_id == self.model_id) & (requests.c.state == "pending")
        )
        due = sa.select(models.c.purge_due).where(models.c.id == self.model_id)
        with self.reading() as connection:
            found = connection.execute(sa.select(some.exists(), due.scalar_subquery())).one()
        return bool(found[0]), bool(found[1])

    def requests(
        self,
        *,
        state: str | None = None,
        key: str | None = None,
        ids: Sequence[int] | None = None,
        about: tuple[IdKind, str] | None = None,
        before: int | None = None,
        last: int | None = None,
        with_items: bool = True,
    ) -> list[Request]:
        """Requests in order of submission; the last so many, below a number.

        about: an id that they name. with_items: else only how many there are of each outcome.
        """
        where = requests.c.model_id == self.model_id
        if state is not None:
            where &= requests.c.state == state
        if key is not None:
            where &= requests.c.key == key
        if ids is not None:
            where &= requests.c.id.in_(ids)
        if before is not None:
            where &= requests.c.id < before
        if about is not None:
            kind, value = about
            digests = [self.digest(kind, text) for text in (value, value.strip())]
            named = items.c.digest.in_(digests) | (
                (items.c.kind == kind) & (items.c.value == value)
            )
            where &= requests.c.id.in_(sa.select(items.c.request_id).where(named))
        with self.reading() as connection:
            rows = connection.execute(
                sa.select(
                    requests,
                    versions.c.number.label("version"),
                    versions.c.retained_until,
                    models.c.purge_due,
                    models.c.purged_at,
                )
                .join(models, models.c.id == requests.c.model_id)
                .outerjoin(versions, versions.c.id == requests.c.version_id)
                .where(where)
                .order_by(requests.c.id.desc())
                .limit(last)
            ).all()[::-1]
            known = [row.id for row in rows]  # those filed from now on are left for later
            of = _items(connection, known) if with_items else {}
            counts = _tallies(connection, known)
        return [
            Request.from_row(row, of.get(row.id, []), counts.get(row.id, Tally())) for row in rows
        ]

    def counts_forgotten(self) -> tuple[int, int]:
        """How many rows, and how many subjects, were forgotten."""
        with self.reading() as connection:
            rows = connection.execute(
                sa.select(sa.func.count())
                .select_from(forgotten)
                .where(forgotten.c.model_id == self.model_id)
            ).scalar_one()
            people = connection.execute(
                sa.select(sa.func.count())
                .select_from(forgotten_ids)
                .where(forgotten_ids.c.model_id == self.model_id, forgotten_ids.c.kind == "subject")
            ).scalar_one()
        return rows, people

    def forgotten_rows(self, *, erased: bool | None = None) -> list[tuple[int, int]]:
        """(row, version number) of every forgotten row, or of those (not yet) erased."""
        where = forgotten.c.model_id == self.model_id
        if erased is not None:
            where &= forgotten.c.erased == erased
        select = sa.select(forgotten.c.row, versions.c.number).join(versions).where(where)
        with self.reading() as connection:
            rows = connection.execute(select.order_by(forgotten.c.row)).all()
        return [(row[0], row[1]) for row in rows]

    def has_digests(self) -> bool:
        """Whether anything here was made with the digest key."""
        asked = sa.select(requests.c.id).where(requests.c.model_id == self.model_id)
        gone = sa.select(forgotten_ids.c.digest).where(forgotten_ids.c.model_id == self.model_id)
        with self.reading() as connection:
            found = connection.execute(sa.select(asked.exists(), gone.exists())).one()
        return bool(found[0] or found[1])

    def known_digests(self, digests: Sequence[tuple[IdKind, str]]) -> set[tuple[IdKind, str]]:
        """Which of these ids were forgotten before."""
        found: set[tuple[IdKind, str]] = set()
        if not digests:
            return found
        with self.reading() as connection:
            for start in range(0, len(digests), CHUNK):
                part = [digest for _, digest in digests[start : start + CHUNK]]
                select = sa.select(forgotten_ids.c.kind, forgotten_ids.c.digest).where(
                    (forgotten_ids.c.model_id == self.model_id) & forgotten_ids.c.digest.in_(part)
                )
                found |= {(kind, digest) for kind, digest in connection.execute(select)}
        return found

    def digest(self, *texts: str) -> str:
        """A keyed digest: tells that two texts are equal, and not what they are."""
        state = hashlib.blake2b(key=self._digest_key(), digest_size=20)
        for text in texts:
            raw = text.encode()
            state.update(len(raw).to_bytes(8, "big") + raw)
        return state.hexdigest()


def _items(connection: sa.Connection, of: Sequence[int]) -> dict[int, list[Item]]:
    found: dict[int, list[Item]] = {}
    for start in range(0, len(of), CHUNK):
        part = items.c.request_id.in_(of[start : start + CHUNK])
        for item in connection.execute(sa.select(items).where(part).order_by(items.c.id)):
            found.setdefault(item.request_id, []).append(Item.from_row(item))
    return found


def _tallies(connection: sa.Connection, of: Sequence[int]) -> dict[int, Tally]:
    found: dict[int, Tally] = {}
    n, rows = sa.func.count(), sa.func.sum(items.c.rows)
    for start in range(0, len(of), CHUNK):
        count = (
            sa.select(items.c.request_id, items.c.outcome, n, rows)
            .where(items.c.request_id.in_(of[start : start + CHUNK]))
            .group_by(items.c.request_id, items.c.outcome)
        )
        for request, outcome, many, gone in connection.execute(count):
            before = found.get(request, Tally())
            more = {"ids": before.ids + many, "rows": before.rows + int(gone or 0)}
            found[request] = replace(before, **more, **({outcome: many} if outcome else {}))
    return found
