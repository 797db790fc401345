"""Has anything changed? This is asked before every prediction, so it costs microseconds.

`read` waits for the answer. Over PostgreSQL one can also `send` the question and `receive` the
answer later, so that an event loop does other things meanwhile without switching threads.
"""

import sqlite3
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from unfit.errors import Unavailable
from unfit.store.connections import file_of
from unfit.store.database import ModelDatabase

_TERM = "SELECT term FROM models WHERE id = ?"
_QUERY = "SELECT changes, access{} FROM models WHERE id = "
_LOCAL = f"{_QUERY.format('')}?"
_REMOTE = f"{_QUERY.format(', tableoid::bigint')}$1".encode()
_NAME = b"unfit_watch"


class Counters(NamedTuple):
    """Random numbers. They differ from all earlier ones if something changed."""

    changes: int  # of the model
    access: int  # of tokens and sessions
    place: tuple[int, int]  # which connection and table: another one may hold a restored backup


class ChangeCounter:
    """Reads the counters over a connection of its own. Not for two threads at once."""

    def __init__(self, database: ModelDatabase) -> None:
        self._engine, self._model_id = database.engine, database.model_id
        self._path = self._engine.url.database or ""
        self.local = database.sqlite  # a file on this machine: reading waits for nobody
        self._connection: Any = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def read(self) -> Counters:
        for last in (False, True):
            try:
                self.open()
                if self.local:
                    cursor = self._connection.execute(_LOCAL, (self._model_id,))
                    row = cursor.fetchone()
                    cursor.close()
                    return Counters(row[0], row[1], (self._opened, 0))
                return self._read(self._pgconn().exec_prepared(_NAME, [b"%d" % self._model_id]))
            except Exception as error:
                self.close()
                if last:
                    raise Unavailable(f"the database says: {str(error).strip()[:200]}") from None
        raise AssertionError

    def term(self) -> int:
        """The term of the writer's lock, as a local database has it."""
        for last in (False, True):
            try:
                self.open()
                cursor = self._connection.execute(_TERM, (self._model_id,))
                (found,) = cursor.fetchone()
                cursor.close()
                return int(found)
            except (OSError, sqlite3.Error, TypeError) as error:
                self.close()
                if last:
                    raise Unavailable(f"the database says: {str(error).strip()[:200]}") from None
        raise AssertionError

    def send(self) -> int:
        """Send the question to PostgreSQL; the file descriptor on which the answer will come."""
        pgconn = self._pgconn()
        pgconn.send_query_prepared(_NAME, [b"%d" % self._model_id])
        pgconn.flush()
        return int(pgconn.socket)

    def receive(self) -> Counters | None:
        """The answer; None until it has come."""
        pgconn = self._pgconn()
        pgconn.consume_input()
        if pgconn.is_busy():
            return None
        found = pgconn.get_result()
        while pgconn.get_result() is not None:
            pass  # to the end: only then can another question be sent
        return self._read(found)

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Connect, unless it is done already and the database is still the same file."""
        file = file_of(self._path) if self.local else None
        if self._connection is not None:
            if file == self._file:
                return
            self.close()
        self._file = file
        self._opened += 1
        if self.local:
            self._connection = sqlite3.connect(
                f"file:{quote(self._path)}?mode=rw",
                uri=True,
                timeout=30.0,
                isolation_level=None,
                check_same_thread=False,
            )
            return
        raw = self._engine.raw_connection()
        connection: Any = raw.driver_connection
        raw.detach()  # it leaves the pool: it stays open until it is closed here
        connection.autocommit = True
        connection.execute("SET statement_timeout = '5s'")
        made = connection.pgconn.prepare(_NAME, _REMOTE)
        if made.error_message:
            raise Unavailable(made.error_message.decode())
        self._connection = connection

    def _pgconn(self) -> Any:
        return self._connection.pgconn

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # it may be broken, which is why it is closed
                self._connection.close()
            self._connection = None

    def _read(self, result: Any) -> Counters:
        if result.error_message:
            raise Unavailable(result.error_message.decode(errors="replace"))
        changes, access, table = (int(result.get_value(0, i)) for i in range(3))
        return Counters(changes, access, (self._opened, table))
