"""The inner loop of every kernel: the data gradient of some rows of a padded layout.

    gradient += sum over rows of slope(x.w, t) x

Rows are taken four at a time so that w and the gradient are loaded once for four rows, and each
row is read once: its second use finds it in the cache.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, slopes_inplace
from unfit.core.kernels.parallel import CACHE_LINE, KERNEL, prefetch
from unfit.core.kernels.simd import add4, dot4

BLOCK = 32  # at most so many rows wait, margins known, for their gradient to be added
BLOCK_BYTES = 12 << 10  # and so many bytes of them: they must still be in the L1 cache then
FLUSH = 1024  # rows summed in the data's precision before the float64 sum takes over
SHORT_ROW_BYTES = 1024  # rows the hardware prefetcher is too late for


# Rows where they lie: X (n, p), class codes, and whether a column of ones goes with them. A plain
# tuple, and so is all that short kernels take: numba needs 20 us to tell the type of a named one.
RowArrays = tuple[np.ndarray, np.ndarray, bool]


class RowBlock(NamedTuple):
    """Padded rows X (n, width) and the class code of each."""

    X: np.ndarray
    codes: np.ndarray


class Span(NamedTuple):
    """slots[start:stop]; the caller will soon want as many rows from slot `ahead` on (-1: none)."""

    start: int
    stop: int
    ahead: int


class Target(NamedTuple):
    """The loss, and the class whose rows have target 1."""

    loss: CompiledLoss
    positive: int


class Sums(NamedTuple):
    """The gradient (width,) that is added to, and scratch of BLOCK numbers each."""

    gradient: np.ndarray
    margin: np.ndarray
    target: np.ndarray


@njit(nogil=True, cache=True, inline="always")
def _offset(slots: np.ndarray, i: int, width: int) -> int:
    return int(slots[i]) * width


@njit(nogil=True, cache=True, inline="always")
def _send_for(flat: np.ndarray, start: int, size: int, line: int) -> None:
    for j in range(start, start + size, line):
        prefetch(flat, j)


@njit(nogil=True, cache=True, inline="always")
def block_of(row_bytes: int) -> int:
    """Rows that wait together for their gradient to be added."""
    return max(4, min(BLOCK, BLOCK_BYTES // row_bytes // 4 * 4))


@njit(**KERNEL)
def add_to(total: np.ndarray, part: np.ndarray) -> None:
    """total += part, float64 += the data's precision."""
    for j in range(total.size):
        total[j] += part[j]


@njit(**KERNEL)
def block_margins(
    flat: np.ndarray,
    width: int,
    slots: np.ndarray,
    block: Span,
    w: np.ndarray,
    margin: np.ndarray,
) -> None:
    """margin[i] <- x.w of the i-th row of a block; short rows that come next are sent for."""
    line = CACHE_LINE // flat.itemsize
    short = width * flat.itemsize < SHORT_ROW_BYTES
    first, count = block.start, block.stop - block.start
    soon = (block.ahead - first) * width
    whole = count // 4 * 4
    for i in range(first, first + whole, 4):
        r = i - first
        margin[r], margin[r + 1], margin[r + 2], margin[r + 3] = dot4(
            flat,
            _offset(slots, i, width),
            _offset(slots, i + 1, width),
            _offset(slots, i + 2, width),
            _offset(slots, i + 3, width),
            w,
            width,
        )
        if short:
            for later in range(min(i + 16, slots.size), min(i + 20, slots.size)):
                _send_for(flat, _offset(slots, later, width), width, line)
            if block.ahead >= 0 and soon + (i + 4) * width <= flat.size:
                _send_for(flat, soon + i * width, 4 * width, line)
    for i in range(first + whole, first + count):
        start, m = _offset(slots, i, width), flat.dtype.type(0)
        for j in range(width):
            m += flat[start + j] * w[j]
        margin[i - first] = m


@njit(**KERNEL)
def add_scaled(
    flat: np.ndarray,
    width: int,
    slots: np.ndarray,
    block: Span,
    scale: np.ndarray,
    gradient: np.ndarray,
) -> None:
    """gradient += the rows of a block, each times its scale."""
    first, count = block.start, block.stop - block.start
    whole = count // 4 * 4
    for i in range(first, first + whole, 4):
        r = i - first
        add4(
            flat,
            _offset(slots, i, width),
            _offset(slots, i + 1, width),
            _offset(slots, i + 2, width),
            _offset(slots, i + 3, width),
            scale[r],
            scale[r + 1],
            scale[r + 2],
            scale[r + 3],
            gradient,
            width,
        )
    for i in range(first + whole, first + count):
        start, s = _offset(slots, i, width), scale[i - first]
        for j in range(width):
            gradient[j] += s * flat[start + j]


@njit(**KERNEL)
def add_gradient(
    rows: RowBlock, slots: np.ndarray, span: Span, target: Target, w: np.ndarray, sums: Sums
) -> None:
    """sums.gradient += the data gradient at w of the rows in slots[span.start : span.stop]."""
    X, codes, positive = rows.X, rows.codes, target.positive
    margin, t, gradient = sums.margin, sums.target, sums.gradient
    width, flat = X.shape[1], X.reshape(X.size)
    block = block_of(width * X.itemsize)
    for first in range(span.start, span.stop, block):
        count = min(block, span.stop - first)
        ahead = span.ahead + first - span.start if span.ahead >= 0 else -1
        part = Span(first, first + count, ahead)
        block_margins(flat, width, slots, part, w, margin)
        for i in range(count):
            t[i] = X.dtype.type(codes[slots[first + i]] == positive)
        slopes_inplace(target.loss, margin, t, count)
        add_scaled(flat, width, slots, part, margin, gradient)
