"""What the routes of an app work with, opened once per process."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from starlette.requests import Request

from unfit.clock import now
from unfit.service.change_counter import SharedChangeCounter
from unfit.service.heartbeat import Heartbeat
from unfit.service.metrics import Metrics
from unfit.service.predictor import PredictorCache
from unfit.store.jobs import Jobs
from unfit.store.store import Store
from unfit.store.tokens import Tokens
from unfit.workspace import Workspace
from unfit.workspace.config import Config


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    workspace: Workspace
    changes: SharedChangeCounter
    predictors: PredictorCache
    tokens: Tokens
    jobs: Jobs
    heartbeat: Heartbeat
    metrics: Metrics
    logger: logging.Logger
    clock: Callable[[], datetime]

    @classmethod
    def open(cls, folder: str | Path, logger: logging.Logger) -> Self:
        workspace = Workspace(folder)
        store = workspace.store
        return cls(
            workspace=workspace,
            changes=SharedChangeCounter(store.change_counter()),
            predictors=PredictorCache(workspace),
            tokens=store.tokens,
            jobs=store.jobs,
            heartbeat=Heartbeat(store),
            metrics=Metrics(),
            logger=logger,
            clock=now,
        )

    def close(self) -> None:
        self.changes.close()
        self.workspace.close()

    @property
    def store(self) -> Store:
        return self.workspace.store

    @property
    def config(self) -> Config:
        return self.workspace.config

    def worker_is_alive(self) -> bool:
        """Whether a worker applies erasures, as far as can be known within LEASE_SECONDS."""
        return self.heartbeat.is_alive()


def context_of(request: Request) -> ServiceContext:
    found = request.app.state.context
    assert isinstance(found, ServiceContext)
    return found
