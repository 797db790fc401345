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

import numpy as np

from unfit.core import exact
from unfit.core.kernels import kernels_loaded
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.lifecycle.pipeline import correct
from unfit.methods import Method
from unfit.store.records import Times

_WIDE = 300  # columns of float32 that are too many for the kernels of narrow rows
_warmed: set[object] = set()


@dataclass
class Stopwatch:
    """Seconds by phase. A phase inside another one stops the clock of the outer one."""

    clock: Callable[[], float] = time.perf_counter
    phases: dict[str, float] = field(default_factory=dict)
    steps: int | None = None  # the unlearning took, one for each mini-batch of deleted rows
    kernels: float = 0.0  # while the clock stood still

    def __post_init__(self) -> None:
        self._begun, self._ended = self.clock(), None
        warm_up_encoding()
        self.kernels = self.clock() - self._begun
        self._kernels_before = kernels_loaded()
        self._outer: list[list[float]] = []  # for each open phase, what inner ones took
        self._read: tuple[CpuEngine, int] | None = None

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

    def get_kernels_ready(self, method: Method, data: CpuEngine) -> None:
        """Compile or load what the method will call; that is not counted."""
        begun = self.clock()
        seen = kernels_loaded()
        warm_up(method, data)
        took = self.clock() - begun
        self.kernels += took
        self._kernels_before += kernels_loaded() - seen
        if self._outer:
            self._outer[-1][0] += took

    def count_rows(self, method: Method, data: CpuEngine) -> None:
        """From now on, count the rows that sums over the remaining rows read; a replay is not."""
        self._read = None if method.name == "deltagrad" else (data, data.rows_read)

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


def warm_up_encoding() -> None:
    """Load the kernels that constants are made with."""
    if "encoding" not in _warmed:
        few = np.zeros((2, 1), np.float32)
        for writeable in (True, False):  # they are two kinds to numba
            few.flags.writeable = writeable
            exact.sums(few)
            exact.square_lengths(few)
        _warmed.add("encoding")


def warm_up(method: Method, data: CpuEngine) -> None:
    """Train, prepare, unlearn and predict once on a few rows of the same kind as `data`'s."""
    X = data.rows.X
    narrow = X.shape[1] * X.itemsize <= 1024
    of_method = (method.name, method.solver, method.refine, method.settings.sigma > 0)
    of_rows = (narrow, X.dtype, X.flags.writeable, data.k == 1, data.rows.intercept)
    key = of_method, of_rows
    if key in _warmed:
        return
    rng = np.random.default_rng(0)
    classes = 2 if data.k == 1 else 3
    few = rng.standard_normal((48, min(X.shape[1], _WIDE))).astype(X.dtype) / 100
    few.flags.writeable = X.flags.writeable
    codes = np.arange(48, dtype=data.codes.dtype) % classes
    engine = CpuEngine(few, codes, classes, data.rows.intercept)
    state = method.prepare(method.train(engine, rng), engine)
    for gone in (np.array([0]), np.arange(1, 10)):
        state = method.unlearn(state, engine, gone, rng)
        engine.forget(gone)
        correct(state.weights, Rows(few, codes, data.rows.intercept))
    _warmed.add(key)
