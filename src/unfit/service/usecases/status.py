"""How things stand, read from the records: for the API, for metrics and for the dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass

from unfit.service.context import ServiceContext
from unfit.store.records import Decision, Version
from unfit.workspace.retention import Retained


@dataclass(frozen=True)
class ServiceStatus:
    version: Version | None
    counts: Mapping[str, int]  # of requests, by their state
    forgotten_rows: int
    forgotten_subjects: int
    decision: Decision | None  # the last
    threshold: float
    worker: bool
    purge_due: bool  # bytes remain that are to go, kept rows among them
    retained: Retained

    @property
    def estimate(self) -> float | None:
        """Of the disparity, in percent."""
        return None if self.decision is None else self.decision.estimate


def read_status(context: ServiceContext) -> ServiceStatus:
    rows, people = context.store.forgotten.counts()
    decided, kept = context.store.decisions.find(last=1), context.workspace.retained()
    return ServiceStatus(
        context.store.versions.active(),
        context.store.requests.counts(),
        rows,
        people,
        decided[0] if decided else None,
        context.config.policy.disparity,
        context.worker_lives(),
        context.store.model.read().purge_due or kept.overdue_rows > 0,
        kept,
    )
