"""Has anything changed? Asked before every prediction, so it costs microseconds.

`ask` waits for the answer. Over PostgreSQL one can also `send` and `hear` apart, so that an event
loop does other things meanwhile, without a thread to change to and back.
"""

import sqlite3
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from unfit.errors import Unavailable
from unfit.store.repository import Store

Seen = tuple[int, int]  # commits of the model, changes of tokens and sessions
_QUERY = "SELECT changes, access FROM models WHERE id = "
_NAME = b"unfit_watch"


class Watch:
    """Counts of changes, over one connection kept for it. Not for two threads at once."""

    def __init__(self, store: Store) -> None:
        self._engine, self._model_id = store.engine, store.model_id
        self.local = store.sqlite  # a file of this machine: asking does not wait for anybody
        self._connection: Any = None

    def ask(self) -> Seen:
        for last in (False, True):
            try:
                self.open()
                if self.local:
                    cursor = self._connection.execute(f"{_QUERY}?", (self._model_id,))
                    row = cursor.fetchone()
                    cursor.close()
                    return int(row[0]), int(row[1])
                return _read(self._wire().exec_prepared(_NAME, [b"%d" % self._model_id]))
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
        return _read(found)

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        if self._connection is not None:
            return
        if self.local:
            path = quote(self._engine.url.database or "")
            self._connection = sqlite3.connect(
                f"file:{path}?mode=rw", uri=True, timeout=30.0, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            return
        raw = self._engine.raw_connection()
        connection: Any = raw.driver_connection
        raw.detach()  # from the pool: it stays open, and is closed here
        connection.autocommit = True
        connection.execute("SET statement_timeout = '5s'")
        made = connection.pgconn.prepare(_NAME, f"{_QUERY}$1".encode())
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


def _read(result: Any) -> Seen:
    if result.error_message:
        raise Unavailable(result.error_message.decode(errors="replace"))
    return int(result.get_value(0, 0)), int(result.get_value(0, 1))
