"""The compact L-BFGS Hessian of a few pairs (s, y), as a product with a vector.

With the pairs oldest first as columns of S and Y, sig = y_l.s_l / s_l.s_l (the newest pair),
D = diag(S^T Y) and L the strict lower triangle of S^T Y:

    B v = sig v - [Y, sig S] M^-1 [Y^T v; sig S^T v],    M = [[-D, L^T], [L, sig S^T S]]

(Byrd, Nocedal and Schnabel, 1994). M^-1 changes only when a pair does, so it is kept. Pairs are
rows here: S, Y are (MEMORY, d), unused rows zero. Compiled, because the DELTAGRAD kernel calls it
between steps.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL

MEMORY = 2  # pairs kept, first in first out


@njit(nogil=True, cache=True)
def invert(M: np.ndarray, size: int, inverse: np.ndarray) -> None:
    """inverse[:size, :size] <- M[:size, :size]^-1 by Gauss-Jordan with row pivoting."""
    a = M[:size, :size].copy()
    inverse[:size, :size] = np.eye(size)
    for column in range(size):
        pivot = column + np.argmax(np.abs(a[column:, column]))
        for j in range(size):
            a[column, j], a[pivot, j] = a[pivot, j], a[column, j]
            inverse[column, j], inverse[pivot, j] = inverse[pivot, j], inverse[column, j]
        scale = 1.0 / a[column, column]
        for j in range(size):
            a[column, j] *= scale
            inverse[column, j] *= scale
        for row in range(size):
            factor = a[row, column]
            if row != column and factor != 0.0:
                for j in range(size):
                    a[row, j] -= factor * a[column, j]
                    inverse[row, j] -= factor * inverse[column, j]


@njit(nogil=True, cache=True)
def compact_middle(S: np.ndarray, Y: np.ndarray, pairs: int, inverse: np.ndarray) -> float:
    """Fill inverse[:2p, :2p] with M^-1 of the p stored pairs and return sig."""
    newest = pairs - 1
    sig = np.dot(Y[newest], S[newest]) / np.dot(S[newest], S[newest])
    M = np.zeros((2 * pairs, 2 * pairs))
    for i in range(pairs):
        M[i, i] = -np.dot(S[i], Y[i])
        for j in range(pairs):
            if i > j:
                M[pairs + i, j] = M[j, pairs + i] = np.dot(S[i], Y[j])
            M[pairs + i, pairs + j] = sig * np.dot(S[i], S[j])
    invert(M, 2 * pairs, inverse)
    return float(sig)


@njit(**KERNEL)
def compact_coefficients(
    S: np.ndarray, Y: np.ndarray, pairs: int, sig: float, inverse: np.ndarray, v: np.ndarray,
    coefficients: np.ndarray,
) -> None:  # fmt: skip
    """coefficients (2, 2): B v = sig v - sum_i coefficients[0, i] y_i + coefficients[1, i] s_i.

    S and Y are (MEMORY, d or wider); rows beyond `pairs` get the coefficient 0.
    """
    y0, y1, s0, s1 = Y[0], Y[1], S[0], S[1]
    y0v = y1v = s0v = s1v = 0.0
    for j in range(v.size):
        y0v += y0[j] * v[j]
        y1v += y1[j] * v[j]
        s0v += s0[j] * v[j]
        s1v += s1[j] * v[j]
    if pairs == 1:
        coefficients[0, 0] = inverse[0, 0] * y0v + inverse[0, 1] * sig * s0v
        coefficients[1, 0] = sig * (inverse[1, 0] * y0v + inverse[1, 1] * sig * s0v)
        coefficients[:, 1] = 0.0
        return
    for i in range(2):
        row, low = inverse[i], inverse[2 + i]
        coefficients[0, i] = row[0] * y0v + row[1] * y1v + sig * (row[2] * s0v + row[3] * s1v)
        product = low[0] * y0v + low[1] * y1v + sig * (low[2] * s0v + low[3] * s1v)
        coefficients[1, i] = sig * product


def compact_product(S: np.ndarray, Y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """B v for one or two pairs as rows of S and Y, oldest first."""
    pairs = len(S)
    S, Y = (np.concatenate([A, np.zeros((MEMORY - pairs, v.size))]) for A in (S, Y))
    inverse, coefficients = np.empty((2 * MEMORY, 2 * MEMORY)), np.empty((2, MEMORY))
    sig = compact_middle(S, Y, pairs, inverse)
    compact_coefficients(S, Y, pairs, sig, inverse, v, coefficients)
    return np.asarray(sig * v - coefficients[0] @ Y - coefficients[1] @ S)
