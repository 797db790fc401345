"""What an app is made of, in one place for its routes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from unfit.service.current import Current, Pulse
from unfit.service.heartbeat import Heartbeat
from unfit.service.log import Log
from unfit.service.observing import Metrics
from unfit.store.access import Access
from unfit.store.jobs import Jobs
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
    heartbeat: Heartbeat = field(init=False)

    def __post_init__(self) -> None:
        self.heartbeat = Heartbeat(self.store)

    @property
    def store(self) -> Store:
        return self.workspace.store

    @property
    def config(self) -> Config:
        return self.workspace.config

    def worker_lives(self) -> bool:
        """Whether a worker applies erasures, as far as is known within LEASE_SECONDS."""
        return self.heartbeat.lives()
