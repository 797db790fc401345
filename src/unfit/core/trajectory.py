"""DELTAGRAD's memory of a training run: every w_t and g_t, in a memory-mapped file.

The file belongs to the object: it is created with a stated size, checked against the disk before
any work, and removed with the object or at exit, whichever comes first. Nothing of ours.
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
        directory = tempfile.gettempdir()
        self.nbytes = 8 * int(np.prod(shape))
        free = shutil.disk_usage(directory).free
        if self.nbytes > free:
            raise OSError(
                f"the DELTAGRAD trajectory needs {readable(self.nbytes)} but {directory} has "
                f"{readable(free)} free; point TMPDIR at a larger disk, or lower epochs or raise "
                "batch_size"
            )
        handle, name = tempfile.mkstemp(prefix="unfit-trajectory-", suffix=".f64", dir=directory)
        self.path = Path(name)
        self._finalizer = weakref.finalize(self, _remove, name)
        with os.fdopen(handle, "wb") as file:
            if self.nbytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, self.nbytes)  # a full disk says so here
            else:
                file.truncate(self.nbytes)
        self.array = np.memmap(self.path, np.float64, "r+", shape=shape)

    def touch(self) -> "TrajectoryFile":
        """Bring every page in, so that the next writer does not wait for the file system."""
        self.array.reshape(-1)[:: 4096 // 8] = 0.0
        return self

    def __reduce__(self) -> tuple[object, tuple[np.ndarray]]:
        return restore, (np.array(self.array),)


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
