"""What an app is made of, in one place for its routes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from unfit.service.change_counter import SharedChangeCounter
from unfit.service.heartbeat import Heartbeat
from unfit.service.log import Log
from unfit.service.metrics import Metrics
from unfit.service.predictor import PredictorCache
from unfit.store.jobs import Jobs
from unfit.store.store import Store
from unfit.store.tokens import Tokens
from unfit.workspace import Workspace
from unfit.workspace.config import Config


@dataclass
class ServiceContext:
    workspace: Workspace
    changes: SharedChangeCounter
    predictors: PredictorCache
    access: Tokens
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
