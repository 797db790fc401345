"""Which row sits where in which epoch: a fresh permutation per epoch that is never stored.

Rows lie in slots 0 .. n-1. An epoch visits windows of slots in random order, each window in a
random order of its own (short rows gathered from all over memory would run at a fifth of the
bandwidth; a window fits the cache). Every permutation is a keyed bijection on integers: a few
rounds of xor with a key, multiplication by an odd number and xor-shift, cycle-walked into range.
So the slot at a position, and the position of a slot, cost O(1) in any epoch: DELTAGRAD finds
the batches of the deleted rows without looking at the others. All follows from the seed.
"""

import numpy as np
from numba import njit

WINDOW_BYTES = 1 << 20
LONG_ROW_BYTES = 1024  # rows this long stream well from anywhere: windows as large as can be

_ROUNDS = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ODD = np.uint32(0x9E3779B1)
_ODD_INVERSE = np.uint32(pow(0x9E3779B1, -1, 1 << 32))


def window_rows(n: int, row_bytes: int) -> int:
    """Rows per window: a power of two (its order costs least), worth about a megabyte or,
    where rows are long, the largest that n holds.
    """
    rows = n if row_bytes >= LONG_ROW_BYTES else min(n, WINDOW_BYTES // row_bytes)
    return int(1 << rows.bit_length() - 1)


@njit(nogil=True, cache=True, inline="always")
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def epoch_keys(seed: np.uint64, epoch: int, windows: int) -> np.ndarray:
    """Round keys of every window of an epoch; the last row keys the order of the windows."""
    keys = np.empty((windows + 1, _ROUNDS), np.uint32)
    base = _mix(seed + _GOLDEN * np.uint64(epoch + 1))
    for w in range(windows + 1):
        for r in range(_ROUNDS):
            keys[w, r] = np.uint32(_mix(base + _GOLDEN * np.uint64(w * _ROUNDS + r + 1)))
    return keys


@njit(nogil=True, cache=True, inline="always")
def _bits(size: int) -> int:
    bits = 2
    while (1 << bits) < size:
        bits += 1
    return bits


@njit(nogil=True, cache=True, inline="always")
def _round(z: np.uint32, key: np.uint32, mask: np.uint32, shift: np.uint32) -> np.uint32:
    # Casts keep numba from widening to 64 bits, which would halve the vectors.
    z = np.uint32(np.uint32((z ^ key) * _ODD) & mask)
    return np.uint32(z ^ (z >> shift))


@njit(nogil=True, cache=True, inline="always")
def _unround(z: np.uint32, key: np.uint32, mask: np.uint32, shift: np.uint32) -> np.uint32:
    z = np.uint32(z ^ (z >> shift))
    return np.uint32((np.uint32(z * _ODD_INVERSE) ^ key) & mask)


@njit(nogil=True, cache=True, inline="always")
def _mask_and_shift(bits: int) -> tuple[np.uint32, np.uint32]:
    return np.uint32((1 << bits) - 1), np.uint32((bits + 1) // 2)


@njit(nogil=True, cache=True)
def _permute(x: int, size: int, bits: int, keys: np.ndarray) -> int:
    mask, shift = _mask_and_shift(bits)
    z = np.uint32(x)
    while True:
        for r in range(_ROUNDS):
            z = _round(z, keys[r], mask, shift)
        if z < size:
            return int(z)


@njit(nogil=True, cache=True)
def _unpermute(x: int, size: int, bits: int, keys: np.ndarray) -> int:
    mask, shift = _mask_and_shift(bits)
    z = np.uint32(x)
    while True:
        for r in range(_ROUNDS - 1, -1, -1):
            z = _unround(z, keys[r], mask, shift)
        if z < size:
            return int(z)


@njit(nogil=True, cache=True)
def _fill_power(order: np.ndarray, low: int, base: int, bits: int, keys: np.ndarray) -> None:
    """_permute of consecutive numbers below a power of two: no walk, so it vectorises."""
    mask, shift = _mask_and_shift(bits)
    k0, k1, k2, k3 = keys[0], keys[1], keys[2], keys[3]
    for i in range(order.size):
        z = _round(np.uint32(low + i), k0, mask, shift)
        z = _round(z, k1, mask, shift)
        z = _round(z, k2, mask, shift)
        order[i] = np.uint32(base) + _round(z, k3, mask, shift)


@njit(nogil=True, cache=True)
def epoch_windows(n: int, window: int, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Windows in the order of their visit, and where each window (by its number) starts."""
    windows = keys.shape[0] - 1
    ragged = n - (windows - 1) * window
    visit, starts = np.empty(windows, np.int64), np.empty(windows, np.int64)
    start = 0
    for rank in range(windows):
        w = _permute(rank, windows, _bits(windows), keys[windows])
        visit[rank] = w
        starts[w] = start
        start += ragged if w == windows - 1 else window
    return visit, starts


@njit(nogil=True, cache=True)
def rank_at(position: int, n: int, window: int, starts: np.ndarray) -> int:
    """Which visit a position of the epoch belongs to; only the last window may be short."""
    windows = starts.size
    ragged = n - (windows - 1) * window
    short = starts[windows - 1]
    if position < short:
        return int(position // window)
    if position < short + ragged:
        return int(short // window)
    return int((position + window - ragged) // window)


@njit(nogil=True, cache=True)
def fill_slots(
    slots: np.ndarray, begin: int, end: int, n: int, window: int, keys: np.ndarray,
    visit: np.ndarray, starts: np.ndarray,
) -> None:  # fmt: skip
    """slots[:end - begin] <- the slots at positions begin .. end - 1 of the epoch."""
    rank = rank_at(begin, n, window, starts)
    at = begin
    while at < end:
        w = visit[rank]
        size = n - w * window if w == starts.size - 1 else window
        bits = _bits(size)
        stop = min(end, starts[w] + size)
        if size == 1 << bits:
            _fill_power(slots[at - begin : stop - begin], at - starts[w], w * window, bits, keys[w])
        else:
            for i in range(at, stop):
                slots[i - begin] = w * window + _permute(i - starts[w], size, bits, keys[w])
        at = stop
        rank += 1


@njit(nogil=True, cache=True)
def find_positions(
    slots: np.ndarray, positions: np.ndarray, n: int, window: int, keys: np.ndarray,
    starts: np.ndarray, thread: int, threads: int,
) -> None:  # fmt: skip
    """positions[i] = where in the epoch slots[i] is visited; a thread does its share of them."""
    windows = starts.size
    ragged = n - (windows - 1) * window
    window_bits, ragged_bits = _bits(window), _bits(ragged)
    m = slots.size
    for i in range(m * thread // threads, m * (thread + 1) // threads):
        w = slots[i] // window
        last = w == windows - 1
        positions[i] = starts[w] + _unpermute(
            slots[i] - w * window,
            ragged if last else window,
            ragged_bits if last else window_bits,
            keys[w],
        )


def epoch_order(n: int, window: int, seed: int, epoch: int) -> np.ndarray:
    """The slots in the order in which an epoch visits them."""
    order = np.empty(n, np.int32)
    keys = epoch_keys(np.uint64(seed), epoch, -(-n // window))
    fill_slots(order, 0, n, n, window, keys, *epoch_windows(n, window, keys))
    return order
