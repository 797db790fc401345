"""Where the catalogue keeps things: folders, a lock on each piece of work, space on the disk.

    UNFIT_DATA                       files a person put there; read, never changed
    CACHE/downloads/                 files that were downloaded
    CACHE/prepared/NAME-FINGERPRINT/ rows ready to be mapped

CACHE is UNFIT_CACHE, or $XDG_CACHE_HOME/unfit, or ~/.cache/unfit.
"""

import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unfit import disk
from unfit.errors import Unavailable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def data_folder() -> Path | None:
    named = os.environ.get("UNFIT_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    named = os.environ.get("UNFIT_CACHE")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "unfit"


def ensure_folder(name: str) -> Path:
    """A folder of the cache, created if it is not there."""
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"cannot create {folder}: {error.strerror}; set UNFIT_CACHE to a folder of yours"
        ) from None
    return folder


@contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time work at `name`, and remove what dead ones left of it."""
    try:
        os.close(os.open(folder / f".{name}.lock", os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise Unavailable(
            f"cannot write to {folder}: {error.strerror}; set UNFIT_CACHE to a folder of yours"
        ) from None
    with disk.locked(folder / f".{name}.lock"):
        for left in folder.glob(f".{glob.escape(name)}-{'?' * 8}{disk.TEMPORARY}"):
            disk.remove(left)
        yield


@contextmanager
def require_space(folder: Path, nbytes: int, what: str) -> Iterator[None]:
    """Refuse to start if the disk is too small, and say so if it fills up on the way."""
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise Unavailable(
            f"{what} needs {nbytes / 1e9:.3g} GB but the disk of {folder} has {free / 1e9:.3g} GB "
            "free; make room, or set UNFIT_CACHE to a folder on a larger disk"
        )
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise Unavailable(
            f"the disk of {folder} is full: {what} was given up and nothing of it kept; make room, "
            "or set UNFIT_CACHE to a folder on a larger disk"
        ) from None
