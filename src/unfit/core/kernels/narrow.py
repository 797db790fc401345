"""Gradient and Hessian sums of narrow rows, by one kernel that reads each row once.

BLAS wants scaled rows in memory, and to gather and scale them costs more than the product itself
where rows have fifty columns. Here a thread gathers a few rows at a time, which stay in its L1
cache until their margins, gradient and outer products are done. Sums are in the precision of the
rows over FLUSH of them, float64 across.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.margin import CompiledLoss, curvature, slope
from unfit.core.kernels.parallel import KERNEL, VECTOR, available_threads, prefetch, run_threads
from unfit.core.kernels.rows import (
    BLOCK,
    FLUSH,
    RowArrays,
    RowBlock,
    Span,
    add_scaled,
    block_margins,
    block_of,
)
from unfit.core.kernels.simd import TILE, outer1, outer2, outer3, scale1

NARROW = 1024  # bytes of a row up to which this beats BLAS
_ACCUMULATORS = 512 << 10  # bytes of Hessians summed at a time: they stay in the L2 cache
_AHEAD = 16  # rows that are sent for before they are gathered: nobody could guess where they lie
_WORTH_A_THREAD = 1 << 23  # multiply-adds


def narrow(X: np.ndarray, k: int) -> bool:
    """Whether the sums of k problems over these rows are made here."""
    row = X.shape[1] * X.itemsize
    small = row < NARROW and k * row * X.shape[1] <= _ACCUMULATORS
    return bool(small and X.flags.c_contiguous)


def sums_of_narrow_rows(
    rows: RowArrays,
    index: np.ndarray,
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray],
    sample_weight: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """sum slope x, (k, d), and sum curvature x x^T, (k, d, d), over the rows at an index.

    problems: for each the class with target 1, and the weights (k, d). sample_weight (n,)
    multiplies slope and curvature of each row; empty: 1.
    """
    positive, W = problems
    (k, d), m = W.shape, index.size
    X = rows[0]
    lanes = VECTOR // X.itemsize
    width = -(-d // lanes) * lanes
    padded = np.zeros((k, width), X.dtype)
    padded[:, :d] = W
    threads = min(available_threads(), 1 + m * d * d * k // _WORTH_A_THREAD)
    gradients, hessians = np.zeros((threads, k, width)), np.zeros((threads, k, width, width))

    def body(t: int) -> None:
        share = index[m * t // threads : m * (t + 1) // threads]
        totals = gradients[t], hessians[t]
        _add_sums(rows, share, loss, (positive, padded), totals, sample_weight)

    run_threads(body, threads)
    hessian = np.empty((k, d, d))
    _add_and_mirror(hessians, hessian)
    return gradients.sum(axis=0)[:, :d], hessian


@njit(**KERNEL)
def _add_and_mirror(parts: np.ndarray, total: np.ndarray) -> None:
    """total (k, d, d) <- the symmetric sum of the threads' upper triangles (threads, k, ...)."""
    k, d = total.shape[0], total.shape[1]
    for c in range(k):
        for i in range(d):
            for j in range(i, d):
                value = parts[0, c, i, j]
                for t in range(1, parts.shape[0]):
                    value += parts[t, c, i, j]
                total[c, i, j] = value
                total[c, j, i] = value


@njit(**KERNEL)
def _add_sums(
    rows: RowArrays,
    index: np.ndarray,
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray],
    totals: tuple[np.ndarray, np.ndarray],
    sample_weight: np.ndarray,
) -> None:
    """Add to gradients (k, width) and Hessians (k, width, width) of problems: class and weights."""
    X, codes, _ = rows
    positive, W = problems
    gradients, hessians = totals
    kind = X.dtype
    k, width = W.shape
    step = block_of(width * X.itemsize)
    block = RowBlock(np.zeros((step, width), kind), np.zeros(step, codes.dtype))
    gathered, scaled = block.X, np.zeros((step, width), kind)
    slots = np.arange(step).astype(np.int32)
    margin, root = np.zeros(BLOCK, kind), np.zeros(BLOCK, kind)
    gradient, hessian = np.zeros((k, width), kind), np.zeros((k, width, width), kind)
    flat = gathered.reshape(gathered.size)
    waiting = 0
    for first in range(0, index.size, step):
        count = min(step, index.size - first)
        _gather(rows, index, first, count, block)
        here = Span(0, count, -1)
        for c in range(k):
            block_margins(flat, width, slots, here, W[c], margin)
            for i in range(count):
                root[i] = kind.type(block.codes[i] == positive[c])
            for i in range(count):
                m, t = margin[i], root[i]
                margin[i] = slope(loss, m, t)
                root[i] = np.sqrt(kind.type(curvature(loss, m, t)))
            if sample_weight.size:
                for i in range(count):
                    weight = sample_weight[index[first + i]]
                    margin[i] *= kind.type(weight)
                    root[i] *= kind.type(np.sqrt(weight))
            add_scaled(flat, width, slots, here, margin, gradient[c])
            for i in range(count):
                scale1(flat, i * width, root[i], scaled[i])
            _add_outer(scaled, count, hessian[c])
        waiting += count
        if waiting >= FLUSH or first + count == index.size:
            gradients += gradient
            hessians += hessian
            gradient[:] = 0
            hessian[:] = 0
            waiting = 0


@njit(**KERNEL)
def _gather(rows: RowArrays, index: np.ndarray, first: int, count: int, block: RowBlock) -> None:
    """Copy the rows at index[first : first + count], intercept included."""
    X, codes, intercept = rows
    p = X.shape[1]
    flat = X.reshape(X.size)
    for i in range(count):
        if first + i + _AHEAD < index.size:
            later = index[first + i + _AHEAD]
            prefetch(codes, later)
            for j in range(later * p, (later + 1) * p, CACHE_LINE // X.itemsize):
                prefetch(flat, j)
        x, y = X[index[first + i]], block.X[i]
        for j in range(p):
            y[j] = x[j]
        if intercept:
            y[p] = 1
        block.codes[i] = codes[index[first + i]]


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
