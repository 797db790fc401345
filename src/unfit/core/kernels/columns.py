"""Which columns of dense rows somebody still has a value in.

For each column a witness is kept: a row that counts and has a value there. The search for another
one goes on where the last one was found, so that all searches together read a column about twice.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.bits import add_bits, has_bit
from unfit.core.kernels.parallel import KERNEL

_FLAGS = 16  # for each column


@njit(**KERNEL)
def first_witnesses(X: np.ndarray, counts: np.ndarray, witnesses: np.ndarray) -> None:
    """witnesses[j] = the first row that counts and has a value in column j, -1 if there is none.

    Row by row for as long as columns are without one: where most values are not 0 that is soon.
    """
    n, p = X.shape
    missing, left = np.arange(p), p
    witnesses[:] = -1
    for i in range(n):
        if left == 0:
            break
        if not counts[i]:
            continue
        at = 0
        while at < left:
            j = missing[at]
            if X[i, j] != 0:
                witnesses[j] = i
                left -= 1
                missing[at] = missing[left]
            else:
                at += 1


@njit(**KERNEL)
def _all_stay(counts: np.ndarray, leaving: np.ndarray, witnesses: np.ndarray) -> bool:
    """Whether every witness counts and none is among the rows that leave, in any order: then no
    column is emptied. Rows are looked up in a table of flags, where few of them seem to be known.
    """
    n, size = counts.size, 1
    while size < _FLAGS * witnesses.size:
        size *= 2
    flags = np.zeros(size, np.bool_)
    for w in witnesses:
        if w >= n or (w >= 0 and not counts[w]):
            return False
        if w >= 0:
            flags[w & (size - 1)] = True
    for i in leaving:
        if flags[i & (size - 1)]:
            for w in witnesses:
                if w == i:
                    return False
    return True


@njit(**KERNEL)
def emptied(
    X: np.ndarray, counts: np.ndarray, leaving: np.ndarray, witnesses: np.ndarray, out: np.ndarray
) -> int:
    """out[: found] = the columns in which somebody had a value once and nobody has when the rows
    `leaving` have left. A witness among these gives way to one that stays; if the request is given
    up, it is found again, since the search begins anew at the first row. Where nobody counts even
    before it, n stands for a witness.
    """
    n, p, found = X.shape[0], X.shape[1], 0
    if _all_stay(counts, leaving, witnesses):
        return found
    bits = np.zeros((n >> 6) + 1, np.uint64)
    add_bits(leaving, bits)
    for j in range(p):
        first = witnesses[j]
        if first < 0:
            continue
        counted, stays = n, False  # anybody who counts as yet; whether he stays
        for step in range(n if first < n else 0):
            i = first + step
            i = i if i < n else i - n
            if counts[i] and X[i, j] != 0:
                stays = not has_bit(bits, i)
                if stays or counted == n:
                    counted = i
                if stays:
                    break
        witnesses[j] = counted
        if not stays:
            out[found] = j
            found += 1
    return found
