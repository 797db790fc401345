"""No free page and no log of the database still holds what was removed from its tables.

PostgreSQL rewrites the tables that held ids and salts. SQLite overwrites what is deleted with zeros
(secure_delete), except for copies that may be left where a page was split. So its log is cut, the
file is searched for the texts that were removed, and only if one is found, or if it is not known
what was removed, the whole database is rewritten.
"""

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.connections import BUSY_SECONDS, set_synchronous
from unfit.store.database import explained

PATIENCE_MS = 300  # the vacuum waits so long for others, and nobody writes meanwhile
_FEW = 64  # texts that are searched for,
_SHORTEST, _LONGEST = 5, 256  # in bytes: shorter ones are everywhere, longer ones may be split


def vacuum(engine: sa.Engine, removed: Sequence[str] | None = None) -> None:
    """Raises Unavailable if others are in the way; then it is due again.

    removed: the texts that must be gone, where all of them are known.
    """
    if engine.dialect.name == "sqlite":
        _vacuum_sqlite(engine, removed)
    else:
        _vacuum_postgresql(engine)


def _vacuum_postgresql(engine: sa.Engine) -> None:
    left: list[str] = []

    def noticed(notice: Any) -> None:
        found = re.match(r"(\d+)", notice.message_detail or "")
        if found and int(found[1]):
            left.append(found[1])

    with explained(), engine.connect() as connection:
        plain = connection.execution_options(isolation_level="AUTOCOMMIT")
        driver: Any = plain.connection.driver_connection
        driver.add_notice_handler(noticed)
        plain.exec_driver_sql(f"SET lock_timeout = '{PATIENCE_MS}ms'")
        plain.exec_driver_sql("SET client_min_messages = 'info'")
        try:
            plain.exec_driver_sql("VACUUM (FULL, VERBOSE) request_items, certificate_salts")
        finally:
            plain.exec_driver_sql("RESET lock_timeout")
            plain.exec_driver_sql("RESET client_min_messages")
            driver.remove_notice_handler(noticed)
    if left:  # somebody's snapshot is older than the purge
        raise Unavailable("another transaction still sees erased ids; the purge goes on later")


def _vacuum_sqlite(engine: sa.Engine, removed: Sequence[str] | None) -> None:
    raw = engine.raw_connection()
    set_synchronous(raw, lasting=False)  # the log is synced once, by the checkpoint
    cursor = raw.cursor()

    def run(statement: str) -> list[Any]:
        cursor.execute(statement)
        return list(cursor.fetchall())  # to the end: a statement in progress is in the way

    def cut_log() -> None:
        ((busy, _, _),) = run("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise Unavailable("the database's log is in use by a reader; the purge goes on later")

    try:
        run(f"PRAGMA busy_timeout = {PATIENCE_MS}")
        try:
            known = removed is not None and _searchable(removed)
            if known:
                cut_log()
            if not known or _holds(Path(engine.url.database or ""), removed or ()):
                run("VACUUM")
                cut_log()
        finally:
            run(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"the database says: {error}") from None
    finally:
        cursor.close()
        raw.close()


def _searchable(removed: Sequence[str]) -> bool:
    """Whether texts can be searched for: SQLite keeps them as UTF-8, in one piece if not long."""
    sizes = [len(text.encode()) for text in removed]
    return len(sizes) <= _FEW and all(_SHORTEST <= size <= _LONGEST for size in sizes)


def _holds(path: Path, removed: Sequence[str]) -> bool:
    """Whether the file holds one of the texts anywhere, in use or not."""
    content = path.read_bytes()
    return any(text.encode() in content for text in removed)
