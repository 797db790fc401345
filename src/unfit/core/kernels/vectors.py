"""Steps of conjugate gradients on a few long vectors, each by one reading of what it changes.

`at` names, for each of j compact vectors (j, d), the row of the whole ones (k, d) it belongs to.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL, available_threads, run_threads

_WORTH_A_THREAD = 1 << 18  # multiply-adds
_THREADED_BY_BLAS = 96  # rows of a square matrix, from which OpenBLAS uses several threads

Share = tuple[int, int]


def by_threads(
    n: int, work: int, shape: tuple[int, ...], body: Callable[[np.ndarray, Share], None]
) -> np.ndarray:
    """body(out, share) of every thread, out (threads, *shape) zeros; work: for each of the n."""
    threads = min(available_threads(), 1 + n * work // _WORTH_A_THREAD)
    out = np.zeros((threads, *shape))
    run_threads(lambda t: body(out[t], (n * t // threads, n * (t + 1) // threads)), threads)
    return out


@njit(**KERNEL)
def add_dots(
    whole: np.ndarray, at: np.ndarray, compact: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """out[c] += whole[at[c]] . compact[c] over a share of the columns."""
    for c in range(at.size):
        one, other, total = whole[at[c]], compact[c], 0.0
        for i in range(share[0], share[1]):
            total += one[i] * other[i]
        out[c] += total


@njit(**KERNEL)
def advance(
    moved: tuple[np.ndarray, np.ndarray, np.ndarray],
    at: np.ndarray,
    steps: np.ndarray,
    images: np.ndarray,
    out: np.ndarray,
    share: Share,
) -> None:
    """x += step direction and left -= step image; out[c] += |left|^2. moved: x, left, direction."""
    for c in range(at.size):
        x, left, direction = moved[0][at[c]], moved[1][at[c]], moved[2][at[c]]
        image, step, total = images[c], steps[c], 0.0
        for i in range(share[0], share[1]):
            x[i] += step * direction[i]
            rest = left[i] - step * image[i]
            left[i] = rest
            total += rest * rest
        out[c] += total


@njit(**KERNEL)
def turn(
    directions: np.ndarray, at: np.ndarray, ratios: np.ndarray, z: np.ndarray, share: Share
) -> None:
    """direction = z + ratio direction."""
    for c in range(at.size):
        direction, new, ratio = directions[at[c]], z[c], ratios[c]
        for i in range(share[0], share[1]):
            direction[i] = new[i] + ratio * direction[i]


def symmetric_times(matrix: np.ndarray, v: np.ndarray) -> np.ndarray:
    """matrix @ v in float64, summed in the precision of the matrix, of which one half is read.

    Not by BLAS, unless that takes one thread: its others go on spinning for milliseconds after each
    product, and take the cores from the kernels that follow.
    """
    d = len(matrix)
    if d < _THREADED_BY_BLAS or not matrix.flags.c_contiguous:
        return np.asarray(matrix @ v, dtype=np.float64)
    threads = min(available_threads(), 1 + d * d // (4 * _WORTH_A_THREAD))
    bounds = shares_of_half(d, threads)
    v = np.ascontiguousarray(v, dtype=matrix.dtype)
    parts = np.zeros((threads, d), matrix.dtype)
    run_threads(
        lambda t: add_half_product(matrix, v, parts[t], (bounds[t], bounds[t + 1])), threads
    )
    return np.asarray(parts.sum(axis=0), dtype=np.float64)


def shares_of_half(d: int, threads: int) -> np.ndarray:
    """Rows at which the shares of threads in the upper half of a matrix begin, and d: each has as
    many numbers, and whole groups of four rows."""
    starts = d * (1 - (1 - np.arange(threads) / threads) ** 0.5)
    return np.append(np.minimum(4 * np.round(starts / 4).astype(np.int64), d), d)


@njit(**KERNEL)
def add_half_product(matrix: np.ndarray, v: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out += (U + U^T - D) v of some rows of the upper half U, whose diagonal D is counted once."""
    kind, d = matrix.dtype.type, v.size
    whole = share[1] - (share[1] - share[0]) % 4
    for i in range(share[0], whole, 4):
        for a in range(i, i + 4):
            out[a] += matrix[a, a] * v[a]
            for b in range(a + 1, i + 4):
                out[a] += matrix[a, b] * v[b]
                out[b] += matrix[a, b] * v[a]
        x0, x1 = matrix[i, i + 4 :], matrix[i + 1, i + 4 :]
        x2, x3 = matrix[i + 2, i + 4 :], matrix[i + 3, i + 4 :]
        v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
        later, total = v[i + 4 :], out[i + 4 :]
        m0 = m1 = m2 = m3 = kind(0)
        for j in range(later.size):
            vj = later[j]
            m0 += x0[j] * vj
            m1 += x1[j] * vj
            m2 += x2[j] * vj
            m3 += x3[j] * vj
        for j in range(later.size):
            total[j] += x0[j] * v0 + x1[j] * v1 + x2[j] * v2 + x3[j] * v3
        out[i] += m0
        out[i + 1] += m1
        out[i + 2] += m2
        out[i + 3] += m3
    for a in range(whole, share[1]):
        out[a] += matrix[a, a] * v[a]
        for b in range(a + 1, d):
            out[a] += matrix[a, b] * v[b]
            out[b] += matrix[a, b] * v[a]


def squares_of_rows(X: np.ndarray) -> np.ndarray:
    """|x|^2 of every row of X (n, p), summed in float64 without a copy of the rows."""
    out = np.empty(len(X))
    by_threads(len(X), X.shape[1], (), lambda _, s: fill_squares(X, out, s))
    return out


@njit(**KERNEL)
def fill_squares(X: np.ndarray, out: np.ndarray, share: Share) -> None:
    """out[i] = |x_i|^2 for a share of the rows."""
    for i in range(share[0], share[1]):
        row, total = X[i], 0.0
        for j in range(row.size):
            value = np.float64(row[j])
            total += value * value
        out[i] = total
