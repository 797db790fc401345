"""Which columns of dense rows somebody still has a value in.

For each column a witness is kept: a row that counts and has a value there. Rows only leave, so that
the search for another witness goes on where the last one was found, and all searches together read
a column once.
"""

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from unfit.core.kernels.parallel import KERNEL


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


def _holds(places: np.ndarray, i: int) -> bool:
    """Whether a row is among sorted places, or in a mask; in compiled code only."""
    raise NotImplementedError


@overload(_holds, jit_options={"error_model": "numpy"})
def _choose_holds(places, i):  # type: ignore[no-untyped-def]  # numba calls it with types
    if places.dtype == types.boolean:
        return lambda places, i: places[i]

    def found(places, i):  # type: ignore[no-untyped-def]
        at = np.searchsorted(places, i)
        return at < places.size and places[at] == i

    return found


@njit(**KERNEL)
def emptied(
    X: np.ndarray, counts: np.ndarray, leaving: np.ndarray, witnesses: np.ndarray, out: np.ndarray
) -> int:
    """out[: found] = the columns in which somebody had a value once and nobody has when the rows
    `leaving` have left: sorted places, or a mask over the rows. A witness among these stays one,
    since a request may be given up; where nobody counts even before it, n stands for one.
    """
    n, p, found = X.shape[0], X.shape[1], 0
    for j in range(p):
        i = witnesses[j]
        if i < 0:
            continue
        known = False  # whether anybody counts there as yet
        while i < n:
            if counts[i] and X[i, j] != 0:
                if not known:
                    witnesses[j], known = i, True
                if not _holds(leaving, i):
                    break
            i += 1
        if not known:
            witnesses[j] = n
        if i == n:
            out[found] = j
            found += 1
    return found
