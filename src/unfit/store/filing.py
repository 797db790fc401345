"""Requests: filed once, cancelled while they wait."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from unfit.errors import BadInput, LostLock, Unavailable
from unfit.store.reading import CHUNK, Records
from unfit.store.records import IdKind
from unfit.store.schema import items, models, requests

RESTORED = "restored-"  # keys of requests for people on the deletion list; these stay


def drawn() -> int:
    """A number that no other change has: a counter would come back with a restored backup."""
    return secrets.randbits(62)


class KeyUsed(BadInput):
    """A key that was used for another request."""


class QueueFull(Unavailable):
    """More requests wait than are allowed to."""


class NotWaiting(BadInput):
    """A request that does not wait any more."""


class Filing(Records):
    """The part of the repository that takes requests in."""

    change: int
    held_term: Callable[[], int | None] = staticmethod(lambda: None)  # of the lock, while held

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self.said(), self.engine.execution_options(write=True).begin() as connection:
            yield connection

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """A transaction of whoever holds the writer's lock; refused if they have lost it."""
        with self.writing() as connection:
            self.lock(connection)
            self.require_term(connection)
            yield connection

    def require_term(self, connection: sa.Connection) -> None:
        held = self.held_term()
        if held is not None:
            mine = sa.select(models.c.term).where(models.c.id == self.model_id)
            if connection.execute(mine).scalar_one() != held:
                raise LostLock

    def term(self) -> int:
        """Of the writer's lock: whoever holds it since an earlier one has lost it."""
        with self.reading() as connection:
            mine = sa.select(models.c.term).where(models.c.id == self.model_id)
            return int(connection.execute(mine).scalar_one())

    def begin_term(self, after: int) -> bool:
        """Make the lock of a term void; False if somebody else was faster."""
        same = (models.c.id == self.model_id) & (models.c.term == after)
        with self.writing() as connection:
            done = connection.execute(sa.update(models).where(same).values(term=after + 1))
            return bool(done.rowcount)

    def lock(self, connection: sa.Connection) -> None:
        """First in every transaction that changes requests or versions, so that two of them never
        wait for each other. SQLite's write transaction has locked the whole database already."""
        if connection.dialect.name != "sqlite":
            mine = sa.select(models.c.id).where(models.c.id == self.model_id)
            connection.execute(mine.with_for_update())

    def note_change(self, connection: sa.Connection, **values: Any) -> None:
        """Let whoever looks see that something is new."""
        self.change = drawn()
        mine = models.c.id == self.model_id
        connection.execute(sa.update(models).where(mine).values(changes=self.change, **values))

    def submit(
        self,
        key: str,
        ids: Sequence[tuple[IdKind, str]],
        now: datetime,
        by: str | None = None,
        limit: int | None = None,
    ) -> int:
        """File a request, once: the same key with the same ids is the same request.

        by: whose token. limit: how many may wait; one more is refused.
        """
        fingerprint = self.digest(*sorted(f"{kind}\0{value}" for kind, value in ids))
        mine = requests.c.model_id == self.model_id
        known = mine & (requests.c.key == key)
        with self.writing() as connection:
            self.lock(connection)
            found = connection.execute(
                sa.select(requests.c.id, requests.c.fingerprint).where(known)
            ).first()
            if found is not None:
                if found.fingerprint != fingerprint:
                    raise KeyUsed(f"the key {key!r} was used for another request")
                return int(found.id)
            if limit is not None:
                count = sa.select(sa.func.count()).select_from(requests)
                waiting = connection.execute(count.where(mine, requests.c.state == "pending"))
                if waiting.scalar_one() >= limit:
                    raise QueueFull(f"{limit:,} requests wait already; try again later")
            made = connection.execute(
                sa.insert(requests).values(
                    model_id=self.model_id,
                    key=key,
                    fingerprint=fingerprint,
                    state="pending",
                    submitted_at=now,
                    submitted_by=by,
                )
            ).inserted_primary_key
            assert made is not None
            named = {"request_id": int(made[0])}
            rows = (
                named | {"kind": kind, "value": value, "digest": self.digest(kind, value.strip())}
                for kind, value in ids
            )
            insert_rows(connection, items, rows)
            return int(made[0])

    def take_back(self, key: str) -> None:
        """Drop a request that waits, as if it had never been filed."""
        mine = (requests.c.model_id == self.model_id) & (requests.c.key == key)
        with self.writing() as connection:
            self.lock(connection)
            found = connection.execute(
                sa.select(requests.c.id).where(mine & (requests.c.state == "pending"))
            ).scalar()
            if found is not None:
                connection.execute(sa.delete(items).where(items.c.request_id == found))
                connection.execute(sa.delete(requests).where(requests.c.id == found))

    def cancel(self, request_id: int, now: datetime) -> None:
        """Withdraw a request that waits; it stays on record, whom it named does not."""
        mine = (requests.c.model_id == self.model_id) & (requests.c.id == request_id)
        with self.writing() as connection:
            self.lock(connection)
            done = connection.execute(
                sa.update(requests)
                .where(mine, requests.c.state == "pending", ~requests.c.key.startswith(RESTORED))
                .values(state="cancelled", cancelled_at=now)
            )
            if done.rowcount == 0:
                raise NotWaiting(
                    "the request cannot be cancelled: it does not wait any more, or it is of the "
                    "deletion list"
                )
            connection.execute(sa.delete(items).where(items.c.request_id == request_id))
            connection.execute(
                sa.update(models).where(models.c.id == self.model_id).values(purge_due=True)
            )


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    block: list[dict[str, Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == CHUNK:
            connection.execute(sa.insert(table), block)
            block = []
    if block:
        connection.execute(sa.insert(table), block)
