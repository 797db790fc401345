"""Sums over rows of which only the numbers that are not the usual ones are kept, side by side."""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, slope, value
from unfit.core.kernels.parallel import KERNEL

# The usual number of each column (p,), where each row begins (n + 1,), and of every number that is
# another one its column, and by how much it is another.
Packed = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


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
    for i in range(start, stop):
        if keep.size and not keep[i]:
            continue
        first, end = starts[i], starts[i + 1]
        weight = sample_weight[i] if sample_weight.size else 1.0
        for c in range(k):
            w, gradient = W[c], gradients[c]
            margin = usually[c]
            m0 = m1 = m2 = m3 = 0.0  # no addition waits for the one before it
            at = first
            while at + 3 < end:
                m0 += numbers[at] * w[columns[at]]
                m1 += numbers[at + 1] * w[columns[at + 1]]
                m2 += numbers[at + 2] * w[columns[at + 2]]
                m3 += numbers[at + 3] * w[columns[at + 3]]
                at += 4
            while at < end:
                margin += numbers[at] * w[columns[at]]
                at += 1
            margin += (m0 + m1) + (m2 + m3)
            target = 1.0 if codes[i] == positive[c] else 0.0
            if values.size:
                values[c] += weight * value(loss, margin, target)
            by = weight * slope(loss, margin, target)
            slopes[c] += by
            for at in range(first, end):
                gradient[columns[at]] += by * numbers[at]
    for c in range(k):
        for j in range(usual.size):
            gradients[c, j] += slopes[c] * usual[j]
        if intercept:
            gradients[c, last] += slopes[c]
