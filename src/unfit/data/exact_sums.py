"""Exact sums of float32 columns: sum x and sum x^2 as whole numbers, in whatever order rows come.

A float32 is m 2^(e - 150) with |m| < 2^24 and 1 <= e <= 254. Per column and exponent the sums of m
and of m^2 fit 64 bits over BLOCK rows; shifted by their exponents and added up they are integers

    sum x   = total  / 2^149
    sum x^2 = square / 2^298

so that taking a row out again leaves what was there before it, to the last bit.
"""

import numpy as np

from unfit.core.kernels.exact import binned, square_lengths

__all__ = ["UNIT", "square_lengths", "sums"]

BLOCK = 1 << 15  # rows: m^2 < 2^48 each, so that a block's sum is below 2^63
UNIT = 149  # x 2^UNIT is a whole number


def sums(values: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Per column of float32 values (n, a): how many are known (not NaN), total and square."""
    n, a = values.shape
    known, totals, squares = [n] * a, [0] * a, [0] * a
    for start in range(0, n, BLOCK):
        block = np.ascontiguousarray(values[start : start + BLOCK], np.float32)
        missing, mantissas, their_squares = binned(block.view(np.uint32))
        for j in range(a):
            known[j] -= int(missing[j])
        for j, e in np.argwhere(their_squares).tolist():
            totals[j] += int(mantissas[j, e]) << max(e - 1, 0)
            squares[j] += int(their_squares[j, e]) << max(2 * e - 2, 0)
    return known, totals, squares
