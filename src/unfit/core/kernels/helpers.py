"""Steps that one thread leads, and that others help with as soon as they come.

A thread that is called begins some tens of microseconds later, since Python's lock has to be handed
over first: as long as a product of 800 columns takes. So nobody waits for it. The caller leads: it
does what is short, opens a step, takes parts of it until none is left, and waits for those that
others have taken. A helper takes parts of whatever step is open when it comes, or comes too late
for any. Parts, and sums kept by part, do not depend on who took them.

A board (2, 8) is what they share: [0, 0] the step with the parts that were taken of it, [0, 1] the
parts of every step; [1, 0] parts that are done. Knows kernels.atomics.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.atomics import (
    CACHE_LINE,
    add_and_get,
    read,
    replaced,
    yield_core,
    zeros_on_lines,
)

_BITS = 20
_PARTS_TAKEN = (1 << _BITS) - 1
_NOTHING_OPEN = 1 << (_BITS - 1)  # more parts than there are, and room to count those who ask
_CLOSED = 1 << 61
_SPINS = 4096  # looks before the core is yielded
_PARTS = 2  # of a step, for each thread


def new_board(threads: int) -> np.ndarray:
    """For so many threads, with no step open yet."""
    board = zeros_on_lines((2, CACHE_LINE // 8), np.int64)
    board[0, 0], board[0, 1] = _NOTHING_OPEN, 1 if threads == 1 else _PARTS * threads
    return board


def parts_of(board: np.ndarray) -> int:
    """Of every step."""
    return int(board[0, 1])


@njit(nogil=True, cache=True)
def open_step(board: np.ndarray, number: int) -> None:
    """The one before it must have been waited for."""
    board[1, 0] = 0
    while not replaced(board[0], read(board[0]), number << _BITS):
        pass


@njit(nogil=True, cache=True)
def next_part(board: np.ndarray) -> tuple[int, int]:
    """The open step and a part of it that is now taken; -1 in place of both if none is left."""
    if (read(board[0]) & _PARTS_TAKEN) < board[0, 1]:
        taken = add_and_get(board[0])  # of the step that is open now, if another one is
        if (taken & _PARTS_TAKEN) < board[0, 1]:
            return taken >> _BITS, taken & _PARTS_TAKEN
    return -1, -1


@njit(nogil=True, cache=True)
def finish_part(board: np.ndarray) -> None:
    add_and_get(board[1])


@njit(nogil=True, cache=True)
def wait_for_step(board: np.ndarray) -> None:
    """Until every part of the open step is done."""
    spins = 0
    while read(board[1]) < board[0, 1]:
        spins += 1
        if spins > _SPINS:
            yield_core()


@njit(nogil=True, cache=True)
def wait_for_parts(board: np.ndarray) -> bool:
    """Whether there are parts to take, once a step is open; False when there will be none."""
    spins = 0
    while True:
        now = read(board[0])
        if now >= _CLOSED:
            return False
        if (now & _PARTS_TAKEN) < board[0, 1]:
            return True
        spins += 1
        if spins > _SPINS:
            yield_core()


@njit(nogil=True, cache=True)
def close(board: np.ndarray) -> None:
    """Send those who help, or come to help, away."""
    while not replaced(board[0], read(board[0]), _CLOSED | _NOTHING_OPEN):
        pass
