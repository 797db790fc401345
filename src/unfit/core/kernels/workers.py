"""Threads that sleep until there is work, and then run beside the caller and never on its core.

The scheduler may put a thread that was started or woken on the very core of whoever calls, where it
waits until the caller's own share is done: a pass over the rows then takes twice as long. On a
virtual machine whose kernel packs threads together that was so for every second pass. Threads are
therefore kept, and barred from the caller's core before they are woken. Which of the other cores
they run on is left to the scheduler. Knows nothing of ours.
"""

import ctypes
import os
from _thread import allocate_lock, get_native_id, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import Any

Work = Callable[[], None]

_idle: deque["Worker"] = deque()
if hasattr(os, "register_at_fork"):  # threads are not copied into a child process
    os.register_at_fork(after_in_child=_idle.clear)


# Tells the core of the caller; None where cores cannot be told or chosen.
_current_core: Any = None
if hasattr(os, "sched_setaffinity"):
    _current_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)


class Worker:
    """One such thread. It belongs to whoever has borrowed it, until its work is done."""

    def __init__(self) -> None:
        self._wake, started = allocate_lock(), allocate_lock()
        self._work: Work | None = None
        self._cores: frozenset[int] | None = None  # those it is held to; None: all
        self._thread = 0
        for lock in (self._wake, started):
            lock.acquire()

        def serve() -> None:
            self._thread = get_native_id()
            started.release()
            while True:
                self._wake.acquire()
                self._do()

        start_new_thread(serve, ())
        started.acquire()

    def _do(self) -> None:
        """In a frame of its own: no row is held by a thread that sleeps."""
        work, self._work = self._work, None
        assert work is not None
        work()

    def begin(self, work: Work, cores: frozenset[int] | None) -> None:
        """Wake it on one of these cores. The work ends with `put_back` and must not raise."""
        if cores is not None and cores != self._cores:
            try:
                os.sched_setaffinity(self._thread, cores)
                self._cores = cores
            except OSError:  # not allowed here: the scheduler's choice, then
                pass
        self._work = work
        self._wake.release()

    def put_back(self) -> None:
        _idle.append(self)


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
