"""The worker: applies erasures, runs jobs and prepares for the next erasure.

One worker at a time holds the lease. Pending erasures are applied together. Audits and retrainings
run in their own process at a lower priority; erasures continue during an audit and wait for a
retraining.
"""

import logging
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
from unfit.holder import Holder
from unfit.service.child_process import Child, lifeline
from unfit.service.log import LogOutput, log, log_event
from unfit.store.leases import LEASE_SECONDS
from unfit.store.records import Job
from unfit.workspace import Workspace

POLL_SECONDS = 0.05
BEAT_SECONDS = 1.0
QUIET_SECONDS = 1.0  # without an erasure, before statistics are prepared for the next one
FAILED_SECONDS = 1.0  # before anything that failed is tried again
CATCH_UP_SECONDS = 1.0  # between checks of the deletion list
NICENESS = 10

Result = TypeVar("Result")


class Worker:
    def __init__(self, folder: Path, logger: logging.Logger, stop: threading.Event) -> None:
        self._folder, self._logger, self._stop = folder, logger, stop
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
        """Work until `stop` is set."""
        try:
            while not self._stop.is_set():
                if self._try("lease", self._take_lease):
                    self._serve()
                    self._end_child()  # the worker that took over runs its job again
                    if self._lost.is_set():
                        log_event(self._logger, "standing-by", worker=self._holder)
                    elif (self._try("look", self._store.requests.waiting) or (False, False))[1]:
                        self._try("purge", self._workspace.purge)  # no other worker may follow
        finally:
            self._end_child()
            if not self._lost.is_set():
                self._try("release", self._lease.release)
            self._workspace.close()

    # --- the lease -----------------------------------------------------------------------------

    def _renew(self) -> None:
        """Take a new name for each term, so that leftovers of an earlier term are rejected."""
        self._holder = f"{Holder.me('unfit worker').name()}:{uuid.uuid4().hex[:8]}"
        self._lease = self._store.lease(self._holder)

    def _take_lease(self) -> bool:
        """Wait until nobody holds the lease, or its holder has not renewed it in time.

        A holder that neither renews nor computes hangs. It is killed if possible, because it may
        hold the workspace's lock or a transaction forever.
        """
        self._renew()
        seen, since = self._lease.read(), time.monotonic()
        worked, worked_at = _work_done_by(seen[0]), since
        while not self._stop.is_set():
            at, work = time.monotonic(), _work_done_by(seen[0])
            if work != worked:
                worked, worked_at = work, at
            idle = at - since > LEASE_SECONDS or is_dead(seen[0])
            if idle and at - worked_at > LEASE_SECONDS and _kill(seen[0]):
                log_event(self._logger, "hung-worker-ended", worker=self._holder, of=seen[0])
            if (seen[0] is None or idle) and self._lease.take(seen, now()):
                if idle:
                    log_event(self._logger, "lease-taken-over", worker=self._holder, of=seen[0])
                else:
                    log_event(self._logger, "lease-taken", worker=self._holder)
                self._lost.clear()
                self._workspace.store.require_lease(self._lease)
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
                    log_event(self._logger, "lease-lost", worker=self._holder)
                    self._lost.set()
                    return
            except Exception as error:  # whatever it is, the lease is not lost yet
                log_event(self._logger, "beat-failed", worker=self._holder, error=str(error)[:200])

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
        """Do what is due; return whether erasures were applied."""
        self._watch_child()
        self._expire()
        retraining = self._child is not None and self._child[0].kind == "retrain"
        worked = False if retraining else self._apply()
        if self._child is None:
            self._start_job()
        if not worked and not retraining:
            self._prepare()
        return worked

    def _apply(self) -> bool:
        """Apply all pending erasures together, and purge from time to time."""
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
        version = _active_number(self._workspace)
        log_event(self._logger, "applied", requests=applied, ms=took, version=version)
        self._quiet_since = None
        return True

    def _expire(self) -> None:
        """Remove deleted rows whose audit window is over, even if nothing else happens or a
        retraining holds the workspace."""
        if not self._workspace.schedule.expiry_is_due():
            return
        removed = self._try("expire", self._workspace.purge_expired)
        if removed:
            log_event(self._logger, "expired", rows=removed)

    def _prepare(self) -> None:
        """Prepare for the next erasure once none is pending; statistics, which may take seconds,
        only after a quiet while."""
        at = time.monotonic()
        if at - self._caught_up_at > CATCH_UP_SECONDS:
            self._caught_up_at = at
            if not self._workspace.caught_up():  # the list was replaced, or has never been read
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
            log_event(self._logger, f"{what}-failed", error=str(error))
            self._stop.wait(FAILED_SECONDS)  # the database or the disk may come back
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
        log_event(self._logger, "job-started", job=job.id, kind=job.kind)

    def _watch_child(self) -> None:
        if self._child is None:
            return
        job, child = self._child
        if child.process.poll() is None:
            if not child.hangs():
                return
            log_event(self._logger, "job-hangs", job=job.id, kind=job.kind)
            child.kill()
        child.close()
        self._child = None
        self._quiet_since = None
        (found,) = self._jobs.find(id=job.id)
        state = found.state
        if state == "running":
            state = "failed"
            self._jobs.fail(
                job.id,
                f"the process of the job ended with status {child.process.returncode}",
                now(),
            )
        log_event(self._logger, "job-ended", job=job.id, kind=job.kind, state=state)

    def _end_child(self) -> None:
        if self._child is not None:
            self._child[1].kill()
            self._child[1].close()
            self._child = None


def is_dead(holder: str | None) -> bool:
    """Whether the holder was a process of this machine and has ended."""
    found = Holder.named(holder)
    return found is not None and found.is_gone


def _work_done_by(holder: str | None) -> int | None:
    found = Holder.named(holder)
    return None if found is None else found.work_done()


def _kill(holder: str | None) -> bool:
    found = Holder.named(holder)
    return found is not None and found.pid != os.getpid() and found.kill()


def _active_number(workspace: Workspace) -> int:
    version = workspace.store.versions.active()
    return 0 if version is None else version.number


def work(folder: Path, stop: threading.Event) -> None:
    """Run a worker process."""
    os.nice(NICENESS)
    if hasattr(
        os, "SCHED_BATCH"
    ):  # a worker that wakes up must not take a core from a process that answers
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    lifeline(stop)
    LogOutput().install()
    log_event(log, "worker-started", pid=os.getpid())
    Worker(folder, log, stop).run()
    log_event(log, "worker-stopped", pid=os.getpid())
