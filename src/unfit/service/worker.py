"""The worker: applies erasures, runs jobs, prepares for the next; one at a time holds the lease.

Erasures that wait are applied together. Audits and retrainings run in a process of their own, at a
lower priority; erasures go on during an audit and wait for a retraining.
"""

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unfit.clock import now
from unfit.errors import UnfitError
from unfit.service.child_process import Child, lifeline
from unfit.service.log import Log, take_all
from unfit.store.leases import LEASE_SECONDS
from unfit.store.records import Job
from unfit.workspace import Workspace
from unfit.workspace.holder import Holder

POLL_SECONDS = 0.05
BEAT_SECONDS = 1.0
QUIET_SECONDS = 1.0  # without erasures, before statistics are saved for the next process
FAILED_SECONDS = 1.0  # before the next try of anything
CATCH_UP_SECONDS = 1.0  # between looks at the deletion list
NICENESS = 10

Result = TypeVar("Result")


class Worker:
    def __init__(self, folder: Path, log: Log, stop: threading.Event) -> None:
        self._folder, self._log, self._stop = folder, log, stop
        self._workspace = Workspace(folder)
        self._workspace.work_as("unfit worker")
        store = self._workspace.store
        self._store, self._jobs = store, store.jobs
        self._workspace.defer_purge()
        self._renew()
        self._lost = threading.Event()
        self._child: tuple[Job, Child] | None = None
        self._quiet_since: float | None = None
        self._caught_up_at = 0.0

    def run(self) -> None:
        """Until told to stop."""
        try:
            while not self._stop.is_set():
                if self._try("lease", self._take_lease):
                    self._serve()
                    self._end_child()  # who has taken over does its job again
                    if self._lost.is_set():
                        self._log.line("standing-by", worker=self._holder)
                    elif (self._try("look", self._store.requests.waiting) or (False, False))[1]:
                        self._try("purge", self._workspace.purge)  # nobody may come after it
        finally:
            self._end_child()
            if not self._lost.is_set():
                self._try("release", self._lease.release)
            self._workspace.close()

    # --- the lease -----------------------------------------------------------------------------

    def _renew(self) -> None:
        """A name of its own for each term, so that what is left of an earlier one is refused."""
        self._holder = f"{Holder.me('unfit worker').name()}:{uuid.uuid4().hex[:8]}"
        self._lease = self._store.lease(self._holder)

    def _take_lease(self) -> bool:
        """Wait until nobody holds it, or its holder has not moved for its time. One that neither
        moves nor computes hangs: it is ended where that is possible, since it may hold the
        workspace's lock, or a transaction, for good."""
        self._renew()
        seen, since = self._lease.read(), time.monotonic()
        worked, worked_at = _work_of(seen[0]), since
        while not self._stop.is_set():
            at, work = time.monotonic(), _work_of(seen[0])
            if work != worked:
                worked, worked_at = work, at
            idle = at - since > LEASE_SECONDS or is_dead(seen[0])
            if idle and at - worked_at > LEASE_SECONDS and _kill(seen[0]):
                self._log.line("hung-worker-ended", worker=self._holder, of=seen[0])
            if (seen[0] is None or idle) and self._lease.take(seen, now()):
                if idle:
                    self._log.line("lease-taken-over", worker=self._holder, of=seen[0])
                else:
                    self._log.line("lease-taken", worker=self._holder)
                self._lost.clear()
                self._workspace.store.require(self._lease)
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
            except Exception as error:  # whatever it is, the lease is not lost by it yet
                self._log.line("beat-failed", worker=self._holder, error=str(error)[:200])

    # --- the work ------------------------------------------------------------------------------

    def _serve(self) -> None:
        beating = threading.Thread(target=self._beat, daemon=True)
        beating.start()
        self._try("resume", lambda: self._jobs.resume(now()))
        self._quiet_since = None
        while not self._stop.is_set() and not self._lost.is_set():
            if not self._try("turn", self._turn):
                self._stop.wait(POLL_SECONDS)

    def _turn(self) -> bool:
        """A look at everything there is to do; whether there was something."""
        self._watch_child()
        self._expire()
        retraining = self._child is not None and self._child[0].kind == "retrain"
        worked = False if retraining else self._apply()
        if self._child is None:
            self._start_job()
        if not worked and not retraining:
            self._settle_down()
        return worked

    def _apply(self) -> bool:
        """What waits, all together; now and then what they leave behind is purged."""
        pending, due = self._store.requests.waiting()
        if due and self._workspace.schedule.purge_is_due():
            finished = self._try("purge", self._workspace.purge)
            self._workspace.schedule.note_purge(bool(finished))
        if not pending:
            return False
        started = time.perf_counter()
        applied = self._try("apply", self._workspace.apply)
        if applied is None:
            return False
        took = round(1000 * (time.perf_counter() - started), 1)
        self._log.line("applied", requests=applied, ms=took, version=_number(self._workspace))
        self._quiet_since = None
        return True

    def _expire(self) -> None:
        """Deleted rows that were kept for audits leave in time, also when nobody asks for anything
        and while a retraining holds the workspace."""
        if not self._workspace.schedule.expiry_is_due():
            return
        removed = self._try("expire", self._workspace.purge_expired)
        if removed:
            self._log.line("expired", rows=removed)

    def _settle_down(self) -> None:
        """After a commit, once nobody waits: what the next erasure wants. Statistics, which may
        take seconds, only when nobody came for a while."""
        at = time.monotonic()
        if at - self._caught_up_at > CATCH_UP_SECONDS:
            self._caught_up_at = at
            if not self._workspace.caught_up():  # the list was put back, or was never read
                self._try("catch-up", self._workspace.warm_up)
        if self._quiet_since is None:
            self._quiet_since = time.monotonic()
            self._try("prepare", self._workspace.warm_up)
        elif 0 < self._quiet_since < time.monotonic() - QUIET_SECONDS and self._child is None:
            self._quiet_since = 0.0
            self._try("prepare", self._workspace.prepare)

    def _try(self, what: str, work: Callable[[], Result]) -> Result | None:
        try:
            return work()
        except UnfitError as error:
            self._log.line(f"{what}-failed", error=str(error))
            self._stop.wait(FAILED_SECONDS)  # the database, or the disk: they may come back
            return None

    # --- jobs ----------------------------------------------------------------------------------

    def _start_job(self) -> None:
        waiting = self._jobs.find(state="pending")
        if not waiting:
            return
        job = waiting[0]
        self._jobs.start(job, now())
        command = [
            sys.executable,
            "-m",
            "unfit.service.job",
            str(self._folder),
            str(job.id),
            self._holder,
        ]
        self._child = job, Child(command)
        self._log.line("job-started", job=job.id, kind=job.kind)

    def _watch_child(self) -> None:
        if self._child is None:
            return
        job, child = self._child
        if child.process.poll() is None:
            if not child.hangs():
                return
            self._log.line("job-hangs", job=job.id, kind=job.kind)
            child.kill()
        child.close()
        self._child = None
        self._quiet_since = None
        (found,) = self._jobs.find(id=job.id)
        state = found.state
        if state == "running":
            state = "failed"
            self._jobs.fail(job.id, f"its process ended with {child.process.returncode}", now())
        self._log.line("job-ended", job=job.id, kind=job.kind, state=state)

    def _end_child(self) -> None:
        if self._child is not None:
            self._child[1].kill()
            self._child[1].close()
            self._child = None


def is_dead(holder: str | None) -> bool:
    """Whether a holder was a process of this place and is no more: nobody need wait for it."""
    found = Holder.named(holder)
    return found is not None and found.is_gone


def _work_of(holder: str | None) -> int | None:
    found = Holder.named(holder)
    return None if found is None else found.work_done()


def _kill(holder: str | None) -> bool:
    found = Holder.named(holder)
    return found is not None and found.pid != os.getpid() and found.kill()


def _number(workspace: Workspace) -> int:
    version = workspace.store.versions.active()
    return 0 if version is None else version.number


def work(folder: Path, stop: threading.Event) -> None:
    """A worker process."""
    os.nice(NICENESS)
    if hasattr(os, "SCHED_BATCH"):  # who wakes up to compute takes no core from who answers
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    lifeline(stop)
    log = Log()
    take_all(log)
    log.line("worker-started", pid=os.getpid())
    Worker(folder, log, stop).run()
    log.line("worker-stopped", pid=os.getpid())
