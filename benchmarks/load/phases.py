"""A stretch of load by a generator process, and what it recorded."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .erasures import Erasure
from .generator import Plan
from .service import environment

WARM_UP_SECONDS = 0.5  # connections are made, caches are filled


@dataclass(frozen=True)
class Times:
    """Quantiles in milliseconds."""

    p50: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: np.ndarray) -> "Times":
        if len(seconds) == 0:
            return cls(*4 * [float("nan")])
        return cls(*(1000 * np.quantile(seconds, [0.5, 0.95, 0.99, 1.0])).tolist())


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Each prediction by when it fell due, was sent and answered; each erasure; how many waited."""

    due: np.ndarray
    sent: np.ndarray
    done: np.ndarray
    status: np.ndarray
    version: np.ndarray
    erasures: list[Erasure]
    answers: dict[str, int]
    cut: int
    unsent: int
    pending: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> "Recording":
        with np.load(folder / "predictions.npz") as arrays:
            series = {name: arrays[name] for name in ("due", "sent", "done", "status", "version")}
        said: dict[str, Any] = json.loads((folder / "figures.json").read_text())
        return cls(
            **series,
            erasures=[Erasure(**e) for e in said["erasures"]],
            answers=said["answers"],
            cut=said["cut"],
            unsent=said["unsent"],
            pending=[sample["pending"] for sample in said["samples"]],
        )

    def within(self, start: float = 0.0, end: float = float("inf")) -> np.ndarray:
        """Which predictions were answered well and fell due in a stretch, the warm-up aside."""
        start = max(start, self.due[0] + WARM_UP_SECONDS) if len(self.due) else start
        return (self.status == 200) & (self.due >= start) & (self.due <= end)

    def times(self, start: float = 0.0, end: float = float("inf")) -> Times:
        """From when a prediction fell due, so that waiting for a free connection counts."""
        chosen = self.within(start, end)
        return Times.of((self.done - self.due)[chosen])

    def windows(self, seconds: float) -> list[float]:
        """The p95, in milliseconds, of each stretch: one bad minute of a shared machine shows as
        such, and not as a slow service."""
        chosen = self.within()
        if not chosen.any():
            return []
        due, took = self.due[chosen], (self.done - self.due)[chosen]
        number = ((due - due[0]) // seconds).astype(int)
        return [float(1000 * np.quantile(took[number == i], 0.95)) for i in np.unique(number)]

    def rate(self) -> float:
        """Predictions a second, the warm-up aside."""
        chosen = self.within()
        if not chosen.any():
            return 0.0
        done = self.done[chosen]
        return float(len(done) / (done.max() - self.due[chosen].min()))

    @property
    def failed(self) -> int:
        """Predictions that were sent and not answered well."""
        return int((self.status != 200).sum()) + self.cut


class Phase:
    """A generator at work; `end` waits for it, `stop` ends it early."""

    def __init__(self, plan: Plan) -> None:
        self._folder = Path(plan.folder)
        self._folder.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.generator"],
            stdin=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self._input.write(plan.to_json() + "\n")
        self._input.flush()

    def stop(self) -> Recording:
        self._input.close()
        return self.end()

    def end(self) -> Recording:
        if self._process.wait() != 0:
            raise RuntimeError("the generator failed")
        return Recording.read(self._folder)
