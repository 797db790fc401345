"""Threads that wait for work, and then run beside the caller and never on its core.

The scheduler may put a thread that was started or woken on the very core of whoever calls, where it
waits until the caller's own share is done: a pass over the rows then takes twice as long. On a
virtual machine whose kernel packs threads together that was so for every second pass. Threads are
therefore kept, and barred from the caller's core before they are woken. Which of the other cores
they run on is left to the scheduler.

To wake a thread that sleeps takes as long as a product of some hundred columns. So whoever waits,
a thread for its next work or a caller for the threads beside it, first looks for a while (a tenth
of a millisecond or so), yielding its core to whoever wants it, and only then sleeps.

Threads of BLAS look for tens of milliseconds after they have worked, and Linux lets a thread that
wants their core wait for the end of their time slice, 4 ms. So work that nobody has begun can be
taken back: who calls does it then, instead of waiting for a thread that cannot run.
"""

import ctypes
import os
from _thread import LockType, allocate_lock, get_native_id, start_new_thread
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unfit.core.kernels.atomics import (
    CACHE_LINE,
    compare_and_set,
    spin_until,
    wait_for,
    zeros_on_lines,
)

Work = Callable[[], None]
_LOOKS = 200  # before it sleeps: 0.6 microseconds each, or longer where cores are busy
_SPINS = 30_000  # looks without yielding the core: some tens of microseconds
_LATE = 100_000  # the same, after which a thread is given up: longer than it takes to wake one
_ASLEEP, _LOOKING, _CALLED = 0, 1, 2  # and more: called for that round
_FOREVER = 1 << 62

_idle: deque["Worker"] = deque()
if hasattr(os, "register_at_fork"):  # threads are not copied into a child process
    os.register_at_fork(after_in_child=_idle.clear)


# Tells the core of the caller; None where cores cannot be told or chosen.
_current_core: Any = None
if hasattr(os, "sched_setaffinity"):
    _current_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)


def _number() -> np.ndarray:
    """A number that threads share, alone on its cache line."""
    return zeros_on_lines((CACHE_LINE // 8,), np.int64)


@dataclass(frozen=True)
class Task:
    """Work that a thread does. done: released when it is; before that `rounds` of the worker, which
    counts what it has done, comes to `round`. Until it is begun, the worker's state says for which
    round it is called, so that nobody takes back what others have asked for since."""

    worker: "Worker"
    done: LockType
    round: int

    def wait(self) -> None:
        rounds = self.worker.rounds
        if not spin_until(rounds, self.round, _FOREVER, _SPINS):
            wait_for(rounds, self.round, _LOOKS)
        self.done.acquire()

    def begins(self) -> bool:
        """Whether the thread begins before long."""
        return bool(spin_until(self.worker.state, _ASLEEP, _LOOKING, _LATE))

    def take_back(self) -> bool:
        """Whether the thread had not begun; then it will not."""
        return self.worker.take_back(self.round)


class Worker:
    """One such thread. It belongs to whoever has borrowed it, until its work is done."""

    def __init__(self) -> None:
        self._wake, started = allocate_lock(), allocate_lock()
        self._work: tuple[Work, LockType] | None = None
        self._cores: frozenset[int] | None = None  # those it is held to; None: all
        self._thread = 0
        self.state, self.rounds = _number(), _number()
        self.state[0] = _LOOKING
        for lock in (self._wake, started):
            lock.acquire()

        def serve() -> None:
            self._thread = get_native_id()
            started.release()
            while True:
                called = wait_for(self.state, _CALLED, _LOOKS)
                if not called and compare_and_set(self.state, _LOOKING, _ASLEEP):
                    self._wake.acquire()
                call = int(self.state[0])
                if call >= _CALLED and compare_and_set(self.state, call, _LOOKING):
                    self._do()  # else it was taken back

        start_new_thread(serve, ())
        started.acquire()

    def _do(self) -> None:
        """In a frame of its own: no row is held by a thread that waits."""
        assert self._work is not None
        (work, done), self._work = self._work, None
        work()
        del work
        self.rounds[0] += 1
        _idle.append(self)
        done.release()

    def begin(self, work: Work, cores: frozenset[int] | None) -> Task:
        """Have it done on one of these cores. The work must not raise."""
        if cores is not None and cores != self._cores:
            try:
                os.sched_setaffinity(self._thread, cores)
                self._cores = cores
            except OSError:  # not allowed here: the scheduler's choice, then
                pass
        done = allocate_lock()
        done.acquire()
        task = Task(self, done, int(self.rounds[0]) + 1)
        self._work = work, done
        if not compare_and_set(self.state, _LOOKING, _CALLED + task.round):  # it sleeps
            self.state[0] = _CALLED + task.round
            self._wake.release()
        return task

    def take_back(self, number: int) -> bool:
        """Whether the work of a round had not begun. A thread that was woken for it finds nothing
        to do."""
        if not compare_and_set(self.state, _CALLED + number, _LOOKING):
            return False
        self._work = None
        _idle.append(self)
        return True


def borrowed() -> Worker:
    """A thread that sleeps, or a new one."""
    try:
        return _idle.pop()
    except IndexError:
        return Worker()


def cores_beside_caller(threads: int) -> frozenset[int] | None:
    """Where all but one of so many threads should run: not on the core of the caller, who is one of
    them. None where nothing can be said; all cores where there are fewer of them than threads."""
    if _current_core is None:
        return None
    cores = frozenset(os.sched_getaffinity(0))
    return cores - {_current_core()} if threads <= len(cores) else cores
