"""DELTAGRAD's replay of a stored SGD run without some of its rows, fused.

An exact step computes the batch's gradients; an approximate step corrects the stored gradient by
the compact L-BFGS product and takes off the deleted rows, so that it touches only those rows and
a handful of vectors. Reads one trajectory and writes another. Knows core.sgd, core.kernels.lbfgs,
core.kernels.rows, core.kernels.schedule and core.kernels.parallel.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from unfit.core.kernels.lbfgs import MEMORY, compact_coefficients, compact_middle
from unfit.core.kernels.parallel import KERNEL, available_threads, meet, new_meeting, run_threads
from unfit.core.kernels.rows import BLOCK, FLUSH, add_gradient, add_to
from unfit.core.kernels.schedule import epoch_keys, epoch_windows, fill_slots, find_positions
from unfit.core.objective import positive_codes
from unfit.core.sgd import Layout, Plan, add_parts, descend, epoch_spans
from unfit.progress import ProgressCallback

CURVATURE_FLOOR = 1e-6  # a pair is kept only if y.s > floor s.s
RESOLUTION = {
    "float32": 1e-6,
    "float64": 1e-10,
}  # and |s| > this |w|: less is rounding, not curvature
PRESENT, GONE, LEAVING = 0, 1, 2  # fate of a slot: in the data, deleted before, deleted now
_WORTH_A_THREAD = 1 << 14  # numbers in a step's deleted rows that pay for meeting at a barrier
_DENSE = 4  # with more than one row in so many leaving, looking at every row of a batch is cheaper


@dataclass(frozen=True)
class Cadence:
    """Which steps are exact: t <= burn_in, then every period-th."""

    burn_in: int
    period: int


def replay(
    layout: Layout,
    plan: Plan,
    cadence: Cadence,
    fate: np.ndarray,
    counts: np.ndarray,
    old: np.ndarray,
    new: np.ndarray,
    *,
    radius: float = np.inf,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (k, d) after the replay without the LEAVING slots, and the new batch counts.

    fate: (n,) uint8 of PRESENT, GONE or LEAVING; counts: (steps,) rows of each batch now;
    old, new: (steps, 2, k, d) trajectories read and written, never the same array.
    radius: no row is longer, so no mean gradient is. An approximate step that says otherwise has
    lost its way: it is computed exactly instead, and the pairs that misled it are dropped.
    """
    k, d = old.shape[2], old.shape[3]
    width = layout.X.shape[1]
    leaving = np.flatnonzero(fate == LEAVING)
    steps = plan.steps_per_epoch(layout.n)
    if threads is None:
        busy = leaving.size * width * k > _WORTH_A_THREAD * steps
        threads = available_threads() if busy else 1
    weights = np.zeros((threads, k, width))
    weights[:, :, :d] = old[0, 0]
    memory = _Memory.empty(threads, k, width)
    parts = np.zeros((2, k, 2, threads, width))
    positions = np.empty(leaving.size, np.int64)
    bucket_start = np.empty(steps + 1, np.int64)
    bucket = np.empty(leaving.size, np.int32)
    new_counts = np.empty_like(counts)
    gone_X, gone_codes = layout.X[leaving], layout.codes[leaving]
    dense = leaving.size * _DENSE > layout.n
    gone_index = np.zeros(layout.n, np.int32)
    gone_index[leaving] = np.arange(leaving.size)
    found = np.zeros((2, threads), np.int64)
    work = (leaving.size + layout.n // cadence.period + 16 * steps) * k * width
    for first, last in epoch_spans(plan.epochs, work):
        meeting = new_meeting()

        def body(
            thread: int, first: int = first, last: int = last, meeting: np.ndarray = meeting
        ) -> None:
            _replay_kernel(
                layout.X, layout.codes, fate, gone_X, gone_codes, gone_index, leaving,
                dense, positive_codes(k),
                weights[thread], memory.S[thread], memory.Y[thread], memory.pairs[thread],
                memory.sig[thread], memory.middle[thread], old, new, counts, new_counts,
                positions, bucket_start, bucket, parts, found, meeting, thread, threads,
                np.uint64(plan.seed), first, last, plan.batch_size, layout.window,
                plan.learning_rate, plan.l2, cadence.burn_in, cadence.period,
                RESOLUTION[layout.X.dtype.name], radius,
            )  # fmt: skip

        run_threads(body, threads, meeting)
        if progress is not None:
            progress("training", last, plan.epochs)
    return np.ascontiguousarray(weights[0, :, :d]), new_counts


@dataclass(frozen=True)
class _Memory:
    """Pairs of every class, one copy a thread: all threads walk the same path."""

    S: np.ndarray
    Y: np.ndarray
    pairs: np.ndarray
    sig: np.ndarray
    middle: np.ndarray

    @classmethod
    def empty(cls, threads: int, k: int, width: int) -> "_Memory":
        shape = (threads, k, MEMORY, width)
        middle = np.zeros((threads, k, 2 * MEMORY, 2 * MEMORY))
        return cls(
            np.zeros(shape), np.zeros(shape), np.zeros((threads, k), np.int64),
            np.zeros((threads, k)), middle,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def _sort_into_batches(
    positions: np.ndarray, batch: int, start: np.ndarray, bucket: np.ndarray
) -> None:
    """Counting sort: bucket[start[b]:start[b + 1]] are the deleted rows of batch b."""
    start[:] = 0
    for i in range(positions.size):
        start[positions[i] // batch + 1] += 1
    for b in range(start.size - 1):
        start[b + 1] += start[b]
    for i in range(positions.size - 1, -1, -1):
        b = positions[i] // batch
        start[b + 1] -= 1
        bucket[start[b + 1]] = i
    for b in range(start.size - 1):  # every start[b + 1] has come down to the start of batch b
        start[b] = start[b + 1]
    start[start.size - 1] = positions.size


@njit(nogil=True, cache=True)
def _flushed_gradient(
    X: np.ndarray, slots: np.ndarray, count: int, codes: np.ndarray, positive: int,
    w: np.ndarray, scratch: np.ndarray, residual: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """total <- data gradient of slots[:count], float64 across runs of FLUSH rows."""
    total[:] = 0.0
    for at in range(0, count, FLUSH):
        scratch[:] = 0
        stop = min(at + FLUSH, count)
        add_gradient(X, slots, at, stop, codes, positive, w, scratch, residual, -1)
        add_to(total, scratch)


@njit(**KERNEL)
def _pair(
    w: np.ndarray, old_w: np.ndarray, kept: np.ndarray, deleted: np.ndarray, old_g: np.ndarray,
    rows: int, s: np.ndarray, y: np.ndarray,
) -> None:  # fmt: skip
    """s = w - w_t and y = mean gradient over all the rows of the batch - g_t."""
    for j in range(old_w.size):
        s[j] = w[j] - old_w[j]
        y[j] = (kept[j] + deleted[j]) / rows - old_g[j]


@njit(nogil=True, cache=True)
def _keep_pair(
    S: np.ndarray, Y: np.ndarray, pairs: int, s: np.ndarray, y: np.ndarray, w: np.ndarray,
    resolution: float,
) -> int:  # fmt: skip
    """Store (s, y) if it shows positive curvature; the number of pairs after."""
    ss = np.dot(s, s)
    if not (np.dot(y, s) > CURVATURE_FLOOR * ss and ss > resolution**2 * np.dot(w, w)):
        return pairs
    if pairs == S.shape[0]:
        for i in range(pairs - 1):
            S[i] = S[i + 1]
            Y[i] = Y[i + 1]
        pairs -= 1
    S[pairs] = s
    Y[pairs] = y
    return pairs + 1


@njit(**KERNEL)
def _approximate(
    w: np.ndarray, old_w: np.ndarray, old_g: np.ndarray, deleted: np.ndarray, rows: int, left: int,
    S: np.ndarray, Y: np.ndarray, pairs: int, sig: float, middle: np.ndarray, v: np.ndarray,
    coefficients: np.ndarray, g_keep: np.ndarray,
) -> None:  # fmt: skip
    """g_keep <- (rows (g_t + B (w - w_t)) - deleted) / left."""
    for j in range(v.size):
        v[j] = w[j] - old_w[j]
    compact_coefficients(S, Y, pairs, sig, middle, v, coefficients)
    a0, a1, b0, b1 = coefficients[0, 0], coefficients[0, 1], coefficients[1, 0], coefficients[1, 1]
    y0, y1, s0, s1 = Y[0], Y[1], S[0], S[1]
    share, scale = rows / left, 1.0 / left
    for j in range(v.size):
        bv = sig * v[j] - a0 * y0[j] - a1 * y1[j] - b0 * s0[j] - b1 * s1[j]
        g_keep[j] = share * (old_g[j] + bv) - scale * deleted[j]


@njit(nogil=True, cache=True)
def _rows_with(
    fate: np.ndarray, wanted: int, slots: np.ndarray, step: int, batch: int, n: int, window: int,
    keys: np.ndarray, visit: np.ndarray, starts: np.ndarray, thread: int, threads: int,
    found: np.ndarray,
) -> int:  # fmt: skip
    """found[:count] <- slots of this thread's share of the batch that have the wanted fate."""
    begin = step * batch
    size = min(batch, n - begin)
    low, high = begin + size * thread // threads, begin + size * (thread + 1) // threads
    fill_slots(slots, low, high, n, window, keys, visit, starts)
    count = 0
    for slot in slots[: high - low]:  # without branches: nobody could predict them
        found[count] = slot
        count += fate[slot] == wanted
    return count


@njit(nogil=True, cache=True)
def _replay_kernel(
    X: np.ndarray, codes: np.ndarray, fate: np.ndarray, gone_X: np.ndarray, gone_codes: np.ndarray,
    gone_index: np.ndarray, leaving: np.ndarray, dense: bool, positive: np.ndarray,
    weights: np.ndarray, S: np.ndarray, Y: np.ndarray, pairs: np.ndarray, sig: np.ndarray,
    middle: np.ndarray, old: np.ndarray, new: np.ndarray, counts: np.ndarray,
    new_counts: np.ndarray, positions: np.ndarray, bucket_start: np.ndarray,
    bucket: np.ndarray, parts: np.ndarray, found: np.ndarray, meeting: np.ndarray, thread: int,
    threads: int, seed: np.uint64, first_epoch: int, last_epoch: int, batch: int, window: int,
    eta: float, lam: float, burn_in: int, period: int, resolution: float, radius: float,
) -> None:  # fmt: skip
    # As in SGD: one meeting a step, every thread keeps its own copy of w and of the pairs, and
    # each computes the same update from the same parts. Each writes its columns of the trajectory.
    n, width = X.shape
    k, d = old.shape[2], old.shape[3]
    steps = -(-n // batch)
    rounded = weights.astype(X.dtype)
    scratch = np.zeros(width, X.dtype)
    residual = np.zeros(BLOCK, X.dtype)
    kept, gone = np.empty(batch + 1, np.int32), np.empty(batch + 1, np.int32)
    deleted, g_keep, no_linear_term = np.zeros(width), np.zeros(width), np.zeros(width)
    s, y, v = np.zeros(width), np.zeros(width), np.zeros(d)
    coefficients = np.empty((2, MEMORY))
    mine = slice(d * thread // threads, d * (thread + 1) // threads)
    slots = np.empty(batch, np.int32)
    exact = np.zeros(k, np.bool_)
    arrivals = 0
    half = 0
    for epoch in range(first_epoch, last_epoch):
        keys = epoch_keys(seed, epoch, -(-n // window))
        visit, starts = epoch_windows(n, window, keys)
        if not dense:
            find_positions(leaving, positions, n, window, keys, starts, thread, threads)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            if thread == 0:
                _sort_into_batches(positions, batch, bucket_start, bucket)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
        for step in range(steps):
            t = epoch * steps + step
            due = t <= burn_in or (t - burn_in) % period == 0
            any_exact = False
            for c in range(k):
                exact[c] = due or pairs[c] == 0
                any_exact = any_exact or exact[c]
            n_kept = n_gone = 0
            if any_exact:
                n_kept = _rows_with(fate, PRESENT, slots, step, batch, n, window, keys, visit,
                                    starts, thread, threads, kept)  # fmt: skip
            if any_exact or dense:
                n_gone = _rows_with(fate, LEAVING, slots, step, batch, n, window, keys, visit,
                                    starts, thread, threads, gone)  # fmt: skip
                for i in range(n_gone):
                    gone[i] = gone_index[gone[i]]
            else:
                first, size = bucket_start[step], bucket_start[step + 1] - bucket_start[step]
                low = first + size * thread // threads
                n_gone = first + size * (thread + 1) // threads - low
                gone[:n_gone] = bucket[low : low + n_gone]
            found[half, thread] = n_gone
            for c in range(k):
                _flushed_gradient(gone_X, gone, n_gone, gone_codes, positive[c], rounded[c],
                                  scratch, residual, parts[half, c, 0, thread])  # fmt: skip
                if exact[c]:
                    _flushed_gradient(X, kept, n_kept, codes, positive[c], rounded[c],
                                      scratch, residual, parts[half, c, 1, thread])  # fmt: skip
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            rows = counts[t]
            left = rows - found[half].sum()
            if thread == 0:
                new_counts[t] = left
            for c in range(k):
                if left == 0:  # nothing remains of this batch: w does not move
                    if thread == 0:
                        new[t, 0, c] = weights[c, :d]
                        new[t, 1, c] = 0.0
                    continue
                old_w, old_g = old[t, 0, c], old[t, 1, c]
                add_parts(parts[half, c, 0], 1.0, deleted)
                if exact[c]:
                    add_parts(parts[half, c, 1], 1.0, g_keep)
                    _pair(weights[c], old_w, g_keep, deleted, old_g, rows, s, y)
                    pairs[c] = _keep_pair(S[c], Y[c], pairs[c], s, y, weights[c], resolution)
                    if pairs[c] > 0:
                        sig[c] = compact_middle(S[c], Y[c], pairs[c], middle[c])
                    g_keep /= left
                else:
                    _approximate(weights[c], old_w, old_g, deleted, rows, left, S[c], Y[c],
                                 pairs[c], sig[c], middle[c], v, coefficients, g_keep)  # fmt: skip
                    if not np.dot(g_keep, g_keep) <= radius**2:  # every thread sees the same
                        n_kept = _rows_with(fate, PRESENT, slots, step, batch, n, window, keys,
                                            visit, starts, thread, threads, kept)  # fmt: skip
                        _flushed_gradient(X, kept, n_kept, codes, positive[c], rounded[c],
                                          scratch, residual, parts[half, c, 1, thread])  # fmt: skip
                        arrivals += threads
                        if threads > 1:
                            meet(meeting, arrivals)
                        add_parts(parts[half, c, 1], 1.0 / left, g_keep)
                        pairs[c] = 0
                new[t, 0, c, mine] = weights[c, mine]
                new[t, 1, c, mine] = g_keep[mine]
                descend(weights[c], g_keep, no_linear_term, eta, lam, rounded[c])
            half = 1 - half
