"""Which process holds a lock or a lease, so that any other process can find out if it still lives.

A process number is valid only on one machine, and only until it is reused. So a holder is a place
(machine, boot and process namespace), a process number, and the time the process was started.
"""

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Self


@cache
def here() -> str:
    """Where process numbers are shared: this boot of this machine, or one container on it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid")[5:-1]
    except OSError:
        return f"{socket.gethostname()}/{os.getppid()}"
    return f"{socket.gethostname()}/{boot}/{space}"


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; None if no such process lives."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if found[0] in "ZX" else found


def started_at(pid: int) -> int:
    """When a process was started, in ticks since the boot; 0 if that is not known."""
    found = _stat(pid)
    return int(found[19]) if found else 0


_starts: dict[int, int] = {}  # of this process, by its number
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_starts.clear)


def _start_of_mine(pid: int) -> int:
    """The same of this process, looked up until it is known."""
    if pid not in _starts and (found := started_at(pid)):
        _starts[pid] = found
    return _starts.get(pid, 0)


def work_done(pid: int) -> int | None:
    """A number that changes while a process works: its ticks of processor time. A process that
    hangs or was stopped gets no more of them. One that only waits for a processor, on a busy
    machine, does not hang: its number is a new one each time."""
    found = _stat(pid)
    if found is None:
        return None
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            states = (thread / "stat").read_text().rsplit(")", 1)[1].split()
            if states[0] == "R":
                return time.monotonic_ns()
    return int(found[11]) + int(found[12])


def command_name() -> str:
    """The program and its verb. The rest of the command line may hold the id of a person."""
    name, verb = Path(sys.argv[0] or "python").name, sys.argv[1] if len(sys.argv) > 1 else ""
    return f"{name} {verb}" if verb.isalpha() and verb.islower() else name


@dataclass(frozen=True, kw_only=True)
class Holder:
    place: str
    pid: int
    started: int
    what: str  # the command, in words
    since: str
    service: bool = False  # a process of the service, which is started again when it ends

    @classmethod
    def me(cls, what: str, service: bool = False) -> Self:
        pid = os.getpid()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            place=here(),
            pid=pid,
            started=_start_of_mine(pid),
            what=what,
            since=since,
            service=service,
        )

    @classmethod
    def read(cls, content: bytes) -> Self | None:
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def name(self) -> str:
        """A name for one column of a table; the caller may add a word after a colon."""
        return f"{self.place}:{self.pid}:{self.started}"

    @classmethod
    def named(cls, text: str | None) -> Self | None:
        """The process of a name that was made by `name`, with a word added."""
        parts = (text or "").rsplit(":", 3)
        if len(parts) != 4 or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        place, pid, started = parts[0], int(parts[1]), int(parts[2])
        return cls(
            place=place, pid=pid, started=started, what="unfit worker", since="", service=True
        )

    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.place.partition('/')[0]} ({self.what})"

    @property
    def within_reach(self) -> bool:
        """Whether it is on this place and still the same process."""
        return self.place == here() and started_at(self.pid) == self.started

    @property
    def is_gone(self) -> bool:
        """Whether it was on this place and has ended."""
        return self.place == here() and not self.within_reach

    @property
    def is_stopped(self) -> bool:
        """Whether it is on this place and was stopped by a signal."""
        found = _stat(self.pid) if self.within_reach else None
        return found is not None and found[0] in "Tt"

    def work_done(self) -> int | None:
        return work_done(self.pid) if self.within_reach else None

    def kill(self) -> bool:
        """End it, even if it is stopped; whether that was possible."""
        if not self.within_reach:
            return False
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False
