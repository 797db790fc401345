"""`unfit serve`: a parent that holds the socket, API processes and workers that it keeps alive."""

import gc
import os
import resource
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
from typing import TYPE_CHECKING

from unfit.errors import BadInput, Unavailable
from unfit.service.log import Log, take_all
from unfit.service.processes import Child, blas_threads, share

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_SECONDS = 10.0
CONNECTIONS = 4096
KEEP_ALIVE_SECONDS = 30
LOG_SECONDS = 0.05
METRICS = "unfit-metrics-"
LEAST_PAUSE = 0.25  # before a child that failed at once is started again


@dataclass
class _Place:
    """Of one child, with a pause of its own before the next is started in it."""

    kind: str
    child: Child | None = None
    pause: float = LEAST_PAUSE
    start_at: float = 0.0


class Family:
    """The processes of a service. A child that dies is started again; they all end together."""

    def __init__(self, folder: Path, listening: socket.socket, apis: int, workers: int) -> None:
        self._folder, self._socket = folder, listening
        wanted = {"api": apis, "worker": workers}
        self._places = [_Place(kind) for kind, count in wanted.items() for _ in range(count)]
        _sweep()
        self._metrics = tempfile.mkdtemp(prefix=f"{METRICS}{os.getpid()}-")
        self._log = Log()

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                for place in self._places:
                    self._mend(place)
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
            environment |= blas_threads(len(share()))
        # a group of its own: Ctrl-C is for the parent; one session, so that priorities count
        return Child(command, environment, handles=handles, process_group=0)

    def _mend(self, place: _Place) -> None:
        """Start a child where there is none, but not as fast as it can fail; never wait for it."""
        now = time.monotonic()
        if place.child is None:
            if now >= place.start_at:
                place.child = self._start(place.kind)
            return
        child = place.child
        if child.process.poll() is None:
            if not child.hangs():
                return
            self._log.line("child-hangs", kind=place.kind, pid=child.process.pid)
            child.kill()
        child.close()
        lived = now - child.started
        place.pause = min(30.0, 2 * place.pause) if lived < 5.0 else LEAST_PAUSE
        place.child, place.start_at = None, now + (place.pause if lived < 5.0 else 0.0)
        self._log.line("child-ended", kind=place.kind, pid=child.process.pid,
                       status=child.process.returncode, lived=round(lived, 1))  # fmt: skip

    def _end(self) -> None:
        children = [place.child for place in self._places if place.child is not None]
        for child in children:
            child.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        for child in children:
            try:
                child.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
            child.close()


def _sweep() -> None:
    """Folders of parents that were killed."""
    for left in Path(tempfile.gettempdir()).glob(f"{METRICS}*"):
        pid = left.name.removeprefix(METRICS).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)


def listen(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        said = getattr(error, "strerror", None) or str(error)
        raise Unavailable(f"cannot listen on {host}:{port}: {said}; --port names another") from None
    made.listen(2048)
    made.set_inheritable(True)
    return made


def answer(folder: Path, handle: int) -> None:
    """An API process on a socket that its parent holds."""
    from unfit.service.app import make_app
    from unfit.service.processes import lifeline

    allow_connections()
    lifeline()
    log = Log(every=LOG_SECONDS)
    take_all(log)
    app = make_app(folder, log=log)
    gc.collect()
    gc.freeze()  # what is here stays: no collection need look at it while a request waits
    run(app, handle)


def run(app: "FastAPI", handle: int) -> None:
    """Serve an app, ours or another.

    The socket is opened here and not by uvicorn, which takes every handle for a unix socket:
    answers would wait 40 ms for Nagle's algorithm.
    """
    import uvicorn

    from unfit.service.protocol import PatientProtocol

    config = uvicorn.Config(
        app, http=PatientProtocol, loop="uvloop", lifespan="on",
        access_log=False, log_level="warning", log_config=None, server_header=False, backlog=2048,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=5, ws="none",
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=handle)])


def allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_installed() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadInput(
            f"{error.name} is not installed; the service wants: pip install 'unfit[service]'"
        ) from None
