"""What an app is made of, in one place for its routes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from unfit.service.current import Current, Pulse
from unfit.service.log import Log
from unfit.service.observing import Metrics
from unfit.store.access import Access
from unfit.store.jobs import LEASE_SECONDS, Jobs, Lease
from unfit.store.repository import Store
from unfit.workspace import Workspace
from unfit.workspace.config import Config


@dataclass
class Parts:
    workspace: Workspace
    pulse: Pulse
    current: Current
    access: Access
    jobs: Jobs
    log: Log
    metrics: Metrics
    clock: Callable[[], datetime]
    followers: int = 0
    _beat: tuple[tuple[str | None, int], float] = field(default=((None, 0), 0.0))

    @property
    def store(self) -> Store:
        return self.workspace.store

    @property
    def config(self) -> Config:
        return self.workspace.config

    def worker_lives(self) -> bool:
        """Whether somebody holds the lease and was seen to move within its time."""
        now = time.monotonic()
        found = Lease(self.store, "").read()
        if found != self._beat[0]:
            self._beat = (found, now)
        return found[0] is not None and now - self._beat[1] <= LEASE_SECONDS
