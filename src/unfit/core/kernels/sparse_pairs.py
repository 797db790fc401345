"""One vector and sparse rows: every row is read once, and used twice while it is in the cache.

A thread needs x.v of a row, and then adds weight x to a result of its own. Both go to the same
columns, so the vector and the result lie side by side in one table,

    table[2 j] = v_j,   table[2 j + 1] = result_j,     the intercept last

and the second visit of a column finds its cache line at hand. Columns are in an order of the
caller's (`places`), in which those that many rows share stand close together.

Indices are unsigned where numba compiles them: it looks whether a signed one counts from the end,
which costs as much as all the rest. Four sums at a time, since each addition waits for the last.
What is done with a row is inlined by numba: a call would count references, which takes as long as
thirty values do.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, curvature, slope, value
from unfit.core.kernels.parallel import KERNEL, prefetch

# indptr, indices, data, whether data holds one number for each row, which all its values are
Stored = tuple[np.ndarray, np.ndarray, np.ndarray, bool]
Share = tuple[int, int]  # rows that one thread reads: from, to

AHEAD = 4  # rows, at which columns are asked for before they are needed
_IN_CACHE = 1 << 20  # bytes of a table whose columns need not be asked for
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_WHOLE = np.uint64(0xFFFFFFFFFFFFFFFC)  # of a number of values, those in groups of four


@njit(**KERNEL)
def fill(v: np.ndarray, places: np.ndarray, table: np.ndarray) -> None:
    """The vector v (d,), each column at its place, with results of zero."""
    p = places.size
    for j in range(p):
        at = _2 * np.uint64(places[j])
        table[at] = v[j]
        table[at + _1] = 0.0
    for j in range(p, v.size):
        table[2 * j] = v[j]
        table[2 * j + 1] = 0.0


@njit(**KERNEL)
def collect(tables: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """out (d,): the sum of the results of tables (threads, 2 d), each column from its place."""
    p = places.size
    for j in range(out.size):
        at = _2 * np.uint64(places[j] if j < p else j) + _1
        total = 0.0
        for t in range(tables.shape[0]):
            total += tables[t, at]
        out[j] = total


@njit(**KERNEL, inline="always")
def _announce(indptr: np.ndarray, indices: np.ndarray, row: int, table: np.ndarray) -> None:
    """Ask for the cache lines of the columns of a row."""
    for at in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        prefetch(table, np.int64(_2 * np.uint64(indices[at])))


@njit(**KERNEL, inline="always")
def _sum(indices: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray) -> float:
    """The sum of v over some columns."""
    whole = at + ((stop - at) & _WHOLE)
    a = b = c = d = table.dtype.type(0)
    while at < whole:
        a += table[_2 * np.uint64(indices[at])]
        b += table[_2 * np.uint64(indices[at + _1])]
        c += table[_2 * np.uint64(indices[at + _2])]
        d += table[_2 * np.uint64(indices[at + _3])]
        at += _4
    while at < stop:
        a += table[_2 * np.uint64(indices[at])]
        at += _1
    total: float = (a + b) + (c + d)
    return total


@njit(**KERNEL, inline="always")
def _dot(
    indices: np.ndarray, data: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray
) -> float:
    """x.v of some stored numbers."""
    whole = at + ((stop - at) & _WHOLE)
    a = b = c = d = table.dtype.type(0)
    while at < whole:
        a += data[at] * table[_2 * np.uint64(indices[at])]
        b += data[at + _1] * table[_2 * np.uint64(indices[at + _1])]
        c += data[at + _2] * table[_2 * np.uint64(indices[at + _2])]
        d += data[at + _3] * table[_2 * np.uint64(indices[at + _3])]
        at += _4
    while at < stop:
        a += data[at] * table[_2 * np.uint64(indices[at])]
        at += _1
    total: float = (a + b) + (c + d)
    return total


@njit(**KERNEL, inline="always")
def _add_alike(
    indices: np.ndarray, at: np.uint64, stop: np.uint64, scale: float, table: np.ndarray
) -> None:
    """result += scale in some columns."""
    while at < stop:
        table[_2 * np.uint64(indices[at]) + _1] += scale
        at += _1


@njit(**KERNEL, inline="always")
def _add(
    indices: np.ndarray,
    data: np.ndarray,
    at: np.uint64,
    stop: np.uint64,
    scale: float,
    table: np.ndarray,
) -> None:
    """result += scale x of some stored numbers."""
    while at < stop:
        table[_2 * np.uint64(indices[at]) + _1] += scale * data[at]
        at += _1


@njit(**KERNEL)
def add_product(
    rows: Stored,
    weights: tuple[np.ndarray, int],
    table: np.ndarray,
    intercept: bool,
    images: np.ndarray,
    share: Share,
) -> None:
    """result += weight x (x.v) over the rows of a share; weights: curvatures (n, k), a problem.

    images (n,): x.v is written there, of rows without weight too; empty where nobody asks.
    """
    indptr, indices, data, alike = rows
    curvatures, c = weights
    last, total = table.size - 2, 0.0
    constant = table[last] if intercept else table.dtype.type(0)
    far = table.size * table.itemsize > _IN_CACHE
    for i in range(share[0], share[1]):
        if far and i + AHEAD < share[1]:
            _announce(indptr, indices, i + AHEAD, table)
        weight = table.dtype.type(curvatures[i, c])
        if weight == 0.0 and images.size == 0:
            continue
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        each = table.dtype.type(data[i] if alike else 1)
        if alike:
            image = each * _sum(indices, start, stop, table) + constant
        else:
            image = _dot(indices, data, start, stop, table) + constant
        if images.size:
            images[i] = image
            if weight == 0.0:
                continue
        scale = weight * image
        if alike:
            _add_alike(indices, start, stop, scale * each, table)
        else:
            _add(indices, data, start, stop, scale, table)
        total += scale
    if intercept:
        table[last + 1] += total


@njit(**KERNEL)
def add_value_gradient(
    rows: Stored,
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    problem: tuple[int, np.ndarray, bool, bool],
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
    share: Share,
) -> None:
    """Values, gradients, curvatures and margins of the rows of a share.

    labels: codes (n,), and weights (n,) of the rows, or an empty array where all weigh 1; a weight
    of 0 leaves a row out. problem: the class with target 1; the table of the weights, to whose
    results the gradient is added; whether there is an intercept; whether the margins are known.
    totals: value (1,), which is added to, curvatures (n, 1), which are written, and margins (n,),
    which are written or, where they are known, read.
    """
    indptr, indices, data, alike = rows
    codes, weights = labels
    positive, table, intercept, known = problem
    values, curvatures, margins = totals
    last, total = table.size - 2, 0.0
    constant = table[last] if intercept else 0.0
    far = table.size * table.itemsize > _IN_CACHE
    for i in range(share[0], share[1]):
        if far and i + AHEAD < share[1]:
            _announce(indptr, indices, i + AHEAD, table)
        weight = weights[i] if weights.size else 1.0
        curvatures[i, 0] = 0.0
        if weight == 0.0:
            margins[i] = 0.0
            continue
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        each = np.float64(data[i]) if alike else 1.0
        if known:
            m = margins[i]
        elif alike:
            m = each * _sum(indices, start, stop, table) + constant
        else:
            m = _dot(indices, data, start, stop, table) + constant
        margins[i] = m
        t = 1.0 if codes[i] == positive else 0.0
        values[0] += weight * value(loss, m, t)
        curvatures[i, 0] = weight * curvature(loss, m, t)
        scale = weight * slope(loss, m, t)
        total += scale
        if alike:
            _add_alike(indices, start, stop, scale * each, table)
        else:
            _add(indices, data, start, stop, scale, table)
    if intercept:
        table[last + 1] += total


@njit(**KERNEL)
def relabel(indices: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out = the places of the columns that are stored, for the numbers of a share."""
    for at in range(np.uint64(share[0]), np.uint64(share[1])):
        out[at] = places[np.uint64(indices[at])]


@njit(**KERNEL)
def values_of_rows(indptr: np.ndarray, data: np.ndarray, out: np.ndarray) -> bool:
    """Whether the values of every row are all the same; then out (n,) holds them."""
    for i in range(out.size):
        start, stop = indptr[i], indptr[i + 1]
        out[i] = data[start] if start < stop else 0.0
        for at in range(start, stop):
            if data[at] != out[i]:
                return False
    return True
