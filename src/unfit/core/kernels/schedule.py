"""Which row sits where in which epoch: a fresh permutation per epoch that is never stored.

Rows lie in slots 0 .. n-1. An epoch visits windows of slots in random order, each window in a
random order of its own (short rows gathered from all over memory would run at a fifth of the
bandwidth; a window fits the cache). Every permutation is a keyed bijection on integers: a few
rounds of xor with a key, multiplication by a random odd number and xor-shift, cycle-walked.
So the slot at a position, and the position of a slot, cost O(1) in any epoch: DELTAGRAD finds
the batches of the deleted rows without looking at the others. All follows from the seed.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

WINDOW_BYTES = 1 << 20
LONG_ROW_BYTES = 1024  # rows this long stream well from anywhere: windows as large as can be

_ROUNDS = 6
_XOR, _ODD, _INVERSE = 0, 1, 2  # what a round's key holds: what to xor, an odd factor, its inverse
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def window_rows(n: int, row_bytes: int) -> int:
    """All rows if they are worth a megabyte or less; else a power of two (whose order costs least)
    of rows worth that or, where rows are long, the largest that n holds.
    """
    if n * row_bytes <= WINDOW_BYTES:
        return n
    rows = n if row_bytes >= LONG_ROW_BYTES else WINDOW_BYTES // row_bytes
    return int(1 << rows.bit_length() - 1)


@njit(nogil=True, cache=True, inline="always")
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def epoch_keys(seed: np.uint64, epoch: int, windows: int) -> np.ndarray:
    """Round keys of every window of an epoch; the last ones are for the order of the windows."""
    keys = np.empty((windows + 1, _ROUNDS, 3), np.uint32)
    base = _mix(seed + _GOLDEN * np.uint64(epoch + 1))
    for w in range(windows + 1):
        for r in range(_ROUNDS):
            drawn = _mix(base + _GOLDEN * np.uint64(w * _ROUNDS + r + 1))
            odd = np.uint32(drawn >> np.uint64(32)) | np.uint32(1)
            inverse = odd  # right to 3 bits; each step of Newton's method doubles them
            for _ in range(4):
                inverse = np.uint32(inverse * np.uint32(np.uint32(2) - np.uint32(odd * inverse)))
            keys[w, r, _XOR] = np.uint32(drawn)
            keys[w, r, _ODD] = odd
            keys[w, r, _INVERSE] = inverse
    return keys


@njit(nogil=True, cache=True, inline="always")
def _bits(size: int) -> int:
    bits = 2
    while (1 << bits) < size:
        bits += 1
    return bits


@njit(nogil=True, cache=True, inline="always")
def _round(
    z: np.uint32, key: np.uint32, odd: np.uint32, mask: np.uint32, shift: np.uint32
) -> np.uint32:
    # Casts keep numba from widening to 64 bits, which would halve the vectors.
    z = np.uint32(np.uint32((z ^ key) * odd) & mask)
    return np.uint32(z ^ (z >> shift))


@njit(nogil=True, cache=True, inline="always")
def _unround(
    z: np.uint32, key: np.uint32, inverse: np.uint32, mask: np.uint32, shift: np.uint32
) -> np.uint32:
    z = np.uint32(z ^ (z >> shift))
    return np.uint32((np.uint32(z * inverse) ^ key) & mask)


@njit(nogil=True, cache=True, inline="always")
def _mask_and_shift(bits: int) -> tuple[np.uint32, np.uint32]:
    return np.uint32((1 << bits) - 1), np.uint32((bits + 1) // 2)


@njit(nogil=True, cache=True)
def _permute(x: int, size: int, bits: int, keys: np.ndarray) -> int:
    mask, shift = _mask_and_shift(bits)
    z = np.uint32(x)
    while True:
        for r in range(_ROUNDS):
            z = _round(z, keys[r, _XOR], keys[r, _ODD], mask, shift)
        if z < size:
            return int(z)


@njit(nogil=True, cache=True)
def _unpermute(x: int, size: int, bits: int, keys: np.ndarray) -> int:
    mask, shift = _mask_and_shift(bits)
    z = np.uint32(x)
    while True:
        for r in range(_ROUNDS - 1, -1, -1):
            z = _unround(z, keys[r, _XOR], keys[r, _INVERSE], mask, shift)
        if z < size:
            return int(z)


@njit(nogil=True, cache=True)
def _fill_power(order: np.ndarray, low: int, base: int, bits: int, keys: np.ndarray) -> None:
    """_permute of consecutive numbers below a power of two: no walk, so it vectorises."""
    mask, shift = _mask_and_shift(bits)
    k0, k1, k2 = keys[0, _XOR], keys[1, _XOR], keys[2, _XOR]
    k3, k4, k5 = keys[3, _XOR], keys[4, _XOR], keys[5, _XOR]
    o0, o1, o2 = keys[0, _ODD], keys[1, _ODD], keys[2, _ODD]
    o3, o4, o5 = keys[3, _ODD], keys[4, _ODD], keys[5, _ODD]
    for i in range(order.size):
        z = _round(np.uint32(low + i), k0, o0, mask, shift)
        z = _round(z, k1, o1, mask, shift)
        z = _round(z, k2, o2, mask, shift)
        z = _round(z, k3, o3, mask, shift)
        z = _round(z, k4, o4, mask, shift)
        order[i] = np.uint32(base) + _round(z, k5, o5, mask, shift)


class Share(NamedTuple):
    """Which of how many threads."""

    thread: int
    threads: int


@njit(nogil=True, cache=True)
def epoch_of(
    n: int, window: int, seed: np.uint64, epoch: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order of an epoch over n slots: keys of every window, the windows in the order of their
    visit, and where each window (by its number) starts."""
    windows = -(-n // window)
    keys = epoch_keys(seed, epoch, windows)
    ragged = n - (windows - 1) * window
    visit, starts = np.empty(windows, np.int64), np.empty(windows, np.int64)
    start = 0
    for rank in range(windows):
        w = _permute(rank, windows, _bits(windows), keys[windows])
        visit[rank] = w
        starts[w] = start
        start += ragged if w == windows - 1 else window
    return keys, visit, starts


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
    slots: np.ndarray,
    begin: int,
    end: int,
    n: int,
    window: int,
    keys: np.ndarray,
    visit: np.ndarray,
    starts: np.ndarray,
) -> None:
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
    slots: np.ndarray,
    positions: np.ndarray,
    n: int,
    window: int,
    keys: np.ndarray,
    starts: np.ndarray,
    share: Share,
) -> None:
    """positions[i] = where in the epoch slots[i] is visited; a thread does its share of them."""
    windows = starts.size
    ragged = n - (windows - 1) * window
    window_bits, ragged_bits = _bits(window), _bits(ragged)
    m = slots.size
    first, last = m * share.thread // share.threads, m * (share.thread + 1) // share.threads
    for i in range(first, last):
        w = slots[i] // window
        ends = w == windows - 1
        positions[i] = starts[w] + _unpermute(
            slots[i] - w * window,
            ragged if ends else window,
            ragged_bits if ends else window_bits,
            keys[w],
        )


def epoch_order(n: int, window: int, seed: int, epoch: int) -> np.ndarray:
    """The slots in the order in which an epoch visits them."""
    order = np.empty(n, np.int32)
    fill_slots(order, 0, n, n, window, *epoch_of(n, window, np.uint64(seed), epoch))
    return order
