"""A PostgreSQL of our own in a temporary folder, with its own settings: what it says is on disk."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unfit.errors import Unavailable


def _find(program: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    found = str(installed[-1]) if installed else shutil.which(program)
    if found is None:
        raise Unavailable(f"PostgreSQL's {program} is not installed; give the URL of a database")
    return found


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database; all of it is gone afterwards."""
    initdb, control = _find("initdb"), _find("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="unfit-load-pg-"))
    user = None
    if os.getuid() == 0:  # initdb refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"

    def run(*command: str | Path) -> None:
        subprocess.run(command, user=user, cwd="/", stdout=subprocess.DEVNULL, check=True)

    try:
        run(initdb, "-D", data, "-U", "unfit", "-A", "trust")
        run(control, "-D", data, "-l", log, "-w", "-o",
            f"-k {folder} -c listen_addresses=''", "start")  # fmt: skip
        try:
            yield f"postgresql://unfit@/postgres?host={folder}"
        finally:
            run(control, "-D", data, "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
