"""One vector and sparse rows: every row is read once, and used twice while it is in the cache.

A thread needs x.v of a row, and then adds weight x to a result of its own. Both go to the same
columns, so the vector and the result lie side by side in one table,

    table[2 j] = v_j,   table[2 j + 1] = result_j,     the intercept last

and the second visit of a column finds its cache line at hand. Columns are in an order of the
caller's (`places`), in which those that many rows share stand close together. Where the values of a
row are all alike, its columns can be in any order, too: the rarest come last (`sort_rows`), and
their cache lines, which only memory or the last cache has, are asked for many rows ahead. Without
that a click log of 2^20 columns takes 1.7 times as long (on the machine of docs/benchmarks.md).

Indices are unsigned where numba compiles them: it looks whether a signed one counts from the end,
which costs as much as all the rest. Four sums at a time, since each addition waits for the last.
What is done with a row is inlined by numba, since a call would count references; and there is no
branch around it, since numba counts them there, too. They are counted by atomic operations on what
all threads share, which took longer than thirty values do.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, curvature, slope, value
from unfit.core.kernels.parallel import KERNEL, prefetch

# indptr, indices, data, whether data holds one number for each row, which all its values are
Stored = tuple[np.ndarray, np.ndarray, np.ndarray, bool]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # the first three of them
Share = tuple[int, int]  # rows that one thread reads: from, to

_0, _1, _2, _3, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_WHOLE = np.uint64(0xFFFFFFFFFFFFFFFC)  # of a number of values, those in groups of four
_AHEAD = np.uint64(24)  # rows, that cache lines are asked for before they are needed
_RAREST = np.uint64(6)  # columns of a row, whose lines are asked for
_IN_CACHE = 1 << 16  # numbers of a table, which the second cache has at hand
_SHORT = 64  # numbers, up to which inserting is the fastest way to sort


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
def collect(tables: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out (d,): the sum of the results of tables (threads, 2 d), each column of a share from its
    place."""
    p = places.size
    for j in range(share[0], share[1]):
        at = _2 * np.uint64(places[j] if j < p else j) + _1
        total = 0.0
        for t in range(tables.shape[0]):
            total += tables[t, at]
        out[j] = total


@njit(**KERNEL, inline="always")
def sum_of_columns(indices: np.ndarray, at: np.uint64, stop: np.uint64, table: np.ndarray) -> float:
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
def add_alike(
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


@njit(**KERNEL, inline="always")
def _ask_for_rarest(
    indptr: np.ndarray, indices: np.ndarray, i: np.uint64, table: np.ndarray, stop: np.uint64
) -> None:
    """Ask for the cache lines of the last columns of a row to come; stop: rows of the share."""
    end = np.uint64(indptr[min(i + _AHEAD, stop)])
    for at in range(end - min(_RAREST, end), end):
        prefetch(table, np.int64(_2 * np.uint64(indices[at])))


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
    last = np.uint64(table.size - 2)
    constant = table[last] if intercept else table.dtype.type(0)
    stored = indptr, indices, data
    if alike:
        total = _add_product_alike(stored, weights, table, constant, images, share)
    else:
        total = _add_product(stored, weights, table, constant, images, share)
    if intercept:
        table[last + _1] += total


@njit(**KERNEL)
def _add_product(
    rows: Arrays,
    weights: tuple[np.ndarray, int],
    table: np.ndarray,
    constant: float,
    images: np.ndarray,
    share: Share,
) -> float:
    """The same but for the intercept, whose result is returned."""
    indptr, indices, data = rows
    curvatures, c = weights
    column, total = np.uint64(c), 0.0
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        weight = table.dtype.type(curvatures[i, column])
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if weight == 0.0 and images.size == 0:
            stop = start
        image = _dot(indices, data, start, stop, table) + constant
        if images.size:
            images[i] = image
        scale = weight * image
        if weight == 0.0:
            stop = start
        _add(indices, data, start, stop, scale, table)
        total += scale
    return total


@njit(**KERNEL)
def _add_product_alike(
    rows: Arrays,
    weights: tuple[np.ndarray, int],
    table: np.ndarray,
    constant: float,
    images: np.ndarray,
    share: Share,
) -> float:
    """The same of rows whose values are all alike, one number for each row."""
    indptr, indices, data = rows
    curvatures, c = weights
    column, total, asks = np.uint64(c), 0.0, table.size > _IN_CACHE
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            _ask_for_rarest(indptr, indices, i, table, np.uint64(share[1]))
        weight, each = table.dtype.type(curvatures[i, column]), table.dtype.type(data[i])
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if weight == 0.0 and images.size == 0:
            stop = start
        image = each * sum_of_columns(indices, start, stop, table) + constant
        if images.size:
            images[i] = image
        scale = weight * image
        if weight == 0.0:
            stop = start
        add_alike(indices, start, stop, scale * each, table)
        total += scale
    return total


@njit(**KERNEL)
def add_value_gradient(
    rows: Stored,
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    problem: tuple[int, np.ndarray, bool, bool],
    totals: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    share: Share,
) -> None:
    """Values, gradients, curvatures and margins of the rows of a share.

    labels: codes (n,), and weights (n,) of the rows, or an empty array where all weigh 1; a weight
    of 0 leaves a row out. problem: the class with target 1; the table of the weights, to whose
    results the gradient is added; whether there is an intercept; whether the margins are known.
    totals: value (1,), which is added to, curvatures (n, 1) and slopes (n,), which are written, and
    margins (n,), which are written or, where they are known, read.
    """
    indptr, indices, data, alike = rows
    positive, table, intercept, known = problem
    stored, (_, _, slopes, margins) = (indptr, indices, data), totals
    last = np.uint64(table.size - 2)
    if not known:
        constant = table[last] if intercept else 0.0
        if alike:
            _gather_alike(stored, table, constant, margins, share)
        else:
            _gather(stored, table, constant, margins, share)
    total = _write_terms(labels, loss, positive, totals, share)
    if alike:
        _scatter_alike(stored, slopes, table, share)
    else:
        _scatter(stored, slopes, table, share)
    if intercept:
        table[last + _1] += total


@njit(**KERNEL)
def _gather(
    rows: Arrays, table: np.ndarray, constant: float, out: np.ndarray, share: Share
) -> None:
    """out = x.v + constant of the rows of a share."""
    indptr, indices, data = rows
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        out[i] = _dot(indices, data, start, stop, table) + constant


@njit(**KERNEL)
def _gather_alike(
    rows: Arrays, table: np.ndarray, constant: float, out: np.ndarray, share: Share
) -> None:
    indptr, indices, data = rows
    asks = table.size > _IN_CACHE
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            _ask_for_rarest(indptr, indices, i, table, np.uint64(share[1]))
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        out[i] = data[i] * sum_of_columns(indices, start, stop, table) + constant


@njit(**KERNEL)
def _scatter(rows: Arrays, scales: np.ndarray, table: np.ndarray, share: Share) -> None:
    """result += scale x of the rows of a share."""
    indptr, indices, data = rows
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if scales[i] == 0.0:
            stop = start
        _add(indices, data, start, stop, scales[i], table)


@njit(**KERNEL)
def _scatter_alike(rows: Arrays, scales: np.ndarray, table: np.ndarray, share: Share) -> None:
    indptr, indices, data = rows
    asks = table.size > _IN_CACHE
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            _ask_for_rarest(indptr, indices, i, table, np.uint64(share[1]))
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if scales[i] == 0.0:
            stop = start
        add_alike(indices, start, stop, scales[i] * data[i], table)


@njit(**KERNEL)
def _write_terms(
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    positive: int,
    totals: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    share: Share,
) -> float:
    """Values, curvatures and slopes by the margins of a share; the sum of the slopes."""
    codes, weights = labels
    values, curvatures, slopes, margins = totals
    total = 0.0
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        weight = weights[i] if weights.size else 1.0
        if weight == 0.0:
            margins[i] = slopes[i] = curvatures[i, _0] = 0.0
            continue
        m, t = margins[i], 1.0 if codes[i] == positive else 0.0
        values[0] += weight * value(loss, m, t)
        curvatures[i, _0] = weight * curvature(loss, m, t)
        slopes[i] = weight * slope(loss, m, t)
        total += slopes[i]
    return total


@njit(**KERNEL)
def relabel(indices: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out = the places of the columns that are stored, for the numbers of a share."""
    for at in range(np.uint64(share[0]), np.uint64(share[1])):
        out[at] = places[np.uint64(indices[at])]


@njit(**KERNEL)
def sort_rows(indptr: np.ndarray, indices: np.ndarray, share: Share) -> None:
    """The numbers of every row of a share in rising order."""
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if stop - start > _SHORT:
            indices[start:stop].sort()
            continue
        for at in range(start + _1, stop):
            number, place = indices[at], np.uint64(at)
            while place > start and indices[place - _1] > number:
                indices[place] = indices[place - _1]
                place -= _1
            indices[place] = number


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
