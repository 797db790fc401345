"""A service for tests: its app with a client, its worker in a thread, its tokens, its log."""

import io
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from workspaces import Kept

import people
from unfit.clock import now
from unfit.service.app import make_app
from unfit.service.log import JsonLinesHandler
from unfit.service.protocol import TimeLimitedProtocol
from unfit.service.worker import Worker
from unfit.workspace import Workspace

PATIENCE = 60.0  # seconds until a test gives up; none waits for them


def until(true: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """Ask until the answer is true; what was answered."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        found = true()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} has not come within {patience:g} seconds")


def token(folder: Path, *roles: str) -> str:
    with Workspace(folder) as ws:
        return ws.store.tokens.create("a test", roles, now())[1]


def log_to(written: io.StringIO) -> logging.Logger:
    """A log of its own, apart from everything else in this process."""
    made = logging.Logger("a test")
    made.addHandler(JsonLinesHandler(written))
    return made


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@dataclass
class Service:
    """An app that answers, and what it has written down."""

    kept: Kept
    app: FastAPI
    client: httpx.AsyncClient
    loop: BlockingPortal  # of the app
    written: io.StringIO
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        return self.app.state.context.workspace

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """As admin, unless headers say otherwise."""
        headers = self.headers | options.pop("headers", {})
        send = partial(self.client.request, method, path, headers=headers, **options)
        return self.loop.call(send)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("POST", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("DELETE", path, **options)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written.getvalue().splitlines()]


@contextmanager
def serving(kept: Kept) -> Iterator[Service]:
    """The app of a workspace, asked as admin."""
    admin, written = token(kept.folder, "admin"), io.StringIO()
    with start_blocking_portal() as loop:
        app = loop.call(partial(make_app, kept.folder, logger=log_to(written)))
        way = httpx.ASGITransport(app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=way, base_url="http://unfit")
        with loop.wrap_async_context_manager(app.router.lifespan_context(app)):
            yield Service(kept, app, client, loop, written, bearer(admin))


@dataclass
class Working:
    """A worker in a thread of the test."""

    worker: Worker
    thread: threading.Thread
    stop: threading.Event
    written: io.StringIO

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in self.written.getvalue().splitlines())
        return [line for line in lines if line["event"] == name]


@contextmanager
def working(folder: Path) -> Iterator[Working]:
    stop, written = threading.Event(), io.StringIO()
    worker = Worker(folder, log_to(written), stop)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield Working(worker, thread, stop, written)
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def start(
    folder: Path,
    at: str = "",
    number: int = 0,
    *,
    elsewhere: bool = False,
    lease: float = 0.6,
    log: Path | None = None,
) -> subprocess.Popen[bytes]:
    """A worker in a process of its own that sends itself a signal at a point, the first time it
    comes there; as if on another machine, if it is elsewhere. It takes the lease of a worker that
    has not moved for `lease` seconds."""
    program = (
        "import os, sys, threading; from pathlib import Path\n"
        "from unfit import points; from unfit.service import worker\n"
        "from unfit import holder; from unfit.store import database\n"
        "from unfit.workspace import lock\n"
        "worker.LEASE_SECONDS, worker.BEAT_SECONDS = float(sys.argv[5]), 0.1\n"
        "lock.BEAT_SECONDS = 0.1\n"
        "database.IDLE_SECONDS = 1.0\n"
        "if sys.argv[4] == 'True': holder.here = lambda: 'elsewhere/1'\n"
        "def observe(name):\n"
        "    if name == sys.argv[2]:\n"
        "        points.observer = None\n"
        "        os.kill(os.getpid(), int(sys.argv[3]))\n"
        "points.observer = observe\n"
        "worker.work(Path(sys.argv[1]), threading.Event())\n"
    )
    command = [sys.executable, "-c", program, str(folder), at, str(int(number)), str(elsewhere)]
    command.append(str(lease))
    with (Path(os.devnull) if log is None else log).open("w") as written:
        return subprocess.Popen(command, stderr=written)


def edit(kept: Kept, *changes: tuple[str, str]) -> Kept:
    """Other settings in unfit.toml."""
    toml = kept.folder / "unfit.toml"
    text = toml.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    toml.write_text(text)
    return kept


def rows(n: int = 3) -> list[dict[str, Any]]:
    """People as a client sends them."""
    return people.people().select(list(people.COLUMNS)).slice(0, n).to_pylist()


@contextmanager
def listening(kept: Kept) -> Iterator[tuple[str, int, FastAPI]]:
    """The app behind the service's own protocol on a port, in a thread: host, port, app."""
    app = make_app(kept.folder, logger=log_to(io.StringIO()))
    config = uvicorn.Config(
        app,
        http=TimeLimitedProtocol,
        lifespan="on",
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as way:
        host, port = way.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [way]}, daemon=True)
        thread.start()
        try:
            until(lambda: server.started, "the server")
            yield host, port, app
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@dataclass
class Running:
    """`unfit serve` in processes of its own."""

    folder: Path
    host: str
    port: int
    token: str
    process: subprocess.Popen[str]
    log: Path

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://{self.host}:{self.port}", headers=bearer(self.token), timeout=30
        )

    def children(self, kind: str | None = None) -> list[int]:
        """The processes that answer ("api") or work ("worker"), or both."""
        found = []
        for pid in children_of(self.process.pid):
            command = command_of(pid)
            if "unfit.service.child" in command and (kind is None or kind in command):
                found.append(pid)
        return found

    def family(self) -> list[int]:
        """All processes below the first one."""
        found, left = [], [self.process.pid]
        while left:
            below = children_of(left.pop())
            found += below
            left += below
        return found


def children_of(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def lives(pid: int) -> bool:
    """There, and not only waiting to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Running]:
    """`unfit serve` on a free port, ready to answer; ended with SIGTERM."""
    command = [sys.executable, "-m", "unfit.cli", "serve", "-w", str(folder), "--port", "0"]
    log = folder.parent / "service.log"
    text = token(folder, "admin")
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split("//")[1].strip().strip("/")
        host, port = address.rsplit(":", 1)
        made = Running(folder, host, int(port), text, process, log)
        until(lambda: ready(made), "the service")
        yield made
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def ready(running: Running) -> bool:
    try:
        with running.client as client:
            return client.get("/health/ready").status_code == 200
    except httpx.TransportError:
        return False
