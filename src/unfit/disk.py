"""Files that survive a crash: written aside, synced to the disk, renamed into place.

Imports only errors. `TEMPORARY` marks what a crash may leave; recovery removes it.
"""

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from unfit.errors import Unavailable

if TYPE_CHECKING:
    import numpy as np

TEMPORARY = ".tmp"
SLOW_SECONDS = 2e-3  # of a sync, from which threads for the others cost less than they save
_guards = threading.local()


@contextmanager
def guarded(check: Callable[[], None]) -> Iterator[None]:
    """Within this context, the thread calls `check` before each change of a file in place."""
    before = getattr(_guards, "check", None)
    _guards.check = check
    try:
        yield
    finally:
        _guards.check = before


def check() -> None:
    """Raise if this thread may not change files any more."""
    found = getattr(_guards, "check", None)
    if found is not None:
        found()


def owner_only(path: Path) -> None:
    """Make a file or folder of ours inaccessible to other users, if possible."""
    with suppress(OSError):
        found = path.lstat()
        beyond = found.st_mode & 0o077
        if beyond and found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode):
            path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)


def private_folder(path: Path) -> Path:
    """A folder that only its owner can access; created if it does not exist."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner_only(path)
    return path


def create(path: Path) -> IO[bytes]:
    """A new file that only its owner can access, whatever the umask."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


@contextmanager
def parts_folder(folder: Path) -> Iterator[Path]:
    """A folder inside another one for files that several processes write; it goes at the end, with
    all that is in it. A process that was given up for dead and wakes later finds no folder to
    create a file in, and what it has open is no file of a folder any more."""
    parts = folder / f"parts-{secrets.token_hex(8)}"
    parts.mkdir(mode=0o700)
    try:
        yield parts
    finally:
        shutil.rmtree(parts.rename(parts.with_suffix(TEMPORARY)))


def append_part(file: IO[bytes], part: Path) -> None:
    """Append the content of a part to a file, and remove the part."""
    with part.open("rb") as content:
        shutil.copyfileobj(content, file, 1 << 20)
    part.unlink()


def sync_all(paths: Iterable[Path], slow: float = SLOW_SECONDS) -> None:
    """Sync files and folders to the disk: in turn, or, where one has taken longer than `slow`, the
    rest at once, which then takes about as long as one of them."""
    waiting = list(dict.fromkeys(paths))
    while waiting:
        started = time.perf_counter()
        sync_folder(waiting.pop(0))
        if len(waiting) > 1 and time.perf_counter() - started > slow:
            _sync_at_once(waiting)
            return


def _sync_at_once(paths: Iterable[Path]) -> None:
    failed: list[OSError] = []

    def sync(path: Path) -> None:
        try:
            sync_folder(path)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=sync, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def sync_file(path: Path) -> None:
    """Make the content of a file last."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync renames and removals in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Lock a file for this process, until it dies at the latest; False if another one has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            mine = True
        except BlockingIOError:
            mine = False
        yield mine
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that becomes `path` if the block succeeds, and is removed if not."""
    handle, name = _aside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o600)
        check()
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == name:
            _about(path, error)
        raise
    sync_folder(path.parent)


def _aside(path: Path) -> tuple[int, str]:
    """A new file beside a path: its handle and its name."""
    try:
        return tempfile.mkstemp(prefix=f".{path.name}-", suffix=TEMPORARY, dir=path.parent)
    except OSError as error:
        _about(path, error)
        raise


def _about(path: Path, error: OSError) -> None:
    """Have an error name the file that was to be written, and not the one beside it."""
    error.filename, error.filename2 = str(path), None


def write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def write_hashed(path: Path, content: bytes) -> None:
    """The same for a file whose name is a digest of its content, which whoever reads it compares:
    it may have its name before it is on the disk, and both are synced at once."""
    if path.exists():  # and may be in use
        write(path, content)
        return
    handle, name = _aside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        check()
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_all([path, path.parent])


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it exists."""
    check()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def purge_folder(folder: Path, keep: set[str], *, sync: bool = True) -> list[str]:
    """Remove everything in a folder except the names to keep; returns the names removed.

    sync: otherwise whoever calls syncs the folder.
    """
    if not folder.is_dir():
        return []
    gone = sorted(entry.name for entry in folder.iterdir() if entry.name not in keep)
    for name in gone:
        remove(folder / name)
    if gone and sync:
        sync_folder(folder)
    return gone


def zero_rows(path: Path, row_bytes: int, positions: "np.ndarray") -> None:
    """Overwrite rows of a flat file with zeros, in place. Whoever calls syncs it."""
    if len(positions) == 0 or row_bytes == 0:
        return
    import numpy as np

    ordered = np.unique(positions)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    check()
    with path.open("r+b", buffering=0) as file:
        for run in np.split(ordered, breaks):
            os.pwrite(file.fileno(), bytes(row_bytes * len(run)), int(run[0]) * row_bytes)


class ArrayWriter:
    """Appends blocks of an array to a file; synced when closed."""

    def __init__(self, path: Path, dtype: str) -> None:
        self.path, self.dtype = path, dtype
        self._file = create(path)

    def append(self, block: "np.ndarray") -> None:
        import numpy as np

        self._file.write(np.ascontiguousarray(block, np.dtype(self.dtype)).data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()


def require_space(folder: Path, nbytes: int, what: str) -> None:
    """Raise, before any work, if a disk does not have this many bytes free."""
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise Unavailable(
            f"{what} needs {nbytes / 1e9:.3g} GB but the disk of {folder} has {free / 1e9:.3g} GB "
            "free; make room, or put the workspace on a larger disk"
        )
