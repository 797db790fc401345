"""What the service holds and what the machine does, every second, from /proc."""

import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .service import Service, descendants

PERIOD_SECONDS = 1.0
WARM_UP_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Resident megabytes of all processes after the warm-up and at the end, and their trend.

    own: without pages of files, which come and go as the system likes.
    """

    start: float
    end: float
    own_start: float
    own_end: float
    own_slope: float  # megabytes a minute
    flat: bool


@dataclass(frozen=True)
class CpuUse:
    """Cores at work on average: for the service, for this benchmark with it, for anybody else.

    A database server counts as anybody else.
    """

    service: float
    ours: float
    others: float


class Monitor(threading.Thread):
    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service, self._over = service, threading.Event()
        self._memory: list[tuple[float, float, float]] = []
        self._seconds = np.zeros(3)  # of processor time: the service's, all of ours, the machine's
        self._before: dict[int, float] = {}

    def run(self) -> None:
        started, machine = time.monotonic(), _machine_seconds()
        self._before = {pid: _seconds(pid) for pid in self._family(os.getpid())}
        while not self._over.wait(PERIOD_SECONDS):
            family = self._family(self._service.pid)
            resident = [_resident(pid) for pid in family]
            self._memory.append((time.monotonic(), *map(sum, zip(*resident, strict=True))))
            self._count(set(family))
        self._seconds[2] = _machine_seconds() - machine
        self._took = time.monotonic() - started

    def end(self) -> tuple[Memory, CpuUse]:
        self._over.set()
        self.join()
        service, ours, machine = (self._seconds / self._took).tolist()
        return self._memory_use(), CpuUse(service, ours, max(0.0, machine - ours))

    def _family(self, pid: int) -> list[int]:
        return [pid, *descendants(pid)]

    def _count(self, service: set[int]) -> None:
        now = {pid: _seconds(pid) for pid in self._family(os.getpid())}
        spent = {pid: at - self._before.get(pid, 0.0) for pid, at in now.items()}
        self._seconds[0] += sum(s for pid, s in spent.items() if pid in service)
        self._seconds[1] += sum(spent.values())
        self._before = now

    def _memory_use(self) -> Memory:
        at, rss, own = np.array(self._memory).T
        warm = at >= at[0] + min(WARM_UP_SECONDS, (at[-1] - at[0]) / 3)
        at, rss, own = at[warm], rss[warm], own[warm]
        slope = np.polyfit(at - at[0], own, 1)[0] * 60 if len(at) > 2 else 0.0
        few = max(1, len(at) // 10)
        first, last = float(own[:few].mean()), float(own[-few:].mean())
        return Memory(
            start=float(rss[:few].mean()),
            end=float(rss[-few:].mean()),
            own_start=first,
            own_end=last,
            own_slope=float(slope),
            flat=last <= 1.05 * first + 10,
        )


def _resident(pid: int) -> tuple[float, float]:
    """Megabytes: all, and those that are not pages of files."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended meanwhile
        return 0.0, 0.0
    said = {name: int(size) / 1024 for name, size in re.findall(r"(Rss\w+|VmRSS):\s+(\d+)", text)}
    return said.get("VmRSS", 0.0), said.get("RssAnon", 0.0)


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _machine_seconds() -> float:
    """Of all processors, but idle; time that the host takes away is others' work too."""
    fields = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
