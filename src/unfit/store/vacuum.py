"""Rewriting the tables that held ids and salts: no free page and no log still holds them then."""

import re
import sqlite3
from typing import Any

import sqlalchemy as sa

from unfit.errors import Unavailable
from unfit.store.connections import BUSY_SECONDS, set_synchronous
from unfit.store.database import explained

PATIENCE_MS = 300  # the vacuum waits so long for others, and nobody writes meanwhile


def vacuum(engine: sa.Engine) -> None:
    """Raises Unavailable if others are in the way; then it is due again."""
    if engine.dialect.name == "sqlite":
        _vacuum_sqlite(engine)
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


def _vacuum_sqlite(engine: sa.Engine) -> None:
    raw = engine.raw_connection()
    set_synchronous(raw, lasting=False)  # the log is synced once, by the checkpoint
    cursor = raw.cursor()

    def run(statement: str) -> list[Any]:
        cursor.execute(statement)
        return list(cursor.fetchall())  # to the end: a statement in progress is in the way

    try:
        run(f"PRAGMA busy_timeout = {PATIENCE_MS}")
        try:
            run("VACUUM")
            ((busy, _, _),) = run("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            run(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"the database says: {error}") from None
    finally:
        cursor.close()
        raw.close()
    if busy:
        raise Unavailable("the database's log is in use by a reader; the purge goes on later")
