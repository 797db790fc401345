"""SGD's loop over mini-batches, fused: gradients, their sum over threads, and the step."""

from typing import NamedTuple

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss
from unfit.core.kernels.parallel import KERNEL, meet
from unfit.core.kernels.rows import BLOCK, FLUSH, PaddedRows, Span, add_gradient, add_to
from unfit.core.kernels.schedule import epoch_of, fill_slots, rank_at

# Plain tuples: numba needs 35 us to tell the types of named ones, as much as many steps take. Their
# arrays are taken out once, before the loop, and go on flat: an array in a tuple costs an atomic
# count of its references wherever a kernel takes it out.
# Of k problems: the class of each whose rows have target 1, its linear term and its weights, both
# (k, width).
Problems = tuple[np.ndarray, np.ndarray, np.ndarray]
# Seed, epochs from the first on and before the last, rows of a batch, rows of a window.
Steps = tuple[np.uint64, int, int, int, int]
# A thread among others: where they meet, the sums of each, twice, which thread, and of how many.
Team = tuple[np.ndarray, np.ndarray, int, int]


class Rate(NamedTuple):
    """The length of a step, and the regulariser per row."""

    eta: float
    l2: float


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
    w: np.ndarray, mean: np.ndarray, linear_term: np.ndarray, rate: Rate, rounded: np.ndarray
) -> None:
    """w <- w - eta (mean + l2 w + linear_term), and its copy in the data's precision."""
    eta, l2 = rate.eta, rate.l2
    for j in range(w.size):
        w[j] -= eta * (mean[j] + l2 * w[j] + linear_term[j])
        rounded[j] = w[j]


@njit(**KERNEL)
def sgd_kernel(
    rows: PaddedRows,
    loss: CompiledLoss,
    problems: Problems,
    steps: Steps,
    eta: float,
    l2: float,
    stored: np.ndarray,
    team: Team,
) -> None:
    """Take the steps; the weights move, stored (steps or 0, 2, k, d) takes w_t and g_t."""
    # Every thread keeps its own w, adds up its share of the batch, and meets the others once a
    # step; parts alternates between two halves so that nobody overwrites what another still reads.
    X, codes = rows
    positive, linear_term, weights = problems
    seed, first_epoch, last_epoch, batch, window = steps
    meeting, parts, thread, threads = team
    rate = Rate(eta, l2)
    (n, width), flat = X.shape, X.reshape(X.size)
    k = weights.shape[0]
    d = stored.shape[3]
    keep = stored.shape[0] > 0
    per_epoch = -(-n // batch)
    kind = X.dtype
    rounded = weights.astype(kind)
    gradient, margin, target = np.zeros(width, kind), np.zeros(BLOCK, kind), np.zeros(BLOCK, kind)
    mean = np.zeros(width)
    flush = FLUSH if k == 1 else BLOCK  # one problem after the other while the rows are in cache
    slots = np.empty(flush, np.int32)
    arrivals = 0
    half = 0
    for epoch in range(first_epoch, last_epoch):
        keys, visit, starts = epoch_of(n, window, seed, epoch)
        for step in range(per_epoch):
            begin = step * batch
            size = min(batch, n - begin)
            low = begin + size * thread // threads
            high = begin + size * (thread + 1) // threads
            for c in range(k):
                parts[half, c, thread] = 0.0
            for number in range((high - low + flush - 1) // flush):
                at = low + number * flush
                stop = min(at + flush, high)
                fill_slots(slots, at, stop, n, window, keys, visit, starts)
                # While this window is worked on, the next one is sent for in its own order.
                rank = rank_at(at, n, window, starts)
                ahead = at - starts[visit[rank]]
                ahead = visit[rank + 1] * window + ahead if rank + 1 < visit.size else -1
                for c in range(k):
                    gradient[:] = kind.type(0)
                    span = Span(0, stop - at, ahead if c == 0 else -1)
                    add_gradient(
                        flat, width, codes, slots, span, loss, positive[c], rounded[c],
                        gradient, margin, target,
                    )  # fmt: skip
                    add_to(parts[half, c, thread], gradient)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            t = epoch * per_epoch + step
            for c in range(k):
                add_parts(parts[half, c], 1.0 / size, mean)
                if keep and thread == t % threads:
                    stored[t, 0, c] = weights[c, :d]
                    stored[t, 1, c] = mean[:d]
                descend(weights[c], mean, linear_term[c], rate, rounded[c])
            half = 1 - half
