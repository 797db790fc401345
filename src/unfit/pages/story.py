"""The page of the demo: what happened, in plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unfit.pages import svg
from unfit.pages.audit import estimates_plot
from unfit.pages.templating import render
from unfit.workspace.audit import Report
from unfit.workspace.results import Status, Trained


@dataclass(frozen=True, kw_only=True)
class Wave:
    """One wave of requests.

    seconds: the median of the requests answered by unlearning; retraining: those of the first
    request that led to one. Both run from the request until all bytes are purged.
    """

    name: str
    requests: int
    people: int
    rows: int
    seconds: float | None
    retraining: float | None
    estimate: float
    retrainings: int
    accuracy: float

    @property
    def faster(self) -> float | None:
        """How many times faster a request is answered by unlearning than by a retraining."""
        if self.seconds is None or self.retraining is None:
            return None
        return self.retraining / self.seconds


@dataclass(frozen=True, kw_only=True)
class StoryFacts:
    """What happened in the demo."""

    trained: Trained
    waves: Sequence[Wave]
    served: Mapping[str, Any]
    report: Report
    status: Status


def story_page(story: StoryFacts) -> str:
    """One self-contained HTML page."""
    accuracies = [(str(v.number), v.accuracy, v.kind == "retrained") for v in story.status.versions]
    known = [a for _, a, _ in accuracies if a is not None]
    base = max(0.0, int(10 * min(known, default=0.0)) / 10)
    top = min(1.0, int(10 * max(known, default=1.0) + 1) / 10)
    times = [
        (
            w.name,
            [("unlearned", 1000 * w.seconds)]
            + ([("retrained", 1000 * w.retraining)] if w.retraining else []),
        )
        for w in story.waves
        if w.seconds is not None
    ]
    return render(
        "story.html",
        story=story,
        waves=story.waves,
        report=story.report,
        outcome={True: "passed", False: "failed", None: "open"}[story.report.passed],
        estimates=estimates_plot(story.status),
        accuracies=svg.line_chart(accuracies, base=base, top=top, label="test accuracy by version"),
        times=svg.bar_chart(times, unit=" ms", label="time of a request until the purge is done"),
        last=story.status.decisions[-1],
    )
