"""Timing, the machine, and its limits. Compare in one run, as ratios, best of several."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numba import njit

import unfit
from unfit.core.kernels.parallel import available_threads, run_threads
from unfit.experiments.machine import machine

__all__ = ["best_of", "machine", "read_bandwidth", "rewound", "syrk_rate"]


def best_of(
    times: int, work: Callable[[], object], reset: Callable[[], object] | None = None
) -> float:
    """The shortest of several runs in seconds; `reset` runs before each, off the clock."""
    shortest = float("inf")
    for _ in range(times):
        if reset is not None:
            reset()
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


@contextmanager
def rewound(clf: unfit.LogisticRegression, rows: np.ndarray) -> Iterator[Callable[[], None]]:
    """A function that puts a fitted model back to before it forgot `rows`, to do it again."""
    state, counts, data = clf._state, clf._class_counts, clf._data
    n, columns = data.n_remaining, getattr(data, "_values_in_columns", None)

    def rewind() -> None:
        if data.name == "dask":  # whose workers bring nobody back: it forgets on trial
            clf._data = data.shared()
        else:
            if columns is not None:
                data._values_in_columns = columns
            data.remaining[rows] = True
            data.n_remaining = n
        clf._class_counts = counts
        clf._activate(state)

    if data.name == "dask":
        clf._data = data.shared()
    yield rewind
    rewind()
    clf._data = data


@njit(nogil=True, fastmath=True, cache=True)
def _sum(values: np.ndarray) -> float:
    total = np.float32(0)
    for i in range(values.size):
        total += values[i]
    return total


def read_bandwidth(megabytes: int = 512) -> float:
    """Bytes per second that all cores together read from memory."""
    values = np.ones(megabytes << 18, np.float32)
    threads = available_threads()
    parts = np.array_split(values, threads)
    sums = np.zeros(threads)

    def body(thread: int) -> None:
        sums[thread] = _sum(parts[thread])

    run_threads(body, threads)
    return values.nbytes / best_of(3, lambda: run_threads(body, threads))


def syrk_rate(d: int, rows: int = 8192) -> float:
    """Float32 operations per second of X^T X; n d^2 of them."""
    X = np.random.default_rng(0).random((rows, d), np.float32)
    return rows * d * d / best_of(5, lambda: X.T @ X)
