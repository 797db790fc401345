"""How things stand, read from the records: for the API, for metrics and for the dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass

from unfit.service.parts import Parts
from unfit.store.records import Decision, Version
from unfit.workspace.retention import Retained


@dataclass(frozen=True)
class Standing:
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


def standing(p: Parts) -> Standing:
    rows, people = p.store.counts_forgotten()
    decided, kept = p.store.decisions(last=1), p.workspace.retained()
    return Standing(
        p.store.employed(), p.store.request_counts(), rows, people, decided[0] if decided else None,
        p.config.policy.disparity, p.worker_lives(),
        p.store.model().purge_due or kept.overdue_rows > 0, kept,
    )  # fmt: skip
