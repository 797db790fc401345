"""Exact sums of float32 columns: sum x and sum x^2 as whole numbers, in whatever order rows come.

A float32 is m 2^(e - 150) with |m| < 2^24 and 1 <= e <= 254. Per column and exponent the sums of m
and of m^2 fit 64 bits over BLOCK rows; shifted by their exponents and added up they are integers

    sum x   = total  / 2^149
    sum x^2 = square / 2^298

so that taking a row out again leaves what was there before it, to the last bit.
"""

import numpy as np
from numba import njit

BLOCK = 1 << 15  # rows: m^2 < 2^48 each, so that a block's sum is below 2^63
UNIT = 149  # x 2^UNIT is a whole number
_KERNEL = {"nogil": True, "cache": True}


def sums(values: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Per column of float32 values (n, a): how many are known (not NaN), total and square."""
    n, a = values.shape
    known, totals, squares = [n] * a, [0] * a, [0] * a
    for start in range(0, n, BLOCK):
        block = np.ascontiguousarray(values[start : start + BLOCK], np.float32)
        missing, mantissas, their_squares = _binned(block.view(np.uint32))
        for j in range(a):
            known[j] -= int(missing[j])
        for j, e in np.argwhere(their_squares).tolist():
            totals[j] += int(mantissas[j, e]) << max(e - 1, 0)
            squares[j] += int(their_squares[j, e]) << max(2 * e - 2, 0)
    return known, totals, squares


@njit(**_KERNEL)
def _binned(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
