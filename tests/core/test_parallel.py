"""Threads that meet: all arrive, and a failure does not leave the others waiting."""

import numpy as np
import pytest
from numba import njit

from unfit.core.kernels.parallel import available_threads, meet, new_meeting, run_threads


@njit(nogil=True)
def take_turns(meeting, seen, thread, threads, rounds):
    for r in range(rounds):
        seen[r, thread] = 1
        meet(meeting, (2 * r + 1) * threads)
        for other in range(threads):
            if seen[r, other] != 1:
                seen[r, thread] = -1
        meet(meeting, (2 * r + 2) * threads)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nobody_passes_before_all_have_arrived(threads):
    meeting, seen = new_meeting(), np.zeros((2000, threads), np.int64)
    run_threads(lambda t: take_turns(meeting, seen, t, threads, 2000), threads, meeting)
    assert (seen == 1).all()


def test_a_failure_releases_the_others_and_is_raised():
    meeting, seen = new_meeting(), np.zeros((10, 2), np.int64)

    def body(thread):
        if thread == 1:
            raise KeyboardInterrupt
        take_turns(meeting, seen, thread, 2, 10)

    with pytest.raises(KeyboardInterrupt):
        run_threads(body, 2, meeting)


def test_cores():
    assert 1 <= available_threads() <= 16
