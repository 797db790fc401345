"""One writer at a time: a lock on a file of the workspace, which the system frees if a holder dies.

A process that is stopped, or hangs, does not die. So the holder of the lock beats (it touches the
file once a second), and the lock has a term, a number in the records. Whoever waits and sees that
the holder neither beats nor computes for STILL_SECONDS ends it if it is a process of the service
and within reach, or else begins the next term. Each term has a lock file of its own, so that the
old holder's lock blocks nobody. The term is compared in every transaction and before every change
of a file, so the old holder changes nothing when it wakes up.

By hand, because no library's file lock tells a stopped holder from a working one.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unfit import disk
from unfit.errors import LostLock, Unavailable
from unfit.holder import Holder, command_name
from unfit.workspace.layout import lock_of_term

BEAT_SECONDS = 1.0
STILL_SECONDS = 10.0  # without a beat or any work, before a holder has lost the lock
TELL_SECONDS = 3.0  # of waiting, before it is said who is waited for

log = logging.getLogger("unfit")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Reads the number of the lock's term in the records, and begins the next one by a swap."""

    read: Callable[[], int]
    begin_after: Callable[[int], bool]


class WriterLock:
    """Held by whoever changes a workspace; the same thread may take it again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.what, self.service = command_name(), False  # what those who wait are told
        self.terms: Terms | None = None  # before the records are open there is one term
        self.term: int | None = None  # while held
        self._thread = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._thread:
            if self._depth:
                yield
                return
            handle, term = self._acquire()
            beats = _Beats(handle)
            try:
                self._depth, self.term = 1, term
                with disk.guarded(self.check):
                    yield
            finally:
                self._depth, self.term = 0, None
                beats.end()
                os.close(handle)

    def check(self) -> None:
        """Raise LostLock if another process has begun a new term."""
        if self.term is not None and self.terms is not None and self.terms.read() != self.term:
            raise LostLock

    # --- taking it -----------------------------------------------------------------------------

    def _acquire(self) -> tuple[int, int]:
        """Wait for the lock; an open file that is locked, and its term."""
        while True:
            term = 0 if self.terms is None else self.terms.read()
            path = lock_of_term(self.path, term)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(handle) and not self._wait(handle, path, term):
                continue  # a new term has begun; the file is closed when its old lock is free
            try:
                if self.terms is None or self.terms.read() == term:
                    _write(handle, Holder.me(self.what, self.service))
                    if term > 0:
                        self._remove_earlier_terms(path)
                    return handle, term
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _remove_earlier_terms(self, mine: Path) -> None:
        """Remove the files of earlier terms. `unfit.lock` stays, for those who open the records."""
        for path in self.path.parent.glob(f"{self.path.name}-*"):
            if path != mine:
                path.unlink(missing_ok=True)

    def _wait(self, handle: int, path: Path, term: int) -> bool:
        """Wait in turn until it is ours; False if another term has begun meanwhile."""
        waiting = _Waiting(handle)
        try:
            seen, since, begun = _pulse(path), time.monotonic(), time.monotonic()
            announced = False
            while not waiting.wait(0.25):
                again, at = _pulse(path), time.monotonic()
                if again != seen:
                    seen, since = again, at
                holder = seen[0]
                if not announced and at - begun > TELL_SECONDS:
                    log.warning("waiting for the workspace, which is held by %s", _whom(holder))
                    announced = True
                if self.terms is not None and at - since > STILL_SECONDS:
                    since = at
                    if holder is not None and holder.service and holder.kill():
                        log.warning("%s held the workspace and hung; it was ended", holder)
                        continue
                    self._begin_after(term, holder)
                if self.terms is not None and self.terms.read() != term:
                    waiting.abandon()
                    return False
            return True
        except BaseException:
            waiting.abandon()
            raise

    def _begin_after(self, term: int, holder: Holder | None) -> None:
        assert self.terms is not None
        try:
            if self.terms.begin_after(term):
                log.warning("%s held the workspace and hung; its lock is void", holder)
        except Unavailable as error:
            raise Unavailable(
                f"{_whom(holder)} holds the workspace and its database and hangs; resume "
                f"it, or end it with `kill -9 {holder.pid if holder else 'PID'}` ({error})"
            ) from None


def _pulse(path: Path) -> tuple[Holder | None, int, int | None]:
    """What changes while the holder lives: its beat, and what it has computed. The file is opened
    anew each time, because a network file system shows changes only then."""
    try:
        with path.open("rb") as file:
            holder, beat = Holder.read(file.read(4096)), os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:  # its term is over
        return None, 0, None
    return holder, beat, None if holder is None else holder.work_done()


def _whom(holder: Holder | None) -> str:
    return "another process" if holder is None else f"{holder}, since {holder.since}"


def _write(handle: int, me: Holder) -> None:
    """Say who holds the lock. Where it was the same process before, only the time is another one,
    and is written over: to cut a file takes longer. Whoever reads meanwhile sees this process, or
    nobody where another one had it."""
    before = Holder.read(os.pread(handle, 4096, 0))
    if before is None or replace(before, since=me.since) != me:
        os.ftruncate(handle, 0)
    os.pwrite(handle, me.text(), 0)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


class _Beats:
    """Touches the file of a lock once a second, for as long as the lock is held."""

    def __init__(self, handle: int) -> None:
        self._handle, self._mutex, self._ended = handle, threading.Lock(), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with self._mutex, suppress(OSError):  # the disk is gone: those who wait will see it
                if not self._ended.is_set():
                    os.utime(self._handle)

    def end(self) -> None:
        with self._mutex:
            self._ended.set()


class _Waiting:
    """A thread that waits in the system's queue for a lock, so that nobody is passed over."""

    def __init__(self, handle: int) -> None:
        self._handle, self._mutex = handle, threading.Lock()
        self._done, self._abandoned = threading.Event(), False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        with self._mutex:
            if self._abandoned:
                os.close(self._handle)
            self._done.set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def abandon(self) -> None:
        """Give up; the file is closed now, or when the lock is granted."""
        with self._mutex:
            self._abandoned = True
            if self._done.is_set():
                os.close(self._handle)
