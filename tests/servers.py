"""A real PostgreSQL for tests, started as another user in a folder of its own."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load import postgres
from benchmarks.load.postgres import available

__all__ = ["Server", "available", "postgresql"]


class Server:
    """Databases on a unix socket; `database()` makes a new one, perhaps a copy of another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def url(self, name: str) -> str:
        return f"postgresql://{postgres.USER}@/{name}?host={self.folder}"

    def database(self, template: str = "template1") -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        self.run(f'CREATE DATABASE {name} TEMPLATE "{template}"')
        return name

    def run(self, statement: str) -> None:
        import psycopg

        where = f"host={self.folder} user={postgres.USER} dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def postgresql() -> Iterator[Server]:
    with postgres.server(["autovacuum=off", "max_connections=50"], careful=False) as folder:
        yield Server(folder)
