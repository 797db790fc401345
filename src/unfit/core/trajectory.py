"""DELTAGRAD's memory of a training run: every w_t and g_t, in a memory-mapped file.

The file belongs to the object: it is created with a stated size, checked against the disk before
any work, and gone with the object. Where the system allows it the file has no name from the
moment it is mapped, so that not even a killed process leaves it behind. Nothing of ours.
"""

import os
import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np


class TrajectoryFile:
    """A float64 array in a file of its own, in the temporary directory (TMPDIR)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.nbytes = require(shape)
        handle, name = tempfile.mkstemp(prefix="unfit-trajectory-", suffix=".f64")
        self._finalizer = weakref.finalize(self, _remove, name)
        with os.fdopen(handle, "wb") as file:
            if self.nbytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, self.nbytes)  # a full disk says so here
            else:
                file.truncate(self.nbytes)
        self.array = np.memmap(name, np.float64, "r+", shape=shape)
        if os.name == "posix":
            self._finalizer()

    def touch(self) -> "TrajectoryFile":
        """Bring every page in, so that the next writer does not wait for the file system."""
        self.array.reshape(-1)[:: 4096 // 8] = 0.0
        return self

    def __reduce__(self) -> tuple[object, tuple[np.ndarray]]:
        return restore, (np.array(self.array),)


class Reserve:
    """A file for whoever takes it first: two results never share one."""

    def __init__(self, file: TrajectoryFile) -> None:
        self._files = [file]

    def take(self) -> TrajectoryFile | None:
        try:
            return self._files.pop()
        except IndexError:
            return None

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _empty_reserve, ()


def _empty_reserve() -> None:
    """What a pickled reserve comes back as: there was nothing in it."""


def require(shape: tuple[int, ...], copies: int = 1) -> int:
    """The bytes of one trajectory of this shape, or an OSError if the disk cannot hold `copies`."""
    directory = tempfile.gettempdir()
    nbytes = 8 * int(np.prod(shape))
    free = int(shutil.disk_usage(directory).free)
    if copies * nbytes > free:
        raise OSError(
            f"the DELTAGRAD trajectory needs {readable(copies * nbytes)} but {directory} has "
            f"{readable(free)} free; point TMPDIR at a larger disk, or lower epochs or raise "
            "batch_size"
        )
    return nbytes


def restore(values: np.ndarray) -> TrajectoryFile:
    """A new file with the given contents."""
    file = TrajectoryFile(values.shape)
    file.array[...] = values
    return file


def readable(nbytes: int) -> str:
    """12345678 -> '12.3 MB'."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, (len(str(nbytes)) - 1) // 3)
    return f"{nbytes / 1000**power:.3g} {units[power]}"


def _remove(name: str) -> None:
    Path(name).unlink(missing_ok=True)
