"""The service as a process: started as a person would, watched and killed as an operator could."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .http_client import Address

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0


def environment(**more: str) -> dict[str, str]:
    """For a process that finds this package."""
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(ROOT), *([known] if known else [])])
    return os.environ | {"PYTHONPATH": path} | more


class Service:
    """`unfit serve` on a port that stays the same through restarts."""

    def __init__(self, folder: Path, processes: int, log: Path, scratch: Path) -> None:
        """scratch: for what killed processes leave behind."""
        self._folder, self._processes, self._log = folder, processes, log
        self._scratch = scratch
        scratch.mkdir()
        self._port, self._token = 0, ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._port, self._token)

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "unfit.cli",
            "serve",
            "--workspace",
            str(self._folder),
            "--host",
            "127.0.0.1",
            "--port",
            str(self._port),
            "--processes",
            str(self._processes),
        ]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(TMPDIR=str(self._scratch), PYTHONUNBUFFERED="1"),
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"http://[^:]+:(\d+)/", line):
                self._port = int(found[1])
            elif found := re.search(r"\bunfit_\S+", line):
                self._token = found[0]
            elif line.startswith("Ctrl-C"):
                return
        raise RuntimeError(f"the service did not start:\n{self._log.read_text()[-2000:]}")

    def wait_ready(self) -> float:
        """Until it answers and a worker is at its place; the seconds that took."""
        started = time.monotonic()
        while time.monotonic() < started + START_SECONDS:
            try:
                status, content = self.ask("GET", "/health/ready")
                if status == 200 and content["worker"]:
                    return time.monotonic() - started
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise RuntimeError(f"the service is not ready:\n{self._log.read_text()[-2000:]}")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Authorization": f"Bearer {self._token}"}
            if content is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def kill_all(self) -> None:
        """The whole family at once, the supervisor first, as when a machine goes down."""
        family = [self.pid, *descendants(self.pid)]
        for pid in family:
            kill(pid)
        assert self._process is not None
        self._process.wait()
        until = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < until:
            time.sleep(0.02)

    def children(self, kind: str) -> list[int]:
        """Its API processes, or its workers."""
        wanted = f"unfit.service.child\0{kind}\0"
        return [pid for pid in descendants(self.pid) if wanted in _command(pid)]


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
