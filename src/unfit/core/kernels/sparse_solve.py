"""Conjugate gradients for one problem over sparse rows, from the first product to the last.

    H x = rhs,   H = X^T D X + ridge I,   guide(v) = scale v + Q^T change Q v

Threads enter once and meet between the parts of a step: each reads its rows into a table of its own
(kernels.sparse_pairs) and keeps a share of the columns of all vectors. On a hundred thousand
columns, calling threads for every part would take as long as the products.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.pairs_of_columns import Share, fill
from unfit.core.kernels.parallel import KERNEL, meet
from unfit.core.kernels.sparse_pairs import Stored, add_product

# curvatures (n, k), the problem, ridge, whether there is an intercept, place of each column (p,)
System = tuple[np.ndarray, int, float, bool, np.ndarray]
Guide = tuple[np.ndarray, np.ndarray, float]  # Q (r, d), change (r, r), scale
Vectors = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # x, left, direction, image; (d,)
Carried = tuple[np.ndarray, np.ndarray]  # X direction, and the margins there; (n,), or empty
# the barrier; sums of each thread (threads, COMPONENTS + r); products taken and indefinite (2,)
Shared = tuple[np.ndarray, np.ndarray, np.ndarray]

CURVATURE, SQUARES, ALONG, COMPONENTS = 0, 1, 2, 3  # of sums
TAKEN, INDEFINITE = 0, 1  # of results
_BLOCK = 2048  # columns at a time, that stay in the cache


@njit(**KERNEL)
def solve_one(
    rows: Stored,
    system: System,
    guide: Guide,
    moved: tuple[Vectors, Carried],
    shared: Shared,
    thread: tuple[int, np.ndarray, Share, Share, float, int],
) -> None:
    """Solve until |left|^2 <= enough; left is the right-hand side at first, and x is zero.

    Margins that are carried along lose X x: every product knows X direction, so that those at the
    weights less x cost no pass. thread: its number, the tables of all (threads, 2 d), its rows, its
    columns, enough, and the most products. A direction without positive curvature, which is
    rounding, ends it: x stays, or is the first direction.
    """
    curvatures, problem, ridge, intercept, places = system
    vectors, carried = moved
    x, _, direction, image = vectors
    meeting, sums, results = shared
    t, tables, own_rows, columns, enough, most = thread
    threads, taken = tables.shape[0], 0
    met = _guided(guide, vectors, shared, columns, t, 0)
    along = _total(sums, ALONG)
    met = _turned(vectors, shared, columns, 0.0, met)
    while along > 0.0 and taken < most:
        fill(direction, places, tables[t])
        add_product(rows, (curvatures, problem), tables[t], intercept, carried[0], own_rows)
        met += threads
        meet(meeting, met)
        sums[t, CURVATURE] = _collect(tables, places, ridge, direction, image, columns)
        met += threads
        meet(meeting, met)
        taken += 1
        curvature = _total(sums, CURVATURE)
        if curvature <= 0.0:
            if taken == 1:
                x[columns[0] : columns[1]] = direction[columns[0] : columns[1]]
                _carry(carried, 1.0, own_rows)
            break
        sums[t, SQUARES] = _advance(vectors, along / curvature, columns)
        _carry(carried, along / curvature, own_rows)
        before = along
        met += threads
        meet(meeting, met)
        if _total(sums, SQUARES) <= enough:
            break
        met = _guided(guide, vectors, shared, columns, t, met)
        along = _total(sums, ALONG)
        met = _turned(vectors, shared, columns, along / before, met)
    if t == 0:
        results[TAKEN] = taken
        results[INDEFINITE] = along <= 0.0


@njit(**KERNEL)
def _total(sums: np.ndarray, what: int) -> float:
    total = 0.0
    for t in range(sums.shape[0]):
        total += sums[t, what]
    return total


@njit(**KERNEL)
def _collect(
    tables: np.ndarray,
    places: np.ndarray,
    ridge: float,
    direction: np.ndarray,
    image: np.ndarray,
    columns: Share,
) -> float:
    """image = H direction from the tables of all threads; direction . image."""
    p, total = places.size, 0.0
    for j in range(columns[0], columns[1]):
        at = np.uint64(2) * np.uint64(places[j] if j < p else j) + np.uint64(1)
        found = ridge * direction[j]
        for t in range(tables.shape[0]):
            found += tables[t, at]
        image[j] = found
        total += found * direction[j]
    return total


@njit(**KERNEL)
def _advance(vectors: Vectors, step: float, columns: Share) -> float:
    """x += step direction, left -= step image; |left|^2."""
    x, left, direction, image = vectors
    total = 0.0
    for j in range(columns[0], columns[1]):
        x[j] += step * direction[j]
        rest = left[j] - step * image[j]
        left[j] = rest
        total += rest * rest
    return total


@njit(**KERNEL)
def _carry(carried: Carried, step: float, rows: Share) -> None:
    """margins -= step X direction, of a thread's own rows."""
    images, margins = carried
    if images.size:
        for i in range(rows[0], rows[1]):
            margins[i] -= step * images[i]


@njit(**KERNEL)
def _guided(
    guide: Guide, vectors: Vectors, shared: Shared, columns: Share, t: int, met: int
) -> int:
    """image = guide(left), and left . image in the sums; how many have met."""
    Q, change, scale = guide
    left, image = vectors[1], vectors[3]
    meeting, sums, _ = shared
    r, threads = Q.shape[0], sums.shape[0]
    for a in range(r):
        sums[t, COMPONENTS + a] = 0.0
    for start in range(columns[0], columns[1], _BLOCK):
        rest = left[start : min(start + _BLOCK, columns[1])]
        _add_components(Q, start, rest, sums[t, COMPONENTS:])
    met += threads
    meet(meeting, met)
    back = np.zeros(r)
    for a in range(r):
        component = _total(sums, COMPONENTS + a)
        for b in range(r):
            back[b] += change[b, a] * component
    sums[t, ALONG] = _combine(Q, back, scale, left, image, columns)
    met += threads
    meet(meeting, met)
    return met


@njit(**KERNEL)
def _add_components(Q: np.ndarray, start: int, rest: np.ndarray, out: np.ndarray) -> None:
    """out += Q rest, rest from column `start` on; four directions at a time, so that the vector is
    loaded once for them."""
    r, stop = Q.shape[0], start + rest.size
    whole = r // 4 * 4
    for a in range(0, whole, 4):
        one, two = Q[a, start:stop], Q[a + 1, start:stop]
        three, four = Q[a + 2, start:stop], Q[a + 3, start:stop]
        s = t = u = v = 0.0
        for j in range(rest.size):
            x = rest[j]
            s += x * one[j]
            t += x * two[j]
            u += x * three[j]
            v += x * four[j]
        out[a] += s
        out[a + 1] += t
        out[a + 2] += u
        out[a + 3] += v
    for a in range(whole, r):
        one, s = Q[a, start:stop], 0.0
        for j in range(rest.size):
            s += rest[j] * one[j]
        out[a] += s


@njit(**KERNEL)
def _add_directions(Q: np.ndarray, start: int, weights: np.ndarray, out: np.ndarray) -> None:
    """out += Q^T weights, out from column `start` on; four directions at a time."""
    r, stop = Q.shape[0], start + out.size
    whole = r // 4 * 4
    for a in range(0, whole, 4):
        one, two = Q[a, start:stop], Q[a + 1, start:stop]
        three, four = Q[a + 2, start:stop], Q[a + 3, start:stop]
        s, t, u, v = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        for j in range(out.size):
            out[j] += (s * one[j] + t * two[j]) + (u * three[j] + v * four[j])
    for a in range(whole, r):
        one, s = Q[a, start:stop], weights[a]
        for j in range(out.size):
            out[j] += s * one[j]


@njit(**KERNEL)
def _combine(
    Q: np.ndarray,
    back: np.ndarray,
    scale: float,
    left: np.ndarray,
    image: np.ndarray,
    columns: Share,
) -> float:
    """image = scale left + Q^T back; left . image."""
    total = 0.0
    for start in range(columns[0], columns[1], _BLOCK):
        rest = left[start : min(start + _BLOCK, columns[1])]
        new = image[start : start + rest.size]
        for j in range(rest.size):
            new[j] = scale * rest[j]
        _add_directions(Q, start, back, new)
        for j in range(rest.size):
            total += rest[j] * new[j]
    return total


@njit(**KERNEL)
def _turned(vectors: Vectors, shared: Shared, columns: Share, ratio: float, met: int) -> int:
    """direction = image + ratio direction; how many have met."""
    direction, image = vectors[2], vectors[3]
    meeting, sums, _ = shared
    for j in range(columns[0], columns[1]):
        direction[j] = image[j] + ratio * direction[j]
    met += sums.shape[0]
    meet(meeting, met)
    return met
