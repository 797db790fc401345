"""Threads that meet: all arrive, and a failure does not leave the others waiting. Threads that are
kept: beside the caller, holding nothing, and new in a child process."""

import ctypes
import gc
import os
import threading
import weakref
from collections import deque

import numpy as np
import pytest
from numba import njit

from unfit.core.kernels import parallel, workers
from unfit.core.kernels.atomics import CACHE_LINE, zeros_on_lines
from unfit.core.kernels.parallel import (
    available_threads,
    meet,
    new_meeting,
    run_parts,
    run_threads,
    threads_and_parts,
)


@njit(nogil=True)
def take_turns(meeting, seen, thread, threads, rounds):
    for r in range(rounds):
        seen[r, thread] = 1
        meet(meeting, (2 * r + 1) * threads)
        for other in range(threads):
            if seen[r, other] != 1:
                seen[r, thread] = -1
        meet(meeting, (2 * r + 2) * threads)


# Where threads outnumber cores, one that waits spins until its time is up: fewer rounds then.
@pytest.mark.parametrize(("threads", "rounds"), [(1, 2000), (2, 2000), (3, 200)])
def test_nobody_passes_before_all_have_arrived(threads, rounds):
    meeting, seen = new_meeting(), np.zeros((rounds, threads), np.int64)
    run_threads(lambda t: take_turns(meeting, seen, t, threads, rounds), threads, meeting)
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


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores and a system that tells them apart",
)
def test_no_thread_runs_on_the_core_of_the_caller():
    core, barred = ctypes.PyDLL(None).sched_getcpu, []

    for _ in range(20):
        both = threading.Barrier(2)

        def body(thread, both=both):
            if thread:
                barred.append(os.sched_getaffinity(0))
            both.wait(10)  # else the caller might do it all

        before = core()
        run_threads(body, 2)
        if core() == before:  # else the caller was moved meanwhile
            assert barred[-1] == os.sched_getaffinity(0) - {before}


def test_more_threads_than_cores_may_run_everywhere():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("cores cannot be told apart here")
    cores, seen = os.sched_getaffinity(0), []
    everyone = threading.Barrier(len(cores) + 1)
    run_threads(lambda t: (everyone.wait(10), seen.append(os.sched_getaffinity(0))), len(cores) + 1)
    assert seen == [cores] * (len(cores) + 1)


def test_threads_are_kept_and_hold_nothing():
    class Rows:
        pass

    def used():
        rows, both = Rows(), threading.Barrier(2)
        names = []
        run_threads(lambda t: (both.wait(10), names.append((threading.get_native_id(), rows))), 2)
        return {thread for thread, _ in names}, weakref.ref(rows)

    first, rows = used()
    gc.collect()
    assert rows() is None
    assert used()[0] == first


@pytest.mark.parametrize("callers", [1, 3])
def test_no_call_is_lost_whether_threads_look_for_work_or_sleep(callers):
    """Pauses about as long as a thread looks for work: the next call comes as it goes to sleep."""
    done = np.zeros(callers, np.int64)

    def calls(caller):
        rng = np.random.default_rng(caller)
        for pause in rng.uniform(0, 3e-4, 400):
            seen = []
            run_threads(seen.append, 3)
            assert sorted(seen) == [0, 1, 2]
            done[caller] += 1
            threading.Event().wait(pause if pause > 1e-4 else 0)

    running = [threading.Thread(target=calls, args=(caller,)) for caller in range(callers)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert (done == 400).all()


class NeverBegins(workers.Worker):
    """As if its core were taken for good."""

    def __init__(self):
        self._wake, self._work, self._cores, self._thread = threading.Lock(), None, None, 0
        self.state, self.rounds = np.ones(1, np.int64), np.zeros(1, np.int64)


@pytest.fixture
def one_never_begins(monkeypatch):
    """The first thread of every call that is asked for one."""
    kept, asked = workers.borrowed, []

    def borrowed():
        asked.append(1)
        return NeverBegins() if len(asked) == 1 else kept()

    monkeypatch.setattr(workers, "_idle", deque())
    monkeypatch.setattr(workers, "_LATE", 1000)
    monkeypatch.setattr(parallel, "borrowed", borrowed)
    monkeypatch.setattr(parallel, "cores_beside_caller", lambda threads: None)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_caller_does_what_nobody_has_begun(one_never_begins, threads):
    seen = {}
    run_threads(lambda t: seen.update({t: threading.get_native_id()}), threads)
    assert sorted(seen) == list(range(threads))
    assert seen[0] == seen[1] == threading.get_native_id()


def test_what_nobody_has_begun_is_left_where_the_caller_fails(one_never_begins):
    seen = []

    def body(thread):
        seen.append(thread)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_threads(body, 2)
    assert 0 in seen


@pytest.mark.parametrize("threads", [2, 3])
def test_one_thread_does_all_where_others_cannot_meet_it(one_never_begins, threads):
    meeting, done, seen = new_meeting(), [], np.zeros((10, threads), np.int64)

    def alone():
        done.append(seen[:, 1].copy())

    def body(thread):
        take_turns(meeting, seen, thread, threads, 10)

    run_threads(body, threads, meeting, alone)
    assert len(done) == 1
    assert not seen[:, 0].any()
    assert not done[0].any()


def test_threads_that_begin_meet():
    meeting, seen = new_meeting(), np.zeros((10, 2), np.int64)
    late = []
    body = lambda t: take_turns(meeting, seen, t, 2, 10)  # noqa: E731
    run_threads(body, 2, meeting, lambda: late.append(1))
    assert late or (seen == 1).all()


def test_callers_at_the_same_time_do_not_share_a_thread():
    meeting, seen = threading.Barrier(4), []

    def caller():
        run_threads(lambda t: (meeting.wait(10), seen.append(threading.get_native_id())), 2)

    callers = [threading.Thread(target=caller) for _ in range(2)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert len(set(seen)) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own():
    run_threads(lambda t: None, 2)
    child = os.fork()
    if child == 0:
        seen, both = set(), threading.Barrier(2)
        run_threads(lambda t: (both.wait(10), seen.add(threading.get_native_id())), 2)
        os._exit(0 if len(seen) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_part_is_taken_once(threads):
    taken = []
    run_parts(taken.append, 11, threads)
    assert sorted(taken) == list(range(11))


def test_a_thread_that_is_held_up_leaves_its_parts_to_the_others():
    others_done, taken = threading.Event(), {}

    def body(part):
        taken[part] = threading.get_native_id()
        if part == 0:
            assert others_done.wait(10)
        elif len(taken) == 8:
            others_done.set()

    run_parts(body, 8, 2)
    assert len({taken[part] for part in range(1, 8)}) == 1


def test_little_work_is_one_part():
    assert threads_and_parts(99, 100) == (1, 1)
    threads, parts = threads_and_parts(10**9, 100)
    assert threads == available_threads()
    assert parts == (1 if threads == 1 else 4 * threads)


@pytest.mark.parametrize("shape", [(8,), (2, 3, 72), (1, 1, 5), (0, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_zeros_begin_with_a_cache_line(shape: tuple[int, ...], dtype: type) -> None:
    made = [zeros_on_lines(shape, dtype) for _ in range(20)]
    for found in made:
        assert found.shape == shape
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        assert found.flags.writeable
        assert not found.any()
        assert found.size == 0 or found.ctypes.data % CACHE_LINE == 0
        found[...] = 1
    assert not zeros_on_lines(shape, dtype).any()
