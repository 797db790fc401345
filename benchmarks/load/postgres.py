"""A PostgreSQL of our own in a temporary folder, started as another user where root is refused."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unfit.errors import Unavailable

USER = "unfit"


def find(program: str) -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(installed[-1]) if installed else shutil.which(program)


def available() -> bool:
    return find("initdb") is not None and find("pg_ctl") is not None


@contextmanager
def server(settings: Sequence[str] = (), *, careful: bool = True) -> Iterator[Path]:
    """The folder of its socket; all of it is gone afterwards.

    settings: NAME=VALUE. careful: what it says is on disk; else it is quick, for tests.
    """
    initdb, control = find("initdb"), find("pg_ctl")
    if initdb is None or control is None:
        raise Unavailable("PostgreSQL's server is not installed; give the URL of a database")
    folder = Path(tempfile.mkdtemp(prefix="unfit-pg-"))
    user = None
    if os.getuid() == 0:  # initdb refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"
    quick = [] if careful else ["fsync=off", "full_page_writes=off"]
    chosen = "".join(f" -c {setting}" for setting in [*quick, *settings])

    def run(*command: str | Path) -> None:
        subprocess.run(command, user=user, cwd="/", stdout=subprocess.DEVNULL, check=True)

    try:
        run(initdb, "-D", data, "-U", USER, "-A", "trust", *([] if careful else ["--no-sync"]))
        run(
            control,
            "-D",
            data,
            "-l",
            log,
            "-w",
            "-o",
            f"-k {folder} -c listen_addresses=''{chosen}",
            "start",
        )
        try:
            yield folder
        finally:
            run(control, "-D", data, "-m", "fast" if careful else "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database."""
    with server() as folder:
        yield f"postgresql://{USER}@/postgres?host={folder}"
