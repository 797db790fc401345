"""The Cholesky factor of a small matrix that grows by rows, and mirrors, by threads of our own.

LAPACK wakes threads for a hundred rows already, which then wait spinning for the next call.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import (
    KERNEL,
    available_threads,
    run_parts,
    run_threads,
    threads_and_parts,
)

_WORTH_A_THREAD = 1 << 17  # multiply-adds
_TILE = 32  # rows and columns that are mirrored together: both triangles' lines stay in the cache


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


@njit(**KERNEL)
def solve_columns(L: np.ndarray, rows: np.ndarray, start: int, stop: int) -> None:
    """rows[:, start:stop] <- (L L^T)^-1 times them, in place."""
    n = L.shape[0]
    for i in range(n):
        row = rows[i, start:stop]
        for j in range(i):
            scale, other = L[i, j], rows[j, start:stop]
            for c in range(row.size):
                row[c] -= scale * other[c]
        for c in range(row.size):
            row[c] /= L[i, i]
    for back in range(n):
        i = n - 1 - back
        row = rows[i, start:stop]
        for j in range(i + 1, n):
            scale, other = L[j, i], rows[j, start:stop]
            for c in range(row.size):
                row[c] -= scale * other[c]
        for c in range(row.size):
            row[c] /= L[i, i]


def solved_rows(L: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(L L^T)^-1 rows, (n, d), in float64, the columns shared by all cores."""
    out, d = np.array(rows, np.float64), rows.shape[1]
    threads = min(available_threads(), 1 + rows.size * len(L) // _WORTH_A_THREAD)
    run_threads(lambda t: solve_columns(L, out, d * t // threads, d * (t + 1) // threads), threads)
    return out


@njit(**KERNEL)
def _mirror_tiles(matrix: np.ndarray, start: int, step: int) -> None:
    """The part below the diagonal of every step-th band of columns, from that above it."""
    d = matrix.shape[0]
    for band in range(start, (d + _TILE - 1) // _TILE, step):
        first, stop = band * _TILE, min(band * _TILE + _TILE, d)
        for top in range(first, d, _TILE):
            for i in range(top, min(top + _TILE, d)):
                for j in range(first, min(stop, i)):
                    matrix[i, j] = matrix[j, i]


def mirror(matrix: np.ndarray) -> None:
    """Makes a matrix (d, d) symmetric by what is above its diagonal."""
    threads, parts = threads_and_parts(matrix.size, _WORTH_A_THREAD)
    run_parts(lambda part: _mirror_tiles(matrix, part, parts), parts, threads)
