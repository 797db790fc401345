"""SGD's loop over mini-batches, fused: gradients, their sum over threads, and the step."""

from typing import NamedTuple

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss
from unfit.core.kernels.parallel import KERNEL, meet
from unfit.core.kernels.rows import BLOCK, FLUSH, RowBlock, Span, Sums, Target, add_gradient, add_to
from unfit.core.kernels.schedule import epoch_of, fill_slots, rank_at


class Objective(NamedTuple):
    """What is minimised: the loss of k problems, l2 per row, and a linear term (k, width)."""

    loss: CompiledLoss
    positive: np.ndarray
    linear_term: np.ndarray
    l2: float


class Steps(NamedTuple):
    """Which steps are taken: epochs from first_epoch on, before last_epoch."""

    seed: np.uint64
    first_epoch: int
    last_epoch: int
    batch: int
    window: int
    learning_rate: float


class Team(NamedTuple):
    """A thread among others: where they meet, and the sums of each, twice."""

    meeting: np.ndarray
    parts: np.ndarray
    thread: int
    threads: int


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


class Rate(NamedTuple):
    """The length of a step, and the regulariser per row."""

    eta: float
    l2: float


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
    rows: RowBlock,
    objective: Objective,
    steps: Steps,
    weights: np.ndarray,
    stored: np.ndarray,
    team: Team,
) -> None:
    """Take the steps; weights (k, width) move, stored (steps or 0, 2, k, d) takes w_t and g_t."""
    # Every thread keeps its own w, adds up its share of the batch, and meets the others once a
    # step; parts alternates between two halves so that nobody overwrites what another still reads.
    parts, meeting, thread, threads = team.parts, team.meeting, team.thread, team.threads
    loss, positive, linear_term = objective.loss, objective.positive, objective.linear_term
    rate, batch, window = Rate(steps.learning_rate, objective.l2), steps.batch, steps.window
    n, width = rows.X.shape
    k = weights.shape[0]
    d = stored.shape[3]
    keep = stored.shape[0] > 0
    per_epoch = -(-n // batch)
    kind = rows.X.dtype
    rounded = weights.astype(kind)
    sums = Sums(np.zeros(width, kind), np.zeros(BLOCK, kind), np.zeros(BLOCK, kind))
    mean = np.zeros(width)
    flush = FLUSH if k == 1 else BLOCK  # one problem after the other while the rows are in cache
    slots = np.empty(flush, np.int32)
    arrivals = 0
    half = 0
    for number in range(steps.first_epoch, steps.last_epoch):
        epoch = epoch_of(n, window, steps.seed, number)
        for step in range(per_epoch):
            begin = step * batch
            size = min(batch, n - begin)
            low = begin + size * thread // threads
            high = begin + size * (thread + 1) // threads
            for c in range(k):
                parts[half, c, thread] = 0.0
            for at in range(low, high, flush):
                stop = min(at + flush, high)
                fill_slots(slots, at, stop, epoch)
                # While this window is worked on, the next one is sent for in its own order.
                rank = rank_at(at, epoch)
                ahead = at - epoch.starts[epoch.visit[rank]]
                last = rank + 1 == epoch.visit.size
                ahead = -1 if last else epoch.visit[rank + 1] * window + ahead
                for c in range(k):
                    sums.gradient[:] = kind.type(0)
                    span = Span(0, stop - at, ahead if c == 0 else -1)
                    add_gradient(rows, slots, span, Target(loss, positive[c]), rounded[c], sums)
                    add_to(parts[half, c, thread], sums.gradient)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            t = number * per_epoch + step
            for c in range(k):
                add_parts(parts[half, c], 1.0 / size, mean)
                if keep and thread == t % threads:
                    stored[t, 0, c] = weights[c, :d]
                    stored[t, 1, c] = mean[:d]
                descend(weights[c], mean, linear_term[c], rate, rounded[c])
            half = 1 - half
