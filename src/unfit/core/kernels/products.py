"""Products of a matrix with a few vectors, by threads of our own.

BLAS is as fast, but its threads wait for the next call spinning, and a pass over the rows right
after it then takes half as long again. Where passes and products alternate, BLAS is better left
alone.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL, run_parts, threads_and_parts

MOST = 1 << 27  # multiply-adds up to which this is faster than BLAS and the pass after it
_WORTH_A_THREAD = 1 << 19  # multiply-adds: to wake a thread costs as much as a hundred thousand


def few_products(A: np.ndarray, V: np.ndarray) -> np.ndarray:
    """V A^T: A v of each vector, (m, r) for A (r, d) and V (m, d), in the precision of A."""
    V = np.ascontiguousarray(V, A.dtype)
    if A.size * len(V) > MOST:
        return np.asarray(V @ A.T)
    out = np.empty((len(V), len(A)), A.dtype)
    rows = len(A)
    if A.size * len(V) < _WORTH_A_THREAD:  # to ask how many threads there are would take longer
        fill_products(A, V, out, 0, rows)
        return out
    threads, parts = threads_and_parts(A.size * len(V), _WORTH_A_THREAD)
    run_parts(
        lambda part: fill_products(A, V, out, rows * part // parts, rows * (part + 1) // parts),
        parts,
        threads,
    )
    return out


@njit(**KERNEL)
def fill_products(A: np.ndarray, V: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out[i, r] = A[r].V[i] for r from start to stop - 1: two rows of A at a time, four vectors."""
    m, d = V.shape
    zero = A.dtype.type(0)
    whole = m // 4 * 4
    for pair in range((stop - start + 1) // 2):
        r = start + 2 * pair
        q = min(r + 1, stop - 1)
        a, b = A[r], A[q]
        for i in range(0, whole, 4):
            v0, v1, v2, v3 = V[i], V[i + 1], V[i + 2], V[i + 3]
            s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = zero
            for j in range(d):
                aj, bj = a[j], b[j]
                s0 += aj * v0[j]
                s1 += aj * v1[j]
                s2 += aj * v2[j]
                s3 += aj * v3[j]
                t0 += bj * v0[j]
                t1 += bj * v1[j]
                t2 += bj * v2[j]
                t3 += bj * v3[j]
            out[i, r], out[i + 1, r], out[i + 2, r], out[i + 3, r] = s0, s1, s2, s3
            out[i, q], out[i + 1, q], out[i + 2, q], out[i + 3, q] = t0, t1, t2, t3
        if m - whole >= 2:
            v0, v1 = V[whole], V[whole + 1]
            s0 = s1 = t0 = t1 = zero
            for j in range(d):
                aj, bj = a[j], b[j]
                s0 += aj * v0[j]
                s1 += aj * v1[j]
                t0 += bj * v0[j]
                t1 += bj * v1[j]
            out[whole, r], out[whole + 1, r] = s0, s1
            out[whole, q], out[whole + 1, q] = t0, t1
        if (m - whole) % 2:
            v = V[m - 1]
            s0 = t0 = zero
            for j in range(d):
                s0 += a[j] * v[j]
                t0 += b[j] * v[j]
            out[m - 1, r], out[m - 1, q] = s0, t0


@njit(**KERNEL)
def combination(scales: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """sum of scale x over rows (m, d), in float64."""
    out = np.zeros(rows.shape[1])
    for i in range(rows.shape[0]):
        scale, row = scales[i], rows[i]
        for j in range(row.size):
            out[j] += scale * row[j]
    return out
