"""The inner loop of every kernel: the data gradient of some rows of a padded layout.

    gradient += sum over rows of slope(x.w, t) x

Rows are taken four at a time so that w and the gradient are loaded once for four rows, and each
row is read once: its second use finds it in the cache.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.margin import CompiledLoss, slopes_inplace
from unfit.core.kernels.parallel import KERNEL, prefetch
from unfit.core.kernels.simd import add4, dot4

BLOCK = 32  # at most so many rows wait, margins known, for their gradient to be added
BLOCK_BYTES = 12 << 10  # and so many bytes of them: they must still be in the L1 cache then
FLUSH = 1024  # rows summed in the data's precision before the float64 sum takes over
SHORT_ROW_BYTES = 1024  # rows the hardware prefetcher is too late for


# Rows where they lie: X (n, p), class codes, and whether a column of ones goes with them. A plain
# tuple, and so is all that short kernels take: numba needs 20 us to tell the type of a named one.
RowArrays = tuple[np.ndarray, np.ndarray, bool]
PaddedRows = tuple[np.ndarray, np.ndarray]  # X (n, width) and the class code of each row


class RowBlock(NamedTuple):
    """Padded rows X (n, width) and the class code of each."""

    X: np.ndarray
    codes: np.ndarray


class Span(NamedTuple):
    """slots[start:stop]; the caller will soon want as many rows from slot `ahead` on (-1: none)."""

    start: int
    stop: int
    ahead: int


@njit(nogil=True, cache=True, inline="always")
def _offset(slots: np.ndarray, i: int, width: int) -> int:
    return int(slots[i]) * width


@njit(nogil=True, cache=True, inline="always")
def block_of(row_bytes: int) -> int:
    """Rows that wait together for their gradient to be added."""
    return max(4, min(BLOCK, BLOCK_BYTES // row_bytes // 4 * 4))


@njit(**KERNEL)
def add_to(total: np.ndarray, part: np.ndarray) -> None:
    """total += part, float64 += the data's precision."""
    for j in range(total.size):
        total[j] += part[j]


@njit(forceinline=True, **KERNEL)
def block_margins(
    flat: np.ndarray,
    width: int,
    slots: np.ndarray,
    block: Span,
    w: np.ndarray,
    margin: np.ndarray,
) -> None:
    """margin[i] <- x.w of the i-th row of a block; short rows that come next are sent for."""
    # Nothing here can raise, so numba counts no references: a range of any step but 1 could.
    line = CACHE_LINE // flat.itemsize
    lines, lines_ahead = (width + line - 1) // line, (4 * width + line - 1) // line
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
                start = _offset(slots, later, width)
                for j in range(lines):
                    prefetch(flat, start + j * line)
            if block.ahead >= 0 and soon + (i + 4) * width <= flat.size:
                for j in range(lines_ahead):
                    prefetch(flat, soon + i * width + j * line)
    # Unsigned: of a signed number numba asks whether it counts from the end, and then gathers.
    for i in range(first + whole, first + count):
        start, m = np.uint64(_offset(slots, i, width)), flat.dtype.type(0)
        for j in range(width):
            m += flat[start + np.uint64(j)] * w[j]
        margin[i - first] = m


@njit(forceinline=True, **KERNEL)
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
        start, s = np.uint64(_offset(slots, i, width)), scale[i - first]
        for j in range(width):
            gradient[j] += s * flat[start + np.uint64(j)]


@njit(**KERNEL)
def add_gradient(
    flat: np.ndarray,
    width: int,
    codes: np.ndarray,
    slots: np.ndarray,
    span: Span,
    loss: CompiledLoss,
    positive: int,
    w: np.ndarray,
    gradient: np.ndarray,
    margin: np.ndarray,
    target: np.ndarray,
) -> None:
    """gradient (width,) += the data gradient at w of the rows in slots[span.start : span.stop].

    flat: the rows, one after the other; positive: the class whose rows have target 1; margin,
    target: scratch of BLOCK numbers each.
    """
    block = block_of(width * flat.itemsize)
    for number in range((span.stop - span.start + block - 1) // block):
        first = span.start + number * block
        count = min(block, span.stop - first)
        ahead = span.ahead + first - span.start if span.ahead >= 0 else -1
        part = Span(first, first + count, ahead)
        block_margins(flat, width, slots, part, w, margin)
        for r in range(count):
            target[r] = flat.dtype.type(codes[slots[first + r]] == positive)
        slopes_inplace(loss, margin, target, count)
        add_scaled(flat, width, slots, part, margin, gradient)
