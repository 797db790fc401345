"""The worker: applies erasures, runs jobs, prepares for the next; one at a time holds the lease.

Erasures that wait are applied together. Audits and retrainings run in a process of their own, at a
lower priority; erasures go on during an audit and wait for a retraining.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unfit.errors import UnfitError
from unfit.service.observing import Log
from unfit.service.parts import LEASE_SECONDS
from unfit.service.processes import LIFELINE, lifeline
from unfit.store.jobs import Jobs, Lease
from unfit.store.records import Job
from unfit.workspace import Workspace
from unfit.workspace.keeper import now

POLL_SECONDS = 0.05
BEAT_SECONDS = 1.0
QUIET_SECONDS = 1.0  # without erasures, before statistics are saved for the next process
NICENESS = 10

Result = TypeVar("Result")


class Worker:
    def __init__(self, folder: Path, log: Log, stop: threading.Event) -> None:
        self._folder, self._log, self._stop = folder, log, stop
        self._workspace = Workspace(folder)
        store = self._workspace.store
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._lease, self._jobs = Lease(store, self._holder), Jobs(store)
        self._lost = threading.Event()
        self._child: tuple[Job, subprocess.Popen[bytes]] | None = None
        self._quiet_since: float | None = None

    def run(self) -> None:
        """Until told to stop."""
        try:
            while not self._stop.is_set():
                if self._take_lease():
                    self._serve()
                    self._end_child()  # who has taken over does its job again
        finally:
            self._end_child()
            if not self._lost.is_set():
                self._lease.release()
            self._workspace.close()

    # --- the lease -----------------------------------------------------------------------------

    def _take_lease(self) -> bool:
        """Wait until nobody holds it, or its holder has not moved for its time."""
        seen, since = self._lease.read(), time.monotonic()
        while not self._stop.is_set():
            idle = time.monotonic() - since > LEASE_SECONDS
            if (seen[0] is None or idle) and self._lease.take(seen, now()):
                if idle:
                    self._log.line("lease-taken-over", worker=self._holder, of=seen[0])
                else:
                    self._log.line("lease-taken", worker=self._holder)
                self._lost.clear()
                self._workspace.store.fence = self._lease.fence
                return True
            self._stop.wait(0.2)
            again = self._lease.read()
            if again != seen:
                seen, since = again, time.monotonic()
        return False

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS) and not self._lost.is_set():
            try:
                if not self._lease.beat():
                    self._log.line("lease-lost", worker=self._holder)
                    self._lost.set()
                    return
            except UnfitError as error:
                self._log.line("beat-failed", worker=self._holder, error=str(error))

    # --- the work ------------------------------------------------------------------------------

    def _serve(self) -> None:
        beating = threading.Thread(target=self._beat, daemon=True)
        beating.start()
        self._jobs.resume()
        self._try("prepare", self._workspace.prepare)
        while not self._stop.is_set() and not self._lost.is_set():
            self._watch_child()
            retraining = self._child is not None and self._child[0].kind == "retrain"
            worked = False if retraining else self._apply()
            if self._child is None:
                self._start_job()
            if not worked:
                self._settle_down()
                self._stop.wait(POLL_SECONDS)

    def _apply(self) -> bool:
        """What waits, all together."""
        store = self._workspace.store
        if not store.waiting():
            return False
        started = time.perf_counter()
        applied = self._try("apply", self._workspace.apply)
        if applied is None:
            self._stop.wait(1.0)
            return False
        if applied == 0:  # a purge that could not be done before
            return False
        took = round(1000 * (time.perf_counter() - started), 1)
        self._log.line("applied", requests=applied, ms=took, version=_number(self._workspace))
        self._quiet_since = None
        return True

    def _settle_down(self) -> None:
        """After a commit, once nobody waits: what the next erasure wants. Statistics, which may
        take seconds, only when nobody came for a while."""
        if self._quiet_since is None:
            self._quiet_since = time.monotonic()
            self._try("prepare", self._workspace.get_ready)
        elif 0 < self._quiet_since < time.monotonic() - QUIET_SECONDS and self._child is None:
            self._quiet_since = 0.0
            self._try("prepare", self._workspace.prepare)

    def _try(self, what: str, work: Callable[[], Result]) -> Result | None:
        try:
            return work()
        except UnfitError as error:
            self._log.line(f"{what}-failed", error=str(error))
            return None

    # --- jobs ----------------------------------------------------------------------------------

    def _start_job(self) -> None:
        waiting = self._jobs.find(state="pending")
        if not waiting:
            return
        job = waiting[0]
        self._jobs.start(job, now())
        command = [sys.executable, "-m", "unfit.service.job", str(self._folder), str(job.id),
                   self._holder]  # fmt: skip
        child = subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | {LIFELINE: "0"})
        self._child = job, child
        self._log.line("job-started", job=job.id, kind=job.kind)

    def _watch_child(self) -> None:
        if self._child is None or self._child[1].poll() is None:
            return
        job, child = self._child
        self._child = None
        self._quiet_since = None
        (found,) = self._jobs.find(id=job.id)
        state = found.state
        if state == "running":
            state = "failed"
            self._jobs.fail(job.id, f"its process ended with {child.returncode}", now())
        self._log.line("job-ended", job=job.id, kind=job.kind, state=state)

    def _end_child(self) -> None:
        if self._child is not None:
            self._child[1].kill()
            self._child[1].wait()
            self._child = None


def _number(workspace: Workspace) -> int:
    version = workspace.store.employed()
    return 0 if version is None else version.number


def work(folder: Path, stop: threading.Event) -> None:
    """A worker process."""
    os.nice(NICENESS)
    lifeline(stop)
    log = Log()
    log.line("worker-started", pid=os.getpid())
    Worker(folder, log, stop).run()
    log.line("worker-stopped", pid=os.getpid())
