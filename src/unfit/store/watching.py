"""Has anything changed? Asked before every prediction, so it costs microseconds."""

import sqlite3
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from unfit.errors import Unavailable
from unfit.store.repository import Store

Seen = tuple[int, int]  # commits of the model, changes of tokens and sessions


class Watch:
    """Counts of changes, over one connection kept for it. Not for two threads at once."""

    def __init__(self, store: Store) -> None:
        self._engine, self._model_id = store.engine, store.model_id
        self.local = store.sqlite  # a file of this machine: asking does not wait for anybody
        self._connection: Any = None
        mark = "?" if self.local else "%s"
        self._query = f"SELECT changes, access FROM models WHERE id = {mark}"

    def ask(self) -> Seen:
        for last in (False, True):
            try:
                if self._connection is None:
                    self._connection = self._open()
                cursor = self._connection.execute(self._query, (self._model_id,))
                row = cursor.fetchone()
                cursor.close()
                return int(row[0]), int(row[1])
            except Exception as error:
                self.close()
                if last:
                    raise Unavailable(f"the database says: {str(error).strip()[:200]}") from None
        raise AssertionError

    def _open(self) -> Any:
        if self.local:
            path = self._engine.url.database
            return sqlite3.connect(
                f"file:{quote(path or '')}?mode=rw", uri=True, timeout=30.0, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
        raw = self._engine.raw_connection()
        connection: Any = raw.driver_connection
        raw.detach()  # from the pool: it stays open, and is closed here
        connection.autocommit = True
        connection.execute("SET statement_timeout = '5s'")
        return connection

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # it is broken, which is why it goes
                self._connection.close()
            self._connection = None
