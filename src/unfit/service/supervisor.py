"""`unfit serve`: a parent that holds the socket and keeps API processes and workers running."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from unfit.service.child_process import Child, blas_threads, compute_cores
from unfit.service.log import log, log_event

GRACE_SECONDS = 10.0
METRICS_PREFIX = "unfit-metrics-"
MIN_PAUSE = 0.25  # seconds before a child that failed at once is started again


@dataclass
class _Slot:
    """The place of one child, with its own pause before a child is started again."""

    kind: str
    child: Child | None = None
    pause: float = MIN_PAUSE
    start_at: float = 0.0


class Supervisor:
    """The processes of a service. A child that dies is started again; all end together."""

    def __init__(self, folder: Path, listening: socket.socket, apis: int, workers: int) -> None:
        self._folder, self._socket = folder, listening
        wanted = {"api": apis, "worker": workers}
        self._slots = [_Slot(kind) for kind, count in wanted.items() for _ in range(count)]
        _remove_stale_folders()
        self._metrics = tempfile.mkdtemp(prefix=f"{METRICS_PREFIX}{os.getpid()}-")

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                for slot in self._slots:
                    self._keep_running(slot)
                stop.wait(0.1)
        finally:
            self._end()
            shutil.rmtree(self._metrics, ignore_errors=True)

    def _start(self, kind: str) -> Child:
        environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": self._metrics}
        command = [sys.executable, "-m", "unfit.service.child", kind, str(self._folder)]
        handles: tuple[int, ...] = ()
        if kind == "api":
            environment |= blas_threads(1)
            handles = (self._socket.fileno(),)
            command.append(str(self._socket.fileno()))
        else:
            environment |= blas_threads(len(compute_cores()))
        # its own group, because Ctrl-C is for the parent; one session, so that priorities count
        return Child(command, environment, handles=handles, process_group=0)

    def _keep_running(self, slot: _Slot) -> None:
        """Start the child if it is not running, with growing pauses if it keeps failing."""
        now = time.monotonic()
        if slot.child is None:
            if now >= slot.start_at:
                slot.child = self._start(slot.kind)
            return
        child = slot.child
        if child.process.poll() is None:
            if not child.hangs():
                return
            log_event(log, "child-hangs", kind=slot.kind, pid=child.process.pid)
            child.kill()
        child.close()
        lived = now - child.started
        slot.pause = min(30.0, 2 * slot.pause) if lived < 5.0 else MIN_PAUSE
        slot.child, slot.start_at = None, now + (slot.pause if lived < 5.0 else 0.0)
        log_event(
            log,
            "child-ended",
            kind=slot.kind,
            pid=child.process.pid,
            status=child.process.returncode,
            lived=round(lived, 1),
        )

    def _end(self) -> None:
        children = [slot.child for slot in self._slots if slot.child is not None]
        for child in children:
            child.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        for child in children:
            try:
                child.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
            child.close()


def _remove_stale_folders() -> None:
    """Metrics folders of parents that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{METRICS_PREFIX}*"):
        pid = left.name.removeprefix(METRICS_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
