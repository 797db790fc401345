"""Where the time of a version goes.

There is one definition, wherever seconds are shown: the clock starts when the work is taken up (the
writer's lock is held; for an erasure, the requests that wait have been read) and stops when the
transaction that puts the version in force is committed. The clock stands still while kernels are
made ready, and the purge after the commit is counted separately.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

from unfit.core.kernels import kernels_loaded
from unfit.data import exact_sums
from unfit.store.records import Times


class CountsRows(Protocol):
    """Rows that count how many of them were read."""

    rows_read: int


@dataclass
class Stopwatch:
    """Seconds by phase. A phase inside another one stops the clock of the outer one."""

    clock: Callable[[], float] = time.perf_counter
    phases: dict[str, float] = field(default_factory=dict)
    steps: int | None = None  # the unlearning took, one for each mini-batch of deleted rows
    kernels: float = 0.0  # while the clock stood still

    def __post_init__(self) -> None:
        self._begun, self._ended = self.clock(), None
        _load_encoding_kernels()
        self.kernels = self.clock() - self._begun
        self._kernels_before = kernels_loaded()
        self._outer: list[list[float]] = []  # for each open phase, what inner ones took
        self._read: tuple[CountsRows, int] | None = None

    _ended: float | None = field(default=None, init=False, repr=False)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._outer.append([0.0])
        begun = self.clock()
        try:
            yield
        finally:
            took = self.clock() - begun
            (inner,) = self._outer.pop()
            self.phases[name] = self.phases.get(name, 0.0) + took - inner
            if self._outer:
                self._outer[-1][0] += took

    @contextmanager
    def loading_kernels(self) -> Iterator[None]:
        """Within, the clock stands still: kernels are compiled or loaded."""
        begun = self.clock()
        seen = kernels_loaded()
        yield
        took = self.clock() - begun
        self.kernels += took
        self._kernels_before += kernels_loaded() - seen
        if self._outer:
            self._outer[-1][0] += took

    def count_rows(self, data: CountsRows) -> None:
        """From now on, count the rows that sums over the remaining rows read."""
        self._read = data, data.rows_read

    @property
    def rows_read(self) -> int | None:
        return None if self._read is None else self._read[0].rows_read - self._read[1]

    def stop(self) -> None:
        """The commit is done."""
        self._ended = self.clock()

    @property
    def seconds(self) -> float:
        end = self.clock() if self._ended is None else self._ended
        return end - self._begun - self.kernels

    def times(self, purge: float | None = None) -> Times:
        return Times(
            phases=dict(self.phases),
            cold=kernels_loaded() > self._kernels_before,
            kernels=self.kernels,
            purge=purge,
            rows_read=self.rows_read,
            steps=self.steps,
        )


@cache
def _load_encoding_kernels() -> None:
    """Load the kernels that constants are made with, once."""
    few = np.zeros((2, 1), np.float32)
    for writeable in (True, False):  # they are two kinds to numba
        few.flags.writeable = writeable
        exact_sums.sums(few)
        exact_sums.square_lengths(few)
