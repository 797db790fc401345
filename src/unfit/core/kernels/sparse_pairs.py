"""One vector and sparse rows: every row is read once, and used twice while it is in the cache.

A thread needs x.v of a row, and then adds weight x to a result of its own. Both go to the same
columns, so the vector and the result lie side by side in one table,

    table[2 j] = v_j,   table[2 j + 1] = result_j     of the column at place j, the intercept last

and the second visit of a column finds its cache line at hand. Columns are in an order of the
caller's (`places`), in which those that many rows share stand close together. Where the values of a
row are all alike, its columns can be in any order, too: the rarest come last, and their cache
lines, which only memory or the last cache has, are asked for many rows ahead; so are the indices,
since a processor that waits for those of a row to come waits for all. Without that a click log of
2^20 columns takes three times as long (on the machine of docs/benchmarks.md).

Visits of the columns of a row are in kernels.pairs_of_columns.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, terms_inplace
from unfit.core.kernels.pairs_of_columns import (
    Share,
    add_alike,
    add_values,
    ask_ahead,
    ask_for_all,
    sum_of_columns,
    sum_of_values,
)
from unfit.core.kernels.parallel import KERNEL

# indptr, indices, data, whether data holds one number for each row, which all its values are, and
# whether cache lines are asked for ahead
Stored = tuple[np.ndarray, np.ndarray, np.ndarray, bool, bool]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, bool]  # the same without the fourth

_1 = np.uint64(1)
_BLOCK = 256  # rows, whose terms are computed at once
_COMMON = 1 << 12  # first places, which the caches have at hand
_SHORT = 64  # numbers, up to which inserting is the fastest way to sort


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
    indptr, indices, data, alike, asks = rows
    last = np.uint64(table.size - 2)
    constant = table[last] if intercept else table.dtype.type(0)
    stored = indptr, indices, data, asks
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
    indptr, indices, data, asks = rows
    curvatures, c = weights
    column, total = np.uint64(c), 0.0
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        weight = table.dtype.type(curvatures[i, column])
        if asks:
            ask_for_all(indices, np.uint64(indptr[i]), np.uint64(indptr[i + _1]), table)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if weight == 0.0 and images.size == 0:
            stop = start
        image = sum_of_values(indices, data, start, stop, table) + constant
        if images.size:
            images[i] = image
        scale = weight * image
        if weight == 0.0:
            stop = start
        add_values(indices, data, start, stop, scale, table)
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
    indptr, indices, data, asks = rows
    curvatures, c = weights
    column, total = np.uint64(c), 0.0
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            ask_ahead(indptr, indices, i, table)
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
    indptr, indices, data, alike, asks = rows
    positive, table, intercept, known = problem
    stored, margins = (indptr, indices, data, asks), totals[2]
    last, total = np.uint64(table.size - 2), 0.0
    constant = table[last] if intercept else 0.0
    scratch = np.empty((4, _BLOCK))
    for first in range(share[0], share[1], _BLOCK):  # which stays in a cache
        block = first, min(first + _BLOCK, share[1])
        if not known:
            if alike:
                _gather_alike(stored, table, constant, margins, block)
            else:
                _gather(stored, table, constant, margins, block)
        total += _write_terms(labels, loss, positive, totals, block, scratch)
        if alike:
            _scatter_alike(stored, scratch[0], table, block)
        else:
            _scatter(stored, scratch[0], table, block)
    if intercept:
        table[last + _1] += total


@njit(**KERNEL)
def _gather(
    rows: Arrays, table: np.ndarray, constant: float, out: np.ndarray, share: Share
) -> None:
    """out = x.v + constant of the rows of a share."""
    indptr, indices, data, asks = rows
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            ask_for_all(indices, np.uint64(indptr[i]), np.uint64(indptr[i + _1]), table)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        out[i] = sum_of_values(indices, data, start, stop, table) + constant


@njit(**KERNEL)
def _gather_alike(
    rows: Arrays, table: np.ndarray, constant: float, out: np.ndarray, share: Share
) -> None:
    indptr, indices, data, asks = rows
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        if asks:
            ask_ahead(indptr, indices, i, table)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        out[i] = data[i] * sum_of_columns(indices, start, stop, table) + constant


@njit(**KERNEL)
def _scatter(rows: Arrays, scales: np.ndarray, table: np.ndarray, block: Share) -> None:
    """result += scale x of the rows of a block, whose scales begin with that of its first row."""
    indptr, indices, data, asks = rows
    first = np.uint64(block[0])
    for i in range(first, np.uint64(block[1])):
        if asks:
            ask_for_all(indices, np.uint64(indptr[i]), np.uint64(indptr[i + _1]), table)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if scales[i - first] == 0.0:
            stop = start
        add_values(indices, data, start, stop, scales[i - first], table)


@njit(**KERNEL)
def _scatter_alike(rows: Arrays, scales: np.ndarray, table: np.ndarray, block: Share) -> None:
    indptr, indices, data, asks = rows
    first = np.uint64(block[0])
    for i in range(first, np.uint64(block[1])):
        if asks:
            ask_ahead(indptr, indices, i, table)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        if scales[i - first] == 0.0:
            stop = start
        add_alike(indices, start, stop, scales[i - first] * data[i], table)


@njit(**KERNEL)
def _write_terms(
    labels: tuple[np.ndarray, np.ndarray],
    loss: CompiledLoss,
    positive: int,
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
    block: Share,
    scratch: np.ndarray,
) -> float:
    """Values and curvatures by the margins of a block; its slopes, in scratch[0], and their sum."""
    codes, weights = labels
    values, curvatures, margins = totals
    slope, target, value, curvature = scratch[0], scratch[1], scratch[2], scratch[3]
    (first, stop), total = block, 0.0
    for i in range(first, stop):
        slope[i - first] = margins[i]
        target[i - first] = 1.0 if codes[i] == positive else 0.0
    terms_inplace(loss, slope, target, value, curvature, stop - first)
    for i in range(first, stop):
        b, weight = i - first, weights[i] if weights.size else 1.0
        if weight == 0.0:  # whatever its margin is
            margins[i] = slope[b] = value[b] = curvature[b] = 0.0
        values[0] += weight * value[b]
        curvatures[i, 0] = weight * curvature[b]
        slope[b] *= weight
        total += slope[b]
    return total


@njit(**KERNEL)
def relabel(indices: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out = the places of the columns that are stored, for the numbers of a share; twice of them
    where they have more than 16 bits (kernels.pairs_of_columns)."""
    times = 1 if out.itemsize == 2 else 2
    for at in range(np.uint64(share[0]), np.uint64(share[1])):
        out[at] = times * places[np.uint64(indices[at])]


@njit(**KERNEL)
def relabel_rarest_last(
    indptr: np.ndarray, columns: np.ndarray, places: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """The same for the rows of a share, of each the columns beyond the first places in rising order
    behind the others, which the caches have at hand in any order."""
    times = 1 if out.itemsize == 2 else 2
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        front, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        back = stop
        for at in range(front, stop):
            place = places[np.uint64(columns[at])]
            rare = np.uint64(place >= _COMMON)
            back -= rare
            out[back if rare else front] = times * place
            front += _1 - rare
        if stop - front > _SHORT:
            out[front:stop].sort()
            continue
        for at in range(front + _1, stop):
            number, to = out[at], np.uint64(at)
            while to > front and out[to - _1] > number:
                out[to] = out[to - _1]
                to -= _1
            out[to] = number


@njit(**KERNEL)
def values_of_rows(indptr: np.ndarray, data: np.ndarray, out: np.ndarray, share: Share) -> bool:
    """Whether the values of every row of a share are all the same; then out (n,) holds them."""
    for i in range(np.uint64(share[0]), np.uint64(share[1])):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + _1])
        out[i] = data[start] if start < stop else 0.0
        for at in range(start, stop):
            if data[at] != out[i]:
                return False
    return True
