"""kill -9 at random moments: an API process, the worker, or everything with the supervisor."""

import threading
import time
from dataclasses import dataclass

import numpy as np

from .service import Service, kill

TURNS = ("api", "worker", "all")


@dataclass(frozen=True)
class Kill:
    what: str
    at: float
    back: float  # seconds until it was there again


class Killer(threading.Thread):
    """So many kills, spread over the time at random, each once the one before is mended."""

    def __init__(self, service: Service, kills: int, seconds: float, seed: int) -> None:
        super().__init__(daemon=True)
        moments = np.random.default_rng(seed).uniform(0.1, 0.8, kills)
        self._moments = np.sort(moments) * seconds
        self._service = service
        self.kills: list[Kill] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        started = time.monotonic()
        try:
            for i, moment in enumerate(self._moments):
                time.sleep(max(0.0, started + moment - time.monotonic()))
                what, at = TURNS[i % len(TURNS)], time.monotonic()
                self._kill(what)
                self.kills.append(Kill(what, at, time.monotonic() - at))
        except Exception as error:
            self.failure = error

    def _kill(self, what: str) -> None:
        service = self._service
        if what == "all":
            service.kill_all()
            service.start()
        else:
            before = service.children(what)
            kill(before[0])
            while len(set(service.children(what)) - set(before)) < 1:
                time.sleep(0.02)
        service.wait_ready()
