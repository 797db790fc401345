"""Connections: SQLite as careful as it can be, PostgreSQL as it comes."""

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from unfit.data.sql import psycopg_url
from unfit.errors import BadInput, Damaged


def open_engine(url: str, busy_seconds: float) -> sa.Engine:
    try:
        engine = sa.create_engine(psycopg_url(url), json_serializer=json.dumps, pool_pre_ping=True)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise BadInput(f"store.url cannot be used: {str(error).splitlines()[0][:200]}") from None
    name = engine.dialect.name
    if name not in ("sqlite", "postgresql"):
        raise BadInput(f"store.url is of {name}; unfit keeps its records in SQLite or PostgreSQL")
    if name == "sqlite":
        engine.dispose()
        engine = sa.create_engine(
            url, connect_args={"timeout": busy_seconds}, pool_size=10, max_overflow=40
        )
        path = Path(engine.url.database or "")
        sa.event.listen(engine, "connect", _sqlite_settings)
        sa.event.listen(engine, "begin", _begin)
        if path.exists() and path.stat().st_size == 0:
            raise Damaged(f"{path.name} is empty; restore it from a backup")
    return engine


def _sqlite_settings(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin
    for setting in (
        "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON",
        "temp_store=MEMORY",
    ):  # fmt: skip
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("write", False):  # a read is one statement
        connection.exec_driver_sql("BEGIN IMMEDIATE")
