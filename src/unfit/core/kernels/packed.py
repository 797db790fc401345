"""Sums over rows of which only the numbers that are not the usual ones are kept, side by side.

Every row takes whole groups of four numbers, the last of which may be differences of zero: loops
then end where the processor expects it, which for rows of a dozen numbers and more costs less than
to read up to three numbers more. Indices are unsigned: numba looks whether a signed one counts
from the end. Rows go by blocks that stay in a cache between their margins, their slopes, of which
the compiler makes vectors, and their share of the gradient. Rows that are left out are not read.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, slopes_inplace, terms_inplace
from unfit.core.kernels.parallel import KERNEL

# The usual number of each column (p,), where each row begins (n + 1,), and of every number that is
# another one its column, and by how much it is another; groups are filled up with zeros.
Packed = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

GROUP = 4  # numbers
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(GROUP)
_BLOCK = 64  # rows


@njit(**KERNEL)
def fill_usual(X: np.ndarray, usual: np.ndarray) -> None:
    """usual[j]: the number that most rows have in column j, if no row has any other but zero; else
    zero. So a difference from it is exact."""
    n, p = X.shape
    counts, alike = np.zeros(p, np.int64), np.ones(p, np.bool_)
    for i in range(n):
        for j in range(p):
            if X[i, j] != 0:
                if counts[j] == 0:
                    usual[j] = X[i, j]
                alike[j] &= X[i, j] == usual[j]
                counts[j] += 1
    for j in range(p):
        if not alike[j] or 2 * counts[j] <= n:
            usual[j] = 0


@njit(**KERNEL)
def count_numbers(X: np.ndarray, usual: np.ndarray, counts: np.ndarray) -> None:
    """counts[i]: how many numbers of row i are not the usual ones."""
    for i in range(X.shape[0]):
        found = 0
        for j in range(X.shape[1]):
            found += X[i, j] != usual[j]
        counts[i] = found


@njit(**KERNEL)
def pack_numbers(X: np.ndarray, packed: Packed) -> None:
    """Write the columns of numbers that are not the usual ones, and the differences, by rows."""
    usual, starts, columns, numbers = packed
    for i in range(X.shape[0]):
        at = starts[i]
        for j in range(X.shape[1]):
            if X[i, j] != usual[j]:
                columns[at] = j
                numbers[at] = X[i, j] - usual[j]
                at += 1
        columns[at : starts[i + 1]] = 0
        numbers[at : starts[i + 1]] = 0


@njit(**KERNEL, inline="always")
def _dot(
    columns: np.ndarray, numbers: np.ndarray, at: np.uint64, stop: np.uint64, w: np.ndarray
) -> float:
    """x.w of the numbers of a row; four sums at a time, since each addition waits for the last."""
    a = b = c = d = 0.0
    while at < stop:
        a += numbers[at] * w[np.uint64(columns[at])]
        b += numbers[at + _1] * w[np.uint64(columns[at + _1])]
        c += numbers[at + _2] * w[np.uint64(columns[at + _2])]
        d += numbers[at + _3] * w[np.uint64(columns[at + _3])]
        at += _4
    total: float = (a + b) + (c + d)
    return total


@njit(**KERNEL, inline="always")
def _add(
    columns: np.ndarray,
    numbers: np.ndarray,
    at: np.uint64,
    stop: np.uint64,
    by: float,
    gradient: np.ndarray,
) -> None:
    """gradient += by x of the numbers of a row."""
    while at < stop:
        gradient[np.uint64(columns[at])] += by * numbers[at]
        gradient[np.uint64(columns[at + _1])] += by * numbers[at + _1]
        gradient[np.uint64(columns[at + _2])] += by * numbers[at + _2]
        gradient[np.uint64(columns[at + _3])] += by * numbers[at + _3]
        at += _4


@njit(**KERNEL)
def add_packed_value_gradient(
    rows: tuple[Packed, np.ndarray, bool],
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray],
    chosen: tuple[np.ndarray, int, int],
    totals: tuple[np.ndarray, np.ndarray],
    sample_weight: np.ndarray,
) -> None:
    """The same as sums.add_value_gradient, of packed rows. rows: with their class codes, and
    whether a column of ones goes with them. totals: values (k,), or none if nobody wants them, and
    gradients (k, d)."""
    (usual, starts, columns, numbers), codes, intercept = rows
    positive, W = problems
    keep, start, stop = chosen
    values, gradients = totals
    k, last = W.shape[0], W.shape[1] - 1
    usually, slopes = np.zeros(k), np.zeros(k)  # the margin of a usual row, and sums of slopes
    for c in range(k):
        usually[c] = W[c, last] if intercept else 0.0
        for j in range(usual.size):
            usually[c] += usual[j] * W[c, j]
    block = np.empty(_BLOCK, np.uint64)
    margins, targets = np.empty(_BLOCK), np.empty(_BLOCK)
    found, curvatures = np.empty(_BLOCK), np.empty(_BLOCK)
    row = start
    while row < stop:
        count = 0
        while count < _BLOCK and row < stop:
            if not keep.size or keep[row]:
                block[count] = row
                count += 1
            row += 1
        for c in range(k):
            w, gradient = W[c], gradients[c]
            for b in range(count):
                i = block[b]
                at, end = np.uint64(starts[i]), np.uint64(starts[i + _1])
                margins[b] = usually[c] + _dot(columns, numbers, at, end, w)
                targets[b] = 1.0 if codes[i] == positive[c] else 0.0
            if values.size:
                terms_inplace(loss, margins, targets, found, curvatures, count)
                for b in range(count):
                    weight = sample_weight[block[b]] if sample_weight.size else 1.0
                    values[c] += weight * found[b]
            else:
                slopes_inplace(loss, margins, targets, count)
            for b in range(count):
                i = block[b]
                by = margins[b] * sample_weight[i] if sample_weight.size else margins[b]
                slopes[c] += by
                at, end = np.uint64(starts[i]), np.uint64(starts[i + _1])
                _add(columns, numbers, at, end, by, gradient)
    for c in range(k):
        for j in range(usual.size):
            gradients[c, j] += slopes[c] * usual[j]
        if intercept:
            gradients[c, last] += slopes[c]
