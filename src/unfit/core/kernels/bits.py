"""Sets of rows as bits: an eighth of a mask in memory, and made faster than a sorted list."""

import numpy as np
from numba import njit


def no_bits(n: int) -> np.ndarray:
    """The empty set of rows below n."""
    return np.zeros((n >> 6) + 1, np.uint64)


@njit(nogil=True, cache=True)
def add_bits(places: np.ndarray, bits: np.ndarray) -> int:
    """Puts rows into a set; how many of them were there already."""
    repeated = 0
    for i in places:
        word, bit = i >> 6, np.uint64(1) << np.uint64(i & 63)
        repeated += (bits[word] & bit) != 0
        bits[word] |= bit
    return repeated


@njit(nogil=True, cache=True)
def has_bit(bits: np.ndarray, i: int) -> bool:
    return bool((bits[i >> 6] >> np.uint64(i & 63)) & np.uint64(1))
