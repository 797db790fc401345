"""The inner loop of every kernel: the data gradient of some rows of a padded layout.

    gradient += sum over rows of (sigmoid(x.w) - t) x

Rows are taken four at a time so that w and the gradient are loaded once for four rows, and each
row is read once: its second use finds it in the cache.
"""

import math

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from unfit.core.kernels.parallel import FASTMATH, KERNEL, prefetch
from unfit.core.kernels.simd import add4, dot4

BLOCK = 32  # at most so many rows wait, margins known, for their gradient to be added
BLOCK_BYTES = 12 << 10  # and so many bytes of them: they must still be in the L1 cache then
FLUSH = 1024  # rows summed in the data's precision before the float64 sum takes over
SHORT_ROW_BYTES = 1024  # rows the hardware prefetcher is too late for


def sigmoid_inplace(values: np.ndarray, count: int) -> None:
    """values[:count] <- 1 / (1 + exp(-values)), compiled per precision."""
    values[:count] = 1.0 / (1.0 + np.exp(-values[:count]))


def _sigmoid_float32(values, count):  # type: ignore[no-untyped-def]  # numba compares signatures
    # exp(-x) = 2^n 2^f with |f| <= 1/2 and a polynomial for 2^f: vectorises, error below 1e-7.
    f32 = np.float32
    for i in range(count):
        z = min(max(-values[i], f32(-87.0)), f32(87.0)) * f32(math.log2(math.e))
        n = np.int32(np.int32(z + f32(256.5)) - np.int32(256))  # rounds; floor is a call
        f = z - f32(n)
        p = f32(1.5403530e-4) * f + f32(1.3333558e-3)
        p = p * f + f32(9.6181291e-3)
        p = p * f + f32(5.5504109e-2)
        p = p * f + f32(2.4022651e-1)
        p = p * f + f32(6.9314718e-1)
        p = p * f + f32(1.0)
        power = np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)
        values[i] = f32(1.0) / (f32(1.0) + p * power)


def _sigmoid_float64(values, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        values[i] = 1.0 / (1.0 + math.exp(-values[i]))


@overload(sigmoid_inplace, jit_options={"fastmath": FASTMATH, "error_model": "numpy"})
def _choose_sigmoid(values, count):  # type: ignore[no-untyped-def]  # numba calls it with types
    return _sigmoid_float32 if values.dtype == types.float32 else _sigmoid_float64


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
def add_gradient(
    X: np.ndarray, slots: np.ndarray, start: int, stop: int, codes: np.ndarray, positive: int,
    w: np.ndarray, gradient: np.ndarray, residual: np.ndarray, ahead: int,
) -> None:  # fmt: skip
    """Add the data gradient at w of rows slots[start:stop]; target is 1 where code == positive.

    `ahead`: the caller will soon want as many rows from this slot on; short ones are sent for
    meanwhile. -1 for none.

    `residual` is scratch of BLOCK numbers of the data's type.
    """
    width = X.shape[1]
    flat = X.reshape(X.size)
    line = 64 // X.itemsize
    short = width * X.itemsize < SHORT_ROW_BYTES
    soon = (ahead - start) * width
    block = block_of(width * X.itemsize)
    for first in range(start, stop, block):
        count = min(block, stop - first)
        whole = count // 4 * 4
        for i in range(first, first + whole, 4):
            r = i - first
            residual[r], residual[r + 1], residual[r + 2], residual[r + 3] = dot4(
                flat, _offset(slots, i, width), _offset(slots, i + 1, width),
                _offset(slots, i + 2, width), _offset(slots, i + 3, width), w, width,
            )  # fmt: skip
            if short:
                for later in range(min(i + 16, slots.size), min(i + 20, slots.size)):
                    _send_for(flat, _offset(slots, later, width), width, line)
                if ahead >= 0 and soon + (i + 4) * width <= flat.size:
                    _send_for(flat, soon + i * width, 4 * width, line)
        for i in range(first + whole, first + count):
            x = X[slots[i]]
            margin = X.dtype.type(0)
            for j in range(width):
                margin += x[j] * w[j]
            residual[i - first] = margin
        sigmoid_inplace(residual, count)
        for i in range(count):
            residual[i] -= X.dtype.type(codes[slots[first + i]] == positive)
        for i in range(first, first + whole, 4):
            r = i - first
            add4(
                flat, _offset(slots, i, width), _offset(slots, i + 1, width),
                _offset(slots, i + 2, width), _offset(slots, i + 3, width),
                residual[r], residual[r + 1], residual[r + 2], residual[r + 3], gradient, width,
            )  # fmt: skip
        for i in range(first + whole, first + count):
            x = X[slots[i]]
            scale = residual[i - first]
            for j in range(width):
                gradient[j] += scale * x[j]
