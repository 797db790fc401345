"""Sums over rows of which only the numbers that are not zero are kept, side by side."""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, slope, value
from unfit.core.kernels.parallel import KERNEL

# Where each row begins (n + 1,), and of every number its column and itself.
Packed = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(**KERNEL)
def count_numbers(X: np.ndarray, counts: np.ndarray) -> None:
    """counts[i]: how many numbers of row i are not zero."""
    for i in range(X.shape[0]):
        found = 0
        for j in range(X.shape[1]):
            found += X[i, j] != 0
        counts[i] = found


@njit(**KERNEL)
def pack_numbers(X: np.ndarray, packed: Packed) -> None:
    """Write the columns and numbers that are not zero, row by row."""
    starts, columns, numbers = packed
    for i in range(X.shape[0]):
        at = starts[i]
        for j in range(X.shape[1]):
            if X[i, j] != 0:
                columns[at] = j
                numbers[at] = X[i, j]
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
    (starts, columns, numbers), codes, intercept = rows
    positive, W = problems
    keep, start, stop = chosen
    values, gradients = totals
    last = W.shape[1] - 1
    for i in range(start, stop):
        if keep.size and not keep[i]:
            continue
        first, end = starts[i], starts[i + 1]
        weight = sample_weight[i] if sample_weight.size else 1.0
        for c in range(W.shape[0]):
            w, gradient = W[c], gradients[c]
            even, odd = w[last] if intercept else 0.0, 0.0
            at = first
            while at + 1 < end:
                even += numbers[at] * w[columns[at]]
                odd += numbers[at + 1] * w[columns[at + 1]]
                at += 2
            if at < end:
                even += numbers[at] * w[columns[at]]
            target = 1.0 if codes[i] == positive[c] else 0.0
            if values.size:
                values[c] += weight * value(loss, even + odd, target)
            by = weight * slope(loss, even + odd, target)
            for at in range(first, end):
                gradient[columns[at]] += by * numbers[at]
            if intercept:
                gradient[last] += by
