"""Loops over float32 columns and rows that give the same result in whatever order rows come."""

import numpy as np
from numba import njit

_KERNEL = {"nogil": True, "cache": True}  # no fastmath: every sum has its order


@njit(**_KERNEL)
def binned(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per column: missing values, and the sums of m and m^2 by exponent."""
    n, a = bits.shape
    missing = np.zeros(a, np.int64)
    mantissas, squares = np.zeros((a, 256), np.int64), np.zeros((a, 256), np.int64)
    for j in range(a):
        for i in range(n):
            b = np.int64(bits[i, j])
            e = (b >> 23) & 255
            m = (b & 0x7FFFFF) | (np.int64(e > 0) << 23)
            negative = -(b >> 31)
            mantissas[j, e] += (m ^ negative) - negative
            squares[j, e] += m * m
            missing[j] += e == 255
        mantissas[j, 255] = squares[j, 255] = 0
    return missing, mantissas, squares


@njit(**_KERNEL)
def square_lengths(X: np.ndarray) -> np.ndarray:
    """|x|^2 of float32 rows (n, p), float64, summed from the first column to the last: the same
    row has the same length wherever it lies."""
    out = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            total += x * x
        out[i] = total
    return out
