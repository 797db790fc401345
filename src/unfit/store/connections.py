"""Connections to the database: SQLite with every safeguard on, PostgreSQL with time limits."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from unfit import disk
from unfit.database_url import psycopg_url
from unfit.errors import BadInput, Damaged

BUSY_SECONDS = 30.0  # to wait for a lock of SQLite
IDLE_SECONDS = 10.0  # within a transaction of PostgreSQL, before it is ended
_SQLITE_SETTINGS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    "temp_store=MEMORY",
)


def open_engine(url: str) -> sa.Engine:
    try:
        engine = sa.create_engine(
            psycopg_url(url), json_serializer=json.dumps, pool_pre_ping=True, hide_parameters=True
        )
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise BadInput(f"store.url cannot be used: {str(error).splitlines()[0][:200]}") from None
    name = engine.dialect.name
    if name == "postgresql":
        sa.event.listen(engine, "do_connect", _postgresql_settings)
        sa.event.listen(engine, "connect", _postgresql_session)
    if name not in ("sqlite", "postgresql"):
        raise BadInput(f"store.url is of {name}; unfit keeps its records in SQLite or PostgreSQL")
    if name == "sqlite":
        engine.dispose()
        engine = sa.create_engine(
            url,
            connect_args={"timeout": BUSY_SECONDS},
            pool_size=10,
            max_overflow=40,
            hide_parameters=True,
        )
        path = Path(engine.url.database or "")
        sa.event.listen(engine, "connect", _sqlite_settings)
        sa.event.listen(engine, "begin", _begin)
        _only_this_file(engine, path)
        if path.exists() and path.stat().st_size == 0:
            raise Damaged(f"{path.name} is empty; restore it from a backup")
    return engine


def _postgresql_settings(_: Any, __: Any, ___: Any, options: dict[str, Any]) -> None:
    """Notice within seconds that a database cannot be reached."""
    options.setdefault("connect_timeout", 10)
    options.setdefault("tcp_user_timeout", 20_000)


def file_of(path: str | Path) -> tuple[int, int]:
    """Which file a path names right now: its device and inode."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _only_this_file(engine: sa.Engine, path: Path) -> None:
    """Give up connections to a file that another one, such as a restored backup, has replaced.
    A file that was there once is never created again."""
    made = False

    def connecting(*_: Any) -> None:
        if made and not path.exists():
            raise sqlite3.OperationalError(f"{path.name} is gone")

    def connected(_: Any, record: Any) -> None:
        nonlocal made
        made = True
        record.info["file"] = file_of(path)

    def checked_out(_: Any, record: Any, __: Any) -> None:
        try:
            same = record.info["file"] == file_of(path)
        except FileNotFoundError:
            same = False
        if not same:
            raise sa.exc.DisconnectionError(f"{path.name} was replaced")

    sa.event.listen(engine, "do_connect", connecting)
    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "checkout", checked_out)


def _postgresql_session(connection: Any, _: object) -> None:
    """A process that is stopped within a transaction must not lock others out for good."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS:g}s'")
    connection.commit()


def _sqlite_settings(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin
    for _, _, path in connection.execute("PRAGMA database_list").fetchall():
        if path:  # the log beside it gets the same mode from SQLite
            connection.execute("PRAGMA schema_version").close()  # which makes the file
            for name in (path, f"{path}-wal", f"{path}-shm"):
                disk.owner_only(Path(name))
    for setting in _SQLITE_SETTINGS:
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if options.get("write", False):  # a read is one statement
        set_synchronous(connection.connection, lasting=options.get("lasting", True))
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def set_synchronous(pooled: Any, *, lasting: bool) -> None:
    """Whether SQLite syncs its log at the end of the next transactions of a connection.

    One that is not lasting is on the disk when the next lasting one is, and never without those
    before it; until then a power cut may take it back, and the death of a process cannot.
    """
    mode = "FULL" if lasting else "NORMAL"
    if pooled.info.get("synchronous", "FULL") != mode:
        pooled.driver_connection.execute(f"PRAGMA synchronous={mode}").close()
        pooled.info["synchronous"] = mode
