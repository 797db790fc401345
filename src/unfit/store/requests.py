"""Erasure requests: submitted once, cancelled while they wait, settled by a commit."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.database import ModelDatabase, chunks, insert, insert_rows
from unfit.store.errors import KeyUsed, NotWaiting, QueueFull
from unfit.store.records import IdKind, Item, ItemOutcome, Request, RequestState, Tally
from unfit.store.schema import items, models, requests, versions

RESTORED = "restored-"  # keys of requests for people on the deletion list; these stay

_SOME: sa.BindParameter[Any] = sa.bindparam("some", expanding=True)  # ids of requests or of items
_ITEMS = sa.select(items).where(items.c.request_id.in_(_SOME)).order_by(items.c.id)
_APPLY = sa.update(requests).where(requests.c.id.in_(_SOME) & (requests.c.state == "pending"))
_DROP_VALUES = sa.update(items).where(items.c.id.in_(_SOME)).values(value=None)
_SETTLE = (
    sa.update(items)
    .where(items.c.id == sa.bindparam("item"))
    .values(outcome=sa.bindparam("outcome"), rows=sa.bindparam("rows"))
)


class Requests:
    """The tables `requests` and `request_items`."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self._mine = requests.c.model_id == database.model_id
        settled = sa.select(requests.c.id).where(self._mine & (requests.c.state != "pending"))
        named = items.c.request_id.in_(settled) & items.c.value.is_not(None)
        self._settled_ids = sa.select(items.c.id, items.c.value).where(named)
        same_key = self._mine & (requests.c.key == sa.bindparam("key"))
        self._known = sa.select(requests.c.id, requests.c.fingerprint).where(same_key)
        self._select = (
            sa.select(
                requests,
                versions.c.number.label("version"),
                versions.c.retained_until,
                models.c.purge_due,
                models.c.purged_at,
            )
            .join(models, models.c.id == requests.c.model_id)
            .outerjoin(versions, versions.c.id == requests.c.version_id)
            .where(self._mine)
            .order_by(requests.c.id.desc())
        )
        self._pending = self._select.where(requests.c.state == "pending")

    def submit(
        self,
        key: str,
        ids: Sequence[tuple[IdKind, str]],
        now: datetime,
        by: str | None = None,
        limit: int | None = None,
        *,
        lasting: bool = True,
    ) -> int:
        """Submit a request once: the same key with the same ids is the same request.

        by: whose token. limit: how many requests may wait; one more is refused. lasting: it is on
        the disk before anything is answered; otherwise when it is applied.
        """
        digest = self._database.digest
        fingerprint = digest(*sorted(f"{kind}\0{value}" for kind, value in ids))
        named = [(kind, value, digest(kind, _bare(value))) for kind, value in ids]
        with self._database.queueing(lasting=lasting) as connection:
            found = connection.execute(self._known, {"key": key}).first()
            if found is not None:
                if found.fingerprint != fingerprint:
                    raise KeyUsed(f"the key {key!r} was used for another request")
                return int(found.id)
            if limit is not None:
                self._require_space(connection, limit)
            id = insert(
                connection,
                requests,
                model_id=self._database.model_id,
                key=key,
                fingerprint=fingerprint,
                state="pending",
                submitted_at=now,
                submitted_by=by,
            )
            rows = (
                {"request_id": id, "kind": kind, "value": value, "digest": of_id}
                for kind, value, of_id in named
            )
            insert_rows(connection, items, rows)
            return id

    def _require_space(self, connection: sa.Connection, limit: int) -> None:
        count = sa.select(sa.func.count()).select_from(requests)
        waiting = connection.execute(count.where(self._mine, requests.c.state == "pending"))
        if waiting.scalar_one() >= limit:
            raise QueueFull(f"{limit:,} requests wait already; try again later")

    def take_back(self, key: str) -> None:
        """Remove a waiting request as if it had never been submitted."""
        waiting = self._mine & (requests.c.key == key) & (requests.c.state == "pending")
        with self._database.queueing() as connection:
            found = connection.execute(sa.select(requests.c.id).where(waiting)).scalar()
            if found is not None:
                connection.execute(sa.delete(items).where(items.c.request_id == found))
                connection.execute(sa.delete(requests).where(requests.c.id == found))

    def cancel(self, request_id: int, now: datetime) -> None:
        """Cancel a waiting request; it stays on record without the ids it named."""
        waiting = self._mine & (requests.c.id == request_id) & (requests.c.state == "pending")
        with self._database.queueing() as connection:
            done = connection.execute(
                sa.update(requests)
                .where(waiting, ~requests.c.key.startswith(RESTORED))
                .values(state="cancelled", cancelled_at=now)
            )
            if done.rowcount == 0:
                raise NotWaiting(
                    "the request cannot be cancelled: it is no longer waiting, or it comes from "
                    "the deletion list"
                )
            connection.execute(sa.delete(items).where(items.c.request_id == request_id))
            self._database.update_model(connection, purge_due=True)

    def counts(self) -> dict[str, int]:
        """How many requests there are in each state."""
        count = sa.select(requests.c.state, sa.func.count()).where(self._mine)
        with self._database.reading() as connection:
            rows = connection.execute(count.group_by(requests.c.state)).all()
        return dict.fromkeys(get_args(RequestState), 0) | {row[0]: row[1] for row in rows}

    def waiting(self) -> tuple[bool, bool]:
        """Whether requests are waiting, and whether a purge is due."""
        some = sa.select(requests.c.id).where(self._mine & (requests.c.state == "pending"))
        due = sa.select(models.c.purge_due).where(self._database.mine)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(some.exists(), due.scalar_subquery())).one()
        return bool(found[0]), bool(found[1])

    def find(
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
        """Requests in the order of their submission; the last so many below an id.

        about: an id that they name. with_items: otherwise only how many there are of each outcome,
        which those that wait have none of.
        """
        select = self._pending if state == "pending" else self._select
        if state not in (None, "pending"):
            select = select.where(requests.c.state == state)
        if key is not None:
            select = select.where(requests.c.key == key)
        if ids is not None:
            select = select.where(requests.c.id.in_(ids))
        if before is not None:
            select = select.where(requests.c.id < before)
        if about is not None:
            select = select.where(self._names(*about))
        if last is not None:
            select = select.limit(last)
        with self._database.reading() as connection:
            rows = connection.execute(select).all()[::-1]
            known = [row.id for row in rows]  # requests submitted from now on are left for later
            named = _items(connection, known) if with_items else {}
            counts = {} if state == "pending" and with_items else _tallies(connection, known)
        return [
            Request.from_row(row, named.get(row.id, []), counts.get(row.id, Tally()))
            for row in rows
        ]

    def _names(self, kind: IdKind, value: str) -> sa.ColumnElement[bool]:
        digests = [self._database.digest(kind, text) for text in (value, _bare(value))]
        named = items.c.digest.in_(digests) | ((items.c.kind == kind) & (items.c.value == value))
        return requests.c.id.in_(sa.select(items.c.request_id).where(named))

    # --- within a transaction ------------------------------------------------------------------

    def settle(
        self,
        connection: sa.Connection,
        version_id: int,
        request_ids: Sequence[int],
        outcomes: Iterable[tuple[int, ItemOutcome, int]],
        now: datetime,
    ) -> None:
        """Waiting requests are applied with a version, or unmatched if nobody had their ids.

        outcomes: by item, with the number of rows.
        """
        for part in chunks(request_ids):
            settled = {"state": "applied", "applied_at": now, "version_id": version_id}
            done = connection.execute(_APPLY, {"some": part, **settled})
            if done.rowcount != len(part):
                raise Unavailable("another worker has applied these requests meanwhile")
        found = [{"item": item, "outcome": one, "rows": rows} for item, one, rows in outcomes]
        if found:
            connection.execute(_SETTLE, found)
        for part in chunks(request_ids):
            connection.execute(_MARK_UNMATCHED, {"some": part})

    def purge_settled_ids(self, connection: sa.Connection) -> list[str]:
        """Drop the ids that settled requests name, and return them; digests stay."""
        found = connection.execute(self._settled_ids).all()
        for part in chunks([row.id for row in found]):
            connection.execute(_DROP_VALUES, {"some": part})
        return [row.value for row in found]


def _bare(text: str) -> str:
    """An id without the blanks around it, as `data.ids.trim` gives it, which the store does not
    know."""
    return text.strip()


def _unmatched() -> sa.Update:
    """Of some requests, mark those whose ids nobody had."""
    named = sa.select(items.c.id).where(items.c.request_id == requests.c.id)
    unknown = items.c.outcome == "unknown"
    others = named.where(~unknown | items.c.outcome.is_(None))
    nobody = named.where(unknown).exists() & ~others.exists()
    return sa.update(requests).where(requests.c.id.in_(_SOME), nobody).values(state="unmatched")


_MARK_UNMATCHED = _unmatched()


def _items(connection: sa.Connection, request_ids: Sequence[int]) -> dict[int, list[Item]]:
    found: dict[int, list[Item]] = {}
    for part in chunks(request_ids):
        for row in connection.execute(_ITEMS, {"some": part}):
            found.setdefault(row.request_id, []).append(Item.from_row(row))
    return found


def _tallies(connection: sa.Connection, request_ids: Sequence[int]) -> dict[int, Tally]:
    found: dict[int, Tally] = {}
    n, rows = sa.func.count(), sa.func.sum(items.c.rows)
    for part in chunks(request_ids):
        count = (
            sa.select(items.c.request_id, items.c.outcome, n, rows)
            .where(items.c.request_id.in_(part))
            .group_by(items.c.request_id, items.c.outcome)
        )
        for request, outcome, many, gone in connection.execute(count):
            before = found.get(request, Tally())
            more = {"ids": before.ids + many, "rows": before.rows + int(gone or 0)}
            found[request] = replace(before, **more, **({outcome: many} if outcome else {}))
    return found
