"""How much memory the service holds, every second, from /proc."""

import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .service import Service, descendants

PERIOD_SECONDS = 1.0
WARM_UP_SECONDS = 5.0


@dataclass(frozen=True)
class Held:
    """Resident megabytes of all processes after the warm-up and at the end, and their trend.

    own: without pages of files, which come and go as the system likes.
    """

    start: float
    end: float
    own_start: float
    own_end: float
    own_slope: float  # megabytes a minute
    flat: bool


class Memory(threading.Thread):
    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service, self._over = service, threading.Event()
        self._samples: list[tuple[float, float, float]] = []

    def run(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            pids = [self._service.pid, *descendants(self._service.pid)]
            each = [_resident(pid) for pid in pids]
            self._samples.append((time.monotonic(), *map(sum, zip(*each, strict=True))))

    def end(self) -> Held:
        self._over.set()
        self.join()
        at, rss, own = np.array(self._samples).T
        warm = at > at[0] + min(WARM_UP_SECONDS, (at[-1] - at[0]) / 3)
        at, rss, own = at[warm], rss[warm], own[warm]
        slope = np.polyfit(at - at[0], own, 1)[0] * 60 if len(at) > 2 else 0.0
        few = max(1, len(at) // 10)
        first, last = float(own[:few].mean()), float(own[-few:].mean())
        return Held(
            float(rss[:few].mean()), float(rss[-few:].mean()), first, last, float(slope),
            last <= 1.05 * first + 10,
        )  # fmt: skip


def _resident(pid: int) -> tuple[float, float]:
    """Megabytes: all, and those that are not pages of files."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0, 0.0
    said = {name: int(size) / 1024 for name, size in re.findall(r"(Rss\w+|VmRSS):\s+(\d+)", text)}
    return said.get("VmRSS", 0.0), said.get("RssAnon", 0.0)
