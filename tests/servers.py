"""A real PostgreSQL for tests, started as another user in a folder of its own."""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def find(program: str) -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(installed[-1]) if installed else shutil.which(program)


def available() -> bool:
    return find("initdb") is not None and find("pg_ctl") is not None


class Server:
    """Databases on a unix socket; `database()` makes a new one, perhaps a copy of another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def url(self, name: str) -> str:
        return f"postgresql://tester@/{name}?host={self.folder}"

    def database(self, template: str = "template1") -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        self.run(f'CREATE DATABASE {name} TEMPLATE "{template}"')
        return name

    def run(self, statement: str) -> None:
        import psycopg

        where = f"host={self.folder} user=tester dbname=postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def postgresql() -> Iterator[Server]:
    initdb, control = find("initdb"), find("pg_ctl")
    assert initdb is not None
    assert control is not None
    folder = Path(tempfile.mkdtemp(prefix="unfit-pg-"))
    user = None
    if os.getuid() == 0:  # initdb refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"
    quiet = {"user": user, "cwd": "/", "stdout": subprocess.DEVNULL, "check": True}
    subprocess.run([initdb, "-D", data, "-U", "tester", "-A", "trust", "--no-sync"], **quiet)
    options = (
        f"-k {folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off "
        "-c autovacuum=off -c max_connections=50"
    )
    subprocess.run([control, "-D", data, "-l", log, "-w", "-o", options, "start"], **quiet)
    try:
        yield Server(folder)
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder, ignore_errors=True)
