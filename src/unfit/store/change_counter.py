"""Has anything changed? Asked before every prediction, so it costs microseconds.

`ask` waits for the answer. Over PostgreSQL one can also `send` and `hear` apart, so that an event
loop does other things meanwhile, without a thread to change to and back.
"""

import sqlite3
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from unfit.errors import Unavailable
from unfit.store.connections import file_of
from unfit.store.database import ModelDatabase

_QUERY = "SELECT changes, access{} FROM models WHERE id = "
_LOCAL = f"{_QUERY.format('')}?"
_AFAR = f"{_QUERY.format(', tableoid::bigint')}$1".encode()
_NAME = b"unfit_watch"


class Seen(NamedTuple):
    """Numbers that are random and differ from all that were seen before if something changed."""

    changes: int  # of the model
    access: int  # of tokens and sessions
    place: tuple[int, int]  # which connection, which table: other ones may hold a backup


class ChangeCounter:
    """What changes, over one connection kept for it. Not for two threads at once."""

    def __init__(self, database: ModelDatabase) -> None:
        self._engine, self._model_id = database.engine, database.model_id
        self._path = self._engine.url.database or ""
        self.local = database.sqlite  # a file of this machine: asking does not wait for anybody
        self._connection: Any = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def ask(self) -> Seen:
        for last in (False, True):
            try:
                self.open()
                if self.local:
                    cursor = self._connection.execute(_LOCAL, (self._model_id,))
                    row = cursor.fetchone()
                    cursor.close()
                    return Seen(row[0], row[1], (self._opened, 0))
                return self._read(self._wire().exec_prepared(_NAME, [b"%d" % self._model_id]))
            except Exception as error:
                self.close()
                if last:
                    raise Unavailable(f"the database says: {str(error).strip()[:200]}") from None
        raise AssertionError

    def send(self) -> int:
        """Ask over PostgreSQL; the file descriptor on which the answer comes."""
        wire = self._wire()
        wire.send_query_prepared(_NAME, [b"%d" % self._model_id])
        wire.flush()
        return int(wire.socket)

    def hear(self) -> Seen | None:
        """The answer; None as long as it has not come."""
        wire = self._wire()
        wire.consume_input()
        if wire.is_busy():
            return None
        found = wire.get_result()
        while wire.get_result() is not None:  # to the end, so that it can be asked again
            pass
        return self._read(found)

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Once, and again if another file has taken the database's place."""
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
        raw.detach()  # from the pool: it stays open, and is closed here
        connection.autocommit = True
        connection.execute("SET statement_timeout = '5s'")
        made = connection.pgconn.prepare(_NAME, _AFAR)
        if made.error_message:
            raise Unavailable(made.error_message.decode())
        self._connection = connection

    def _wire(self) -> Any:
        return self._connection.pgconn

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # it is broken, which is why it goes
                self._connection.close()
            self._connection = None

    def _read(self, result: Any) -> Seen:
        if result.error_message:
            raise Unavailable(result.error_message.decode(errors="replace"))
        changes, access, table = (int(result.get_value(0, i)) for i in range(3))
        return Seen(changes, access, (self._opened, table))
