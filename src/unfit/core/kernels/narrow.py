"""Gradient and Hessian sums of narrow rows, by one kernel that reads each row once.

BLAS wants scaled rows in memory, and to gather and scale them costs more than the product itself
where rows have fifty columns. Here a thread gathers a few rows at a time, which stay in its L1
cache until their margins, gradient and outer products are done. Sums are in the precision of the
rows over FLUSH of them, float64 across.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import (
    CACHE_LINE,
    KERNEL,
    VECTOR,
    available_threads,
    prefetch,
    run_threads,
)
from unfit.core.kernels.rows import BLOCK, FLUSH, add_gradient, block_of
from unfit.core.kernels.simd import TILE, outer1, outer2, outer3, scale1

NARROW = 1024  # bytes of a row up to which this beats BLAS
_ACCUMULATORS = (
    512 << 10
)  # bytes of Hessians that may be summed at a time: they stay in the L2 cache
_AHEAD = 16  # rows that are sent for before they are gathered: nobody could guess where they lie
_WORTH_A_THREAD = 1 << 23  # multiply-adds


def narrow(X: np.ndarray, k: int) -> bool:
    """Whether the sums of k problems over these rows are made here."""
    row = X.shape[1] * X.itemsize
    small = row < NARROW and k * row * X.shape[1] <= _ACCUMULATORS
    return bool(small and X.flags.c_contiguous)


def sums_of_narrow_rows(
    X: np.ndarray, codes: np.ndarray, index: np.ndarray, W: np.ndarray, positive: np.ndarray,
    intercept: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """sum (p - t) x, (k, d), and sum p (1 - p) x x^T, (k, d, d), over the rows at an index."""
    (k, d), m = W.shape, index.size
    lanes = VECTOR // X.itemsize
    width = -(-d // lanes) * lanes
    padded = np.zeros((k, width), X.dtype)
    padded[:, :d] = W
    threads = min(available_threads(), 1 + m * d * d * k // _WORTH_A_THREAD)
    gradients, hessians = np.zeros((threads, k, width)), np.zeros((threads, k, width, width))

    def body(t: int) -> None:
        share = index[m * t // threads : m * (t + 1) // threads]
        _add_sums(X, codes, share, positive, padded, intercept, gradients[t], hessians[t])

    run_threads(body, threads)
    gradient, upper = gradients.sum(axis=0)[:, :d], np.triu(hessians.sum(axis=0)[:, :d, :d])
    return gradient, upper + np.triu(upper, 1).swapaxes(1, 2)


@njit(**KERNEL)
def _add_sums(
    X: np.ndarray, codes: np.ndarray, index: np.ndarray, positive: np.ndarray, W: np.ndarray,
    intercept: bool, gradients: np.ndarray, hessians: np.ndarray,
) -> None:  # fmt: skip
    k, width = W.shape
    step = block_of(width * X.itemsize)  # as add_gradient's: then residual is that of every row
    gathered, scaled = np.zeros((step, width), X.dtype), np.zeros((step, width), X.dtype)
    kinds, slots = np.zeros(step, codes.dtype), np.arange(step).astype(np.int32)
    residual = np.zeros(BLOCK, X.dtype)
    gradient, hessian = np.zeros((k, width), X.dtype), np.zeros((k, width, width), X.dtype)
    flat, one = gathered.reshape(gathered.size), X.dtype.type(1)
    waiting = 0
    for first in range(0, index.size, step):
        count = min(step, index.size - first)
        _gather(X, codes, index, first, count, intercept, gathered, kinds)
        for c in range(k):
            add_gradient(gathered, slots, 0, count, kinds, positive[c], W[c], gradient[c],
                         residual, -1)  # fmt: skip
            for i in range(count):
                p = residual[i] + X.dtype.type(kinds[i] == positive[c])
                residual[i] = np.sqrt(p * (one - p))
            for i in range(count):
                scale1(flat, i * width, residual[i], scaled[i])
            _add_outer(scaled, count, hessian[c])
        waiting += count
        if waiting >= FLUSH or first + count == index.size:
            gradients += gradient
            hessians += hessian
            gradient[:] = 0
            hessian[:] = 0
            waiting = 0


@njit(**KERNEL)
def _gather(
    X: np.ndarray, codes: np.ndarray, index: np.ndarray, first: int, count: int, intercept: bool,
    out: np.ndarray, kinds: np.ndarray,
) -> None:  # fmt: skip
    p = X.shape[1]
    flat = X.reshape(X.size)
    for i in range(count):
        if first + i + _AHEAD < index.size:
            later = index[first + i + _AHEAD]
            prefetch(codes, later)
            for j in range(later * p, (later + 1) * p, CACHE_LINE // X.itemsize):
                prefetch(flat, j)
        x, y = X[index[first + i]], out[i]
        for j in range(p):
            y[j] = x[j]
        if intercept:
            y[p] = 1
        kinds[i] = codes[index[first + i]]


@njit(**KERNEL)
def _add_outer(U: np.ndarray, count: int, total: np.ndarray) -> None:
    """total += U^T U over the first rows: its upper triangle, and what tiles take in below."""
    width = U.shape[1]
    flat, out = U.reshape(U.size), total.reshape(total.size)
    lanes = VECTOR // U.itemsize
    for i in range(0, width, TILE):
        j = i // lanes * lanes
        while j < width:
            left = (width - j) // lanes
            if left == 3 or left > 4:
                outer3(flat, count, width, i, j, out)
                j += 3 * lanes
            elif left == 1:
                outer1(flat, count, width, i, j, out)
                j += lanes
            else:
                outer2(flat, count, width, i, j, out)
                j += 2 * lanes
