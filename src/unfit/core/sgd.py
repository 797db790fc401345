"""Mini-batch SGD on a laid-out copy of the rows, as one fused kernel.

    w <- w - eta ( mean over the batch of (p - t) x  +  lam w  +  linear_term )

`linear_term` is sigma b / |D| for INFLUENCE and zero elsewhere. Rows are in the data's precision,
the sum over at most FLUSH rows too; beyond that, and for w itself, float64. k one-vs-rest problems
walk through the same batches. Knows core.objective and core.kernels.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL, available_threads, meet, new_meeting, run_threads
from unfit.core.kernels.rows import BLOCK, FLUSH, add_gradient, add_to
from unfit.core.kernels.schedule import epoch_keys, epoch_windows, fill_slots, rank_at, window_rows
from unfit.core.objective import positive_codes
from unfit.progress import ProgressCallback

WORTH_A_BARRIER = 1 << 13  # multiply-adds of a step: fewer are done before threads have met
WORK_PER_CALL = 2e9  # multiply-adds between two looks at Ctrl-C and the progress bar


@dataclass(frozen=True)
class Layout:
    """Rows in random order, padded to whole vectors, with the intercept's ones inside.

    X (n, width); codes (n,) class of each slot; row_of (n,) the caller's row in each slot;
    d columns of X are real, the rest zero.
    """

    X: np.ndarray
    codes: np.ndarray
    row_of: np.ndarray
    d: int

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def window(self) -> int:
        return window_rows(self.n, self.X.shape[1] * self.X.itemsize)

    def radius(self, slots: np.ndarray | None = None, known: float = math.inf) -> float:
        """A bound on the length of the rows, or of those in the given slots: a power of two.

        The length of the longest row would be one person's value; the power of two above it is
        many people's. known: a bound that holds, so that nobody looks on once it is reached.
        """
        step = max(1, (1 << 20) // self.X.shape[1])
        n = self.n if slots is None else len(slots)
        bound = 0.0
        for at in range(0, n, step):
            X = self.X[at : at + step] if slots is None else self.X[slots[at : at + step]]
            longest = math.sqrt(float(np.einsum("ij,ij->i", X, X).max()))
            bound = max(bound, power_of_two_above(1.001 * longest))
            if bound >= known:
                break
        return bound


def power_of_two_above(length: float) -> float:
    """The smallest power of two that is not below a length; 1 for none."""
    return 2.0 ** math.ceil(math.log2(length)) if length > 0 else 1.0


@dataclass(frozen=True)
class Plan:
    """What SGD does, apart from the data: all that is needed to run it again."""

    seed: int
    epochs: int
    batch_size: int
    learning_rate: float
    l2: float

    def steps_per_epoch(self, n: int) -> int:
        return -(-n // self.batch_size)

    def steps(self, n: int) -> int:
        return self.epochs * self.steps_per_epoch(n)


def train_sgd(
    layout: Layout,
    plan: Plan,
    start: np.ndarray,
    *,
    linear_term: np.ndarray | None = None,
    trajectory: np.ndarray | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> np.ndarray:
    """Weights (k, d) after plan.epochs from `start` (k, d).

    trajectory: (steps, 2, k, d) to be filled with w_t and the mean data gradient g_t, or None.
    """
    k, d = start.shape
    width = layout.X.shape[1]
    if threads is None:
        threads = min(available_threads(), 1 + plan.batch_size * k * width // WORTH_A_BARRIER)
    weights = np.zeros((threads, k, width))
    weights[:, :, :d] = start
    padded_term = np.zeros((k, width))
    if linear_term is not None:
        padded_term[:, :d] = linear_term
    stored = np.empty((0, 2, k, d)) if trajectory is None else trajectory
    parts = np.zeros((2, k, threads, width))
    for first, last in epoch_spans(plan.epochs, layout.n * k * width):
        meeting = new_meeting()

        def body(
            thread: int, first: int = first, last: int = last, meeting: np.ndarray = meeting
        ) -> None:
            _sgd_kernel(
                layout.X, layout.codes, positive_codes(k), weights[thread], padded_term, stored,
                parts, meeting, thread, threads, np.uint64(plan.seed), first, last,
                plan.batch_size, layout.window, plan.learning_rate, plan.l2,
            )  # fmt: skip

        run_threads(body, threads, meeting)
        if progress is not None:
            progress("training", last, plan.epochs)
    return np.ascontiguousarray(weights[0, :, :d])


def epoch_spans(epochs: int, work_per_epoch: int) -> list[tuple[int, int]]:
    """Epochs in runs of about WORK_PER_CALL, so that a long training can be interrupted."""
    run = max(1, int(WORK_PER_CALL / max(1, work_per_epoch)))
    return [(first, min(first + run, epochs)) for first in range(0, epochs, run)]


@njit(**KERNEL)
def add_parts(parts: np.ndarray, scale: float, total: np.ndarray) -> None:
    """total <- scale times the sum of the threads' parts (threads, width)."""
    first = parts[0]
    for j in range(total.size):
        total[j] = scale * first[j]
    for thread in range(1, parts.shape[0]):
        part = parts[thread]
        for j in range(total.size):
            total[j] += scale * part[j]


@njit(**KERNEL)
def descend(
    w: np.ndarray,
    mean: np.ndarray,
    linear_term: np.ndarray,
    eta: float,
    lam: float,
    rounded: np.ndarray,
) -> None:
    """w <- w - eta (mean + lam w + linear_term), and its copy in the data's precision."""
    for j in range(w.size):
        w[j] -= eta * (mean[j] + lam * w[j] + linear_term[j])
        rounded[j] = w[j]


@njit(**KERNEL)
def _sgd_kernel(
    X: np.ndarray, codes: np.ndarray, positive: np.ndarray, weights: np.ndarray,
    linear_term: np.ndarray, stored: np.ndarray, parts: np.ndarray, meeting: np.ndarray,
    thread: int, threads: int, seed: np.uint64, first_epoch: int, last_epoch: int, batch: int,
    window: int, eta: float, lam: float,
) -> None:  # fmt: skip
    # Every thread keeps its own w, adds up its share of the batch, and meets the others once a
    # step; parts alternates between two halves so that nobody overwrites what another still reads.
    n, width = X.shape
    k = weights.shape[0]
    d = stored.shape[3]
    keep = stored.shape[0] > 0
    steps = -(-n // batch)
    rounded = weights.astype(X.dtype)
    gradient = np.zeros(width, X.dtype)
    residual = np.zeros(BLOCK, X.dtype)
    mean = np.zeros(width)
    flush = FLUSH if k == 1 else BLOCK  # one problem after the other while the rows are in cache
    slots = np.empty(flush, np.int32)
    arrivals = 0
    half = 0
    for epoch in range(first_epoch, last_epoch):
        keys = epoch_keys(seed, epoch, -(-n // window))
        visit, starts = epoch_windows(n, window, keys)
        for step in range(steps):
            begin = step * batch
            rows = min(batch, n - begin)
            low = begin + rows * thread // threads
            high = begin + rows * (thread + 1) // threads
            for c in range(k):
                parts[half, c, thread] = 0.0
            for at in range(low, high, flush):
                stop = min(at + flush, high)
                fill_slots(slots, at, stop, n, window, keys, visit, starts)
                # While this window is worked on, the next one is sent for in its own order.
                rank = rank_at(at, n, window, starts)
                ahead = at - starts[visit[rank]]
                ahead = visit[rank + 1] * window + ahead if rank + 1 < visit.size else -1
                for c in range(k):
                    gradient[:] = X.dtype.type(0)
                    add_gradient(X, slots, 0, stop - at, codes, positive[c], rounded[c], gradient,
                                 residual, ahead if c == 0 else -1)  # fmt: skip
                    add_to(parts[half, c, thread], gradient)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            t = epoch * steps + step
            for c in range(k):
                add_parts(parts[half, c], 1.0 / rows, mean)
                if keep and thread == t % threads:
                    stored[t, 0, c] = weights[c, :d]
                    stored[t, 1, c] = mean[:d]
                descend(weights[c], mean, linear_term[c], eta, lam, rounded[c])
            half = 1 - half
