"""One model's part of a database: its transactions, and who may change it.

All repositories of a model share one `ModelDatabase`. A transaction that changes versions or
requests locks the model's row first, so that two such transactions never wait for each other.
Statements on the way of an erasure are made once, and take their values as parameters: to put one
together costs more than to run it.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from unfit.errors import Damaged, LostLock, Unavailable
from unfit.store.schema import models

CHUNK = 5000  # rows per statement
_T = TypeVar("_T")


class HeldLock(Protocol):
    """The writer's lock. term: the one in which this process holds it; None if it does not."""

    term: int | None


class ModelDatabase:
    """Reads and writes the records of one model in a database that may hold several.

    digest_key: is kept elsewhere, so that nobody can guess ids from their digests. lock: the
    writer's lock of this process, if it has one. fence: the first thing in every transaction that
    only the holder of a lease may make; it raises if the lease is lost.
    """

    def __init__(self, engine: sa.Engine, model_id: int, digest_key: Callable[[], bytes]) -> None:
        self.engine = engine
        self.model_id = model_id
        self.sqlite = engine.dialect.name == "sqlite"
        self.mine = models.c.id == model_id
        self.lock: HeldLock | None = None
        self.fence: Callable[[sa.Connection], None] = lambda _: None
        self.last_change = 0  # the number that the last commit of this process has drawn
        self._digest_key = digest_key
        self._update = sa.update(models).where(self.mine)
        self._term = sa.select(models.c.term).where(self.mine)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with reading(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """lasting: it is on the disk when it ends; otherwise when a later one is that lasts."""
        with writing(self.engine, lasting=lasting) as connection:
            yield connection

    @contextmanager
    def queueing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """A transaction that changes what is waiting; anybody may make it."""
        with self.writing(lasting=lasting) as connection:
            self._lock(connection)
            yield connection

    @contextmanager
    def changing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """A transaction of the process that holds the writer's lock; refused if it lost it."""
        with self.queueing(lasting=lasting) as connection:
            self.require_term(connection)
            yield connection

    def require_term(self, connection: sa.Connection) -> None:
        held = None if self.lock is None else self.lock.term
        if held is not None and connection.execute(self._term).scalar_one() != held:
            raise LostLock

    def note_change(self, connection: sa.Connection, **values: Any) -> None:
        """Let every process that watches the model see that something is new."""
        self.last_change = draw()
        self.update_model(connection, changes=self.last_change, **values)

    def update_model(self, connection: sa.Connection, **values: Any) -> None:
        connection.execute(self._update, values)

    def digest(self, *texts: str) -> str:
        """A keyed digest: it tells that two texts are equal, and not what they are."""
        state = hashlib.blake2b(key=self._digest_key(), digest_size=20)
        for text in texts:
            raw = text.encode()
            state.update(len(raw).to_bytes(8, "big") + raw)
        return state.hexdigest()

    def _lock(self, connection: sa.Connection) -> None:
        if not self.sqlite:  # whose write transaction has locked the whole database already
            connection.execute(sa.select(models.c.id).where(self.mine).with_for_update())


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    with explained(), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: sa.Engine, *, lasting: bool = True) -> Iterator[sa.Connection]:
    options = {"write": True, "lasting": lasting}
    with explained(), engine.execution_options(**options).begin() as connection:
        if not lasting and engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL synchronous_commit TO OFF")
        yield connection


@contextmanager
def explained() -> Iterator[None]:
    """Put what a database complains about into a sentence."""
    try:
        yield
    except sa.exc.TimeoutError:
        raise Unavailable("too many concurrent requests to the database; try again") from None
    except sa.exc.DBAPIError as error:
        first = str(error.orig or error).strip().splitlines()[0][:200]
        if isinstance(error, sa.exc.IntegrityError):
            raise
        if "not a database" in first or "malformed" in first:
            raise Damaged(f"the workspace's database cannot be read: {first}") from None
        raise Unavailable(f"the database says: {first}") from None


def draw() -> int:
    """A number that no other change has: a counter would come back with a restored backup."""
    return secrets.randbits(62)


@cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


def insert(connection: sa.Connection, table: sa.Table, **values: Any) -> int:
    """Insert one row; its id."""
    made = connection.execute(_insert(table), values).inserted_primary_key
    assert made is not None
    return int(made[0])


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    block: list[dict[str, Any]] = []
    for row in rows:
        block.append(row)
        if len(block) == CHUNK:
            connection.execute(_insert(table), block)
            block = []
    if block:
        connection.execute(_insert(table), block)


def chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """So many values at a time as a statement may name."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
