"""The Cholesky factor of a small matrix that grows by rows, in the calling thread.

LAPACK wakes threads for a hundred rows already, which then wait spinning for the next call.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL


@njit(**KERNEL)
def grown(L: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The lower factor (n + m, n + m) of a matrix with factor L (n, n) and m more rows.

    rows (m, n + m): the new rows of the matrix up to its diagonal. Where it is not positive
    definite the diagonal of the factor holds nan.
    """
    n, m = L.shape[0], rows.shape[0]
    out = np.zeros((n + m, n + m))
    out[:n, :n] = L
    for i in range(n, n + m):
        row, given = out[i], rows[i - n]
        for j in range(i + 1):
            other, total = out[j], given[j]
            for c in range(j):
                total -= row[c] * other[c]
            row[j] = np.sqrt(total) if j == i else total / other[j]
    return out


@njit(**KERNEL)
def solved(L: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """x with L L^T x = rhs, (n,)."""
    x = rhs.astype(np.float64)
    for i in range(x.size):
        row, total = L[i], x[i]
        for j in range(i):
            total -= row[j] * x[j]
        x[i] = total / row[i]
    for back in range(x.size):
        i = x.size - 1 - back
        row = L[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]
    return x
