"""DELTAGRAD's loop over a stored SGD run without some of its rows, fused."""

from typing import NamedTuple

import numpy as np
from numba import njit

from unfit.core.kernels.lbfgs import Pairs, compact_coefficients, compact_middle
from unfit.core.kernels.parallel import KERNEL, meet
from unfit.core.kernels.rows import BLOCK, FLUSH, RowBlock, Span, Sums, Target, add_gradient, add_to
from unfit.core.kernels.schedule import Epoch, Share, epoch_of, fill_slots, find_positions
from unfit.core.kernels.sgd import Objective, Rate, Steps, add_parts, descend

CURVATURE_FLOOR = 1e-6  # a pair is kept only if y.s > floor s.s
PRESENT, GONE, LEAVING = 0, 1, 2  # fate of a slot: in the data, deleted before, deleted now


class Deletion(NamedTuple):
    """The rows that leave: a copy of them, their slots, and the place of each slot among them.

    fate: of every slot; dense: so many leave that every row of a batch is looked at.
    """

    rows: RowBlock
    slots: np.ndarray
    place: np.ndarray
    fate: np.ndarray
    dense: bool


class Rules(NamedTuple):
    """Which steps are exact, which pairs are kept, and how long a mean gradient can be."""

    burn_in: int
    period: int
    resolution: float
    radius: float


class Run(NamedTuple):
    """What is replayed: rows, objective and steps of the stored run, and the deletion."""

    rows: RowBlock
    objective: Objective
    steps: Steps
    deletion: Deletion
    rules: Rules


class Memory(NamedTuple):
    """L-BFGS pairs of every problem: S and Y (k, MEMORY, width), how many, sig and M^-1."""

    S: np.ndarray
    Y: np.ndarray
    number: np.ndarray
    sig: np.ndarray
    middle: np.ndarray


class Trajectories(NamedTuple):
    """The stored run and the one that is written, (steps, 2, k, d), with the rows of each batch."""

    old: np.ndarray
    new: np.ndarray
    old_counts: np.ndarray
    new_counts: np.ndarray


class Buckets(NamedTuple):
    """The rows that leave, sorted by batch: batch b has rows[start[b] : start[b + 1]]."""

    positions: np.ndarray
    start: np.ndarray
    rows: np.ndarray


class Crew(NamedTuple):
    """A thread among others: where they meet, the sums of each, and how many rows each found."""

    meeting: np.ndarray
    parts: np.ndarray
    found: np.ndarray
    buckets: Buckets
    share: Share


@njit(nogil=True, cache=True)
def _sort_into_batches(buckets: Buckets, batch: int) -> None:
    """Counting sort of the rows that leave by the batch they are in."""
    positions, start, rows = buckets.positions, buckets.start, buckets.rows
    start[:] = 0
    for i in range(positions.size):
        start[positions[i] // batch + 1] += 1
    for b in range(start.size - 1):
        start[b + 1] += start[b]
    for i in range(positions.size - 1, -1, -1):
        b = positions[i] // batch
        start[b + 1] -= 1
        rows[start[b + 1]] = i
    for b in range(start.size - 1):  # every start[b + 1] has come down to the start of batch b
        start[b] = start[b + 1]
    start[start.size - 1] = positions.size


@njit(nogil=True, cache=True)
def _flushed_gradient(
    rows: RowBlock, found: np.ndarray, target: Target, w: np.ndarray, sums: Sums, total: np.ndarray
) -> None:
    """total <- data gradient of the found slots, float64 across runs of FLUSH rows."""
    total[:] = 0.0
    for at in range(0, found.size, FLUSH):
        sums.gradient[:] = 0
        span = Span(at, min(at + FLUSH, found.size), -1)
        add_gradient(rows, found, span, target, w, sums)
        add_to(total, sums.gradient)


class Step(NamedTuple):
    """One step of one problem: w_t and g_t as stored, rows in the batch then, and rows left now."""

    w: np.ndarray
    g: np.ndarray
    rows: int
    left: int


@njit(**KERNEL)
def _keep_pair(
    pairs: Pairs, step: Step, w: np.ndarray, kept: np.ndarray, deleted: np.ndarray, floor: float
) -> int:
    """Store s = w - w_t and y = mean gradient of all rows of the batch - g_t, if they show positive
    curvature and |s| > floor |w|; the number of pairs after."""
    s, y = np.zeros(w.size), np.zeros(w.size)
    for j in range(step.w.size):
        s[j] = w[j] - step.w[j]
        y[j] = (kept[j] + deleted[j]) / step.rows - step.g[j]
    S, Y, count = pairs.S, pairs.Y, pairs.number
    ss = np.dot(s, s)
    if not (np.dot(y, s) > CURVATURE_FLOOR * ss and ss > floor**2 * np.dot(w, w)):
        return count
    if count == S.shape[0]:
        for i in range(count - 1):
            S[i] = S[i + 1]
            Y[i] = Y[i + 1]
        count -= 1
    S[count] = s
    Y[count] = y
    return count + 1


@njit(**KERNEL)
def _approximate(
    pairs: Pairs, step: Step, w: np.ndarray, deleted: np.ndarray, v: np.ndarray, mean: np.ndarray
) -> None:
    """mean <- (rows (g_t + B (w - w_t)) - deleted) / left; v is scratch."""
    for j in range(v.size):
        v[j] = w[j] - step.w[j]
    a0, a1, b0, b1 = compact_coefficients(pairs, v)
    y0, y1, s0, s1 = pairs.Y[0], pairs.Y[1], pairs.S[0], pairs.S[1]
    old_g, sig = step.g, pairs.sig
    share, scale = step.rows / step.left, 1.0 / step.left
    for j in range(v.size):
        bv = sig * v[j] - a0 * y0[j] - a1 * y1[j] - b0 * s0[j] - b1 * s1[j]
        mean[j] = share * (old_g[j] + bv) - scale * deleted[j]


class Part(NamedTuple):
    """A thread's share of a batch: positions low .. high - 1 of an epoch; scratch for slots."""

    low: int
    high: int
    slots: np.ndarray


@njit(nogil=True, cache=True)
def _rows_with(
    fate: np.ndarray, wanted: int, part: Part, epoch: Epoch, found: np.ndarray
) -> np.ndarray:
    """The slots of this thread's share of the batch that have the wanted fate, in found."""
    fill_slots(part.slots, part.low, part.high, epoch)
    count = 0
    for slot in part.slots[: part.high - part.low]:  # no branches: nobody could predict them
        found[count] = slot
        count += fate[slot] == wanted
    return found[:count]


@njit(nogil=True, cache=True)
def _leaving_of_step(buckets: Buckets, step: int, share: Share, found: np.ndarray) -> np.ndarray:
    """A thread's share of the rows that leave a batch, by the sorted buckets."""
    first, size = buckets.start[step], buckets.start[step + 1] - buckets.start[step]
    low = first + size * share.thread // share.threads
    count = first + size * (share.thread + 1) // share.threads - low
    found[:count] = buckets.rows[low : low + count]
    return found[:count]


@njit(nogil=True, cache=True)
def replay_kernel(
    run: Run, weights: np.ndarray, memory: Memory, trajectories: Trajectories, crew: Crew
) -> None:
    """Replay the steps; weights (k, width) move, and trajectories.new takes w_t and g_t."""
    # As in SGD: one meeting a step, every thread keeps its own copy of w and of the pairs, and
    # each computes the same update from the same parts. Each writes its columns of the trajectory.
    rows, deletion, rules, steps = run.rows, run.deletion, run.rules, run.steps
    objective, batch, fate = run.objective, run.steps.batch, run.deletion.fate
    meeting, parts, share = crew.meeting, crew.parts, crew.share
    thread, threads = share.thread, share.threads
    old, new = trajectories.old, trajectories.new
    rate = Rate(steps.learning_rate, objective.l2)
    n, width = rows.X.shape
    k, d = old.shape[2], old.shape[3]
    per_epoch = -(-n // batch)
    kind = rows.X.dtype
    rounded = weights.astype(kind)
    sums = Sums(np.zeros(width, kind), np.zeros(BLOCK, kind), np.zeros(BLOCK, kind))
    in_kept, in_gone = np.empty(batch + 1, np.int32), np.empty(batch + 1, np.int32)
    deleted, mean, v = np.zeros(width), np.zeros(width), np.zeros(d)
    mine = slice(d * thread // threads, d * (thread + 1) // threads)
    slots = np.empty(batch, np.int32)
    exact = np.zeros(k, np.bool_)
    arrivals = 0
    half = 0
    for number in range(steps.first_epoch, steps.last_epoch):
        epoch = epoch_of(n, steps.window, steps.seed, number)
        if not deletion.dense:
            find_positions(deletion.slots, crew.buckets.positions, epoch, share)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            if thread == 0:
                _sort_into_batches(crew.buckets, batch)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
        for step in range(per_epoch):
            t = number * per_epoch + step
            due = t <= rules.burn_in or (t - rules.burn_in) % rules.period == 0
            any_exact = False
            for c in range(k):
                exact[c] = due or memory.number[c] == 0
                any_exact = any_exact or exact[c]
            begin = step * batch
            size = min(batch, n - begin)
            low, high = begin + size * thread // threads, begin + size * (thread + 1) // threads
            part = Part(low, high, slots)
            kept, gone = in_kept[:0], in_gone[:0]
            if any_exact:
                kept = _rows_with(fate, PRESENT, part, epoch, in_kept)
            if any_exact or deletion.dense:
                gone = _rows_with(fate, LEAVING, part, epoch, in_gone)
                for i in range(gone.size):
                    gone[i] = deletion.place[gone[i]]
            else:
                gone = _leaving_of_step(crew.buckets, step, share, in_gone)
            crew.found[half, thread] = gone.size
            for c in range(k):
                target = Target(objective.loss, objective.positive[c])
                _flushed_gradient(
                    deletion.rows, gone, target, rounded[c], sums, parts[half, c, 0, thread]
                )
                if exact[c]:
                    _flushed_gradient(
                        rows, kept, target, rounded[c], sums, parts[half, c, 1, thread]
                    )
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            count = trajectories.old_counts[t]
            left = count - crew.found[half].sum()
            if thread == 0:
                trajectories.new_counts[t] = left
            for c in range(k):
                if left == 0:  # nothing remains of this batch: w does not move
                    if thread == 0:
                        new[t, 0, c] = weights[c, :d]
                        new[t, 1, c] = 0.0
                    continue
                stored = Step(old[t, 0, c], old[t, 1, c], count, left)
                pairs = Pairs(
                    memory.S[c], memory.Y[c], memory.number[c], memory.sig[c], memory.middle[c]
                )
                add_parts(parts[half, c, 0], 1.0, deleted)
                if exact[c]:
                    add_parts(parts[half, c, 1], 1.0, mean)
                    memory.number[c] = _keep_pair(
                        pairs, stored, weights[c], mean, deleted, rules.resolution
                    )
                    if memory.number[c] > 0:
                        memory.sig[c] = compact_middle(
                            memory.S[c], memory.Y[c], memory.number[c], memory.middle[c]
                        )
                    mean /= left
                else:
                    _approximate(pairs, stored, weights[c], deleted, v, mean)
                    if not np.dot(mean, mean) <= rules.radius**2:  # every thread sees the same
                        kept = _rows_with(fate, PRESENT, part, epoch, in_kept)
                        target = Target(objective.loss, objective.positive[c])
                        _flushed_gradient(
                            rows, kept, target, rounded[c], sums, parts[half, c, 1, thread]
                        )
                        arrivals += threads
                        if threads > 1:
                            meet(meeting, arrivals)
                        add_parts(parts[half, c, 1], 1.0 / left, mean)
                        memory.number[c] = 0
                new[t, 0, c, mine] = weights[c, mine]
                new[t, 1, c, mine] = mean[mine]
                descend(weights[c], mean, objective.linear_term[c], rate, rounded[c])
            half = 1 - half
