"""DELTAGRAD's loop over a stored SGD run without some of its rows, fused."""

import numpy as np
from numba import njit

from unfit.core.kernels.lbfgs import compact_coefficients, compact_middle
from unfit.core.kernels.margin import CompiledLoss
from unfit.core.kernels.parallel import KERNEL, meet
from unfit.core.kernels.rows import BLOCK, FLUSH, PaddedRows, Span, add_gradient, add_to
from unfit.core.kernels.schedule import Share, epoch_of, fill_slots, find_positions
from unfit.core.kernels.sgd import Problems, Rate, Steps, add_parts, descend

CURVATURE_FLOOR = 1e-6  # a pair is kept only if y.s > floor s.s
PRESENT, GONE, LEAVING = 0, 1, 2  # fate of a slot: in the data, deleted before, deleted now


# Plain tuples, taken apart before the loop, as in SGD: named ones would cost 185 us a call.
# The rows that leave: a copy of them, their slots, the place of every slot among them, the fate of
# every slot, and whether so many leave that every row of a batch is looked at.
Deletion = tuple[PaddedRows, np.ndarray, np.ndarray, np.ndarray, bool]
# The burn-in and the period of exact steps, how short s may be beside w for a pair to be kept, and
# how long a mean gradient can be.
Rules = tuple[int, int, float, float]
# L-BFGS pairs of every problem: S and Y (k, MEMORY, width), how many, sig and M^-1.
Memory = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# The stored run and the one that is written, (steps, 2, k, d), and the rows of each batch of both.
Trajectories = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# The rows that leave, sorted by batch: their positions in the epoch, where each batch starts, and
# the rows.
Buckets = tuple[np.ndarray, np.ndarray, np.ndarray]
# A thread among others: where they meet, the sums of each, how many rows each found, which thread,
# and of how many.
Crew = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]


@njit(nogil=True, cache=True)
def _sort_into_batches(
    positions: np.ndarray, batch: int, start: np.ndarray, bucket: np.ndarray
) -> None:
    """Counting sort: bucket[start[b] : start[b + 1]] are the rows that leave batch b."""
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
    flat: np.ndarray,
    width: int,
    codes: np.ndarray,
    slots: np.ndarray,
    count: int,
    loss: CompiledLoss,
    positive: int,
    w: np.ndarray,
    scratch: np.ndarray,
    margin: np.ndarray,
    target: np.ndarray,
    total: np.ndarray,
) -> None:
    """total <- data gradient of slots[:count], float64 across runs of FLUSH rows."""
    total[:] = 0.0
    for number in range((count + FLUSH - 1) // FLUSH):
        scratch[:] = 0
        span = Span(number * FLUSH, min((number + 1) * FLUSH, count), -1)
        add_gradient(flat, width, codes, slots, span, loss, positive, w, scratch, margin, target)
        add_to(total, scratch)


@njit(**KERNEL)
def _pair(
    w: np.ndarray,
    old_w: np.ndarray,
    kept: np.ndarray,
    deleted: np.ndarray,
    old_g: np.ndarray,
    rows: int,
    s: np.ndarray,
    y: np.ndarray,
) -> None:
    """s <- w - w_t and y <- mean gradient of all rows of the batch - g_t."""
    for j in range(old_w.size):
        s[j] = w[j] - old_w[j]
        y[j] = (kept[j] + deleted[j]) / rows - old_g[j]


@njit(nogil=True, cache=True)
def _keep_pair(
    S: np.ndarray,
    Y: np.ndarray,
    pairs: int,
    s: np.ndarray,
    y: np.ndarray,
    w: np.ndarray,
    floor: float,
) -> int:
    """Store (s, y) if it shows positive curvature and |s| > floor |w|; the number of pairs then."""
    ss = np.dot(s, s)
    if not (np.dot(y, s) > CURVATURE_FLOOR * ss and ss > floor**2 * np.dot(w, w)):
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
    S: np.ndarray,
    Y: np.ndarray,
    pairs: int,
    sig: float,
    middle: np.ndarray,
    old_w: np.ndarray,
    old_g: np.ndarray,
    rows: int,
    left: int,
    w: np.ndarray,
    deleted: np.ndarray,
    v: np.ndarray,
    mean: np.ndarray,
) -> None:
    """mean <- (rows (g_t + B (w - w_t)) - deleted) / left; v is scratch."""
    for j in range(v.size):
        v[j] = w[j] - old_w[j]
    a0, a1, b0, b1 = compact_coefficients(S, Y, pairs, sig, middle, v)
    y0, y1, s0, s1 = Y[0], Y[1], S[0], S[1]
    share, scale = rows / left, 1.0 / left
    for j in range(v.size):
        bv = sig * v[j] - a0 * y0[j] - a1 * y1[j] - b0 * s0[j] - b1 * s1[j]
        mean[j] = share * (old_g[j] + bv) - scale * deleted[j]


@njit(nogil=True, cache=True)
def _rows_with(
    fate: np.ndarray,
    wanted: int,
    low: int,
    high: int,
    window: int,
    keys: np.ndarray,
    visit: np.ndarray,
    starts: np.ndarray,
    slots: np.ndarray,
    found: np.ndarray,
) -> int:
    """found[:count] <- the slots at positions low .. high - 1 of the epoch that have the wanted
    fate; slots is scratch."""
    fill_slots(slots, low, high, fate.size, window, keys, visit, starts)
    count = 0
    for slot in slots[: high - low]:  # no branches: nobody could predict them
        found[count] = slot
        count += fate[slot] == wanted
    return count


@njit(nogil=True, cache=True)
def _leaving_of_step(
    start: np.ndarray, bucket: np.ndarray, step: int, share: Share, found: np.ndarray
) -> int:
    """found[:count] <- a thread's share of the rows that leave a batch, by the sorted buckets."""
    first, size = start[step], start[step + 1] - start[step]
    low = first + size * share.thread // share.threads
    count = first + size * (share.thread + 1) // share.threads - low
    for i in range(count):
        found[i] = bucket[low + i]
    return int(count)


@njit(nogil=True, cache=True)
def replay_kernel(
    rows: PaddedRows,
    deletion: Deletion,
    loss: CompiledLoss,
    problems: Problems,
    steps: Steps,
    eta: float,
    l2: float,
    rules: Rules,
    memory: Memory,
    trajectories: Trajectories,
    buckets: Buckets,
    crew: Crew,
) -> None:
    """Replay the steps; the weights move, and the new trajectory takes w_t and g_t."""
    # As in SGD: one meeting a step, every thread keeps its own copy of w and of the pairs, and
    # each computes the same update from the same parts. Each writes its columns of the trajectory.
    X, codes = rows
    (gone_X, gone_codes), leaving, place, fate, dense = deletion
    positive, linear_term, weights = problems
    seed, first_epoch, last_epoch, batch, window = steps
    burn_in, period, resolution, radius = rules
    S, Y, pairs, sig, middle = memory
    old, new, counts, new_counts = trajectories
    positions, bucket_start, bucket = buckets
    meeting, parts, found, thread, threads = crew
    rate, share = Rate(eta, l2), Share(thread, threads)
    n, width = X.shape
    flat, gone_flat = X.reshape(X.size), gone_X.reshape(gone_X.size)
    k, d = old.shape[2], old.shape[3]
    per_epoch = -(-n // batch)
    kind = X.dtype
    rounded = weights.astype(kind)
    scratch, margin, target = np.zeros(width, kind), np.zeros(BLOCK, kind), np.zeros(BLOCK, kind)
    kept, gone = np.empty(batch + 1, np.int32), np.empty(batch + 1, np.int32)
    deleted, mean = np.zeros(width), np.zeros(width)
    s, y, v = np.zeros(width), np.zeros(width), np.zeros(d)
    mine = slice(d * thread // threads, d * (thread + 1) // threads)
    slots = np.empty(batch, np.int32)
    exact = np.zeros(k, np.bool_)
    arrivals = 0
    half = 0
    for epoch in range(first_epoch, last_epoch):
        keys, visit, starts = epoch_of(n, window, seed, epoch)
        if not dense:
            find_positions(leaving, positions, n, window, keys, starts, share)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            if thread == 0:
                _sort_into_batches(positions, batch, bucket_start, bucket)
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
        for step in range(per_epoch):
            t = epoch * per_epoch + step
            due = t <= burn_in or (t - burn_in) % period == 0
            any_exact = False
            for c in range(k):
                exact[c] = due or pairs[c] == 0
                any_exact = any_exact or exact[c]
            begin = step * batch
            size = min(batch, n - begin)
            low, high = begin + size * thread // threads, begin + size * (thread + 1) // threads
            n_kept = n_gone = 0
            if any_exact:
                n_kept = _rows_with(
                    fate, PRESENT, low, high, window, keys, visit, starts, slots, kept
                )
            if any_exact or dense:
                n_gone = _rows_with(
                    fate, LEAVING, low, high, window, keys, visit, starts, slots, gone
                )
                for i in range(n_gone):
                    gone[i] = place[gone[i]]
            else:
                n_gone = _leaving_of_step(bucket_start, bucket, step, share, gone)
            found[half, thread] = n_gone
            for c in range(k):
                _flushed_gradient(
                    gone_flat, width, gone_codes, gone, n_gone, loss, positive[c], rounded[c],
                    scratch, margin, target, parts[half, c, 0, thread],
                )  # fmt: skip
                if exact[c]:
                    _flushed_gradient(
                        flat, width, codes, kept, n_kept, loss, positive[c], rounded[c],
                        scratch, margin, target, parts[half, c, 1, thread],
                    )  # fmt: skip
            arrivals += threads
            if threads > 1:
                meet(meeting, arrivals)
            count = counts[t]
            left = count - found[half].sum()
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
                    add_parts(parts[half, c, 1], 1.0, mean)
                    _pair(weights[c], old_w, mean, deleted, old_g, count, s, y)
                    pairs[c] = _keep_pair(S[c], Y[c], pairs[c], s, y, weights[c], resolution)
                    if pairs[c] > 0:
                        sig[c] = compact_middle(S[c], Y[c], pairs[c], middle[c])
                    mean /= left
                else:
                    _approximate(
                        S[c], Y[c], pairs[c], sig[c], middle[c], old_w, old_g, count, left,
                        weights[c], deleted, v, mean,
                    )  # fmt: skip
                    if not np.dot(mean, mean) <= radius**2:  # every thread sees the same
                        n_kept = _rows_with(
                            fate, PRESENT, low, high, window, keys, visit, starts, slots, kept
                        )
                        _flushed_gradient(
                            flat, width, codes, kept, n_kept, loss, positive[c], rounded[c],
                            scratch, margin, target, parts[half, c, 1, thread],
                        )  # fmt: skip
                        arrivals += threads
                        if threads > 1:
                            meet(meeting, arrivals)
                        add_parts(parts[half, c, 1], 1.0 / left, mean)
                        pairs[c] = 0
                new[t, 0, c, mine] = weights[c, mine]
                new[t, 1, c, mine] = mean[mine]
                descend(weights[c], mean, linear_term[c], rate, rounded[c])
            half = 1 - half
