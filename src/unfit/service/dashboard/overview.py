"""The overview: whether the model is in order, and what was done to keep it so."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from unfit.service.auth import PageRoute, allow
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard import charts
from unfit.service.dashboard.charts import Chart
from unfit.service.dashboard.costs import Costs, costs
from unfit.service.dashboard.formatting import moment
from unfit.service.dashboard.rendering import VIEWERS, page
from unfit.service.usecases.status import ServiceStatus, read_status
from unfit.store.records import Decision, Job, Version
from unfit.store.records import Request as ErasureRequest

RECENT_DECISIONS = 12
UNMATCHED_SHOWN = timedelta(days=1)
MANY_PENDING = 100

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@routes.get("/")
@allow(*VIEWERS)
def overview(request: Request) -> HTMLResponse:
    return page(request, "overview.html", shown=read_overview(context_of(request)))


@routes.get("/overview/panel")
@allow(*VIEWERS)
def overview_panel(request: Request, seen: str = "") -> Response:
    """The content again, if anything has changed."""
    shown = read_overview(context_of(request))
    if shown.fingerprint == seen:
        return Response(status_code=204)
    return page(request, "overview_panel.html", shown=shown)


@dataclass(frozen=True)
class Banner:
    level: Literal["good", "warn", "bad"]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    status: ServiceStatus
    baseline: Version | None  # the training that the active version goes back to
    costs: Costs
    decisions: Sequence[Decision]
    charts: Sequence[tuple[str, str, Chart | None]]  # title, caption, chart
    jobs: Sequence[Job]
    unmatched: ErasureRequest | None  # the newest of the last day that matched nobody

    @property
    def fingerprint(self) -> str:
        """Changes when anything that is shown does."""
        status = self.status
        running = ",".join(f"{j.id}{j.state}" for j in self.jobs)
        number = status.version.number if status.version else 0
        audit = status.last_audit.id if status.last_audit else 0
        counts = "-".join(str(n) for n in status.counts.values())
        kept = f"{status.retained.rows}{status.purge_due:d}{status.certificates.waiting}"
        return f"{number}-{counts}-{status.worker:d}-{kept}-{audit}-{running}"

    @property
    def banner(self) -> Banner:
        """The most important thing to know."""
        status, version, audit = self.status, self.status.version, self.status.last_audit
        if version is None:
            return Banner("bad", "There is no model yet.")
        if version.model_sha is None:
            return Banner("bad", "There is no active model: none can be trained on what remains.")
        if not status.worker:
            return Banner("bad", "No worker is running: erasures wait until one is started.")
        if status.retained.overdue_rows and status.retained.overdue_since is not None:
            return Banner(
                "warn",
                f"{status.retained.overdue_rows:,} deleted training rows should have been removed "
                f"by {moment(status.retained.overdue_since)} UTC but are still here.",
            )
        if audit is not None and audit.passed is False and audit.version == version.number:
            said = "outcome" if status.certificates.entries else "verdict"  # without figures
            return Banner("bad", f"The last audit failed: {audit.report.get(said)}.")
        if status.estimate is not None and status.estimate > status.threshold:
            return Banner("warn", "The disparity is above the threshold.")
        certificates = status.certificates
        if certificates.waiting:
            said = (
                "1 certificate waits"
                if certificates.waiting == 1
                else (f"{certificates.waiting:,} certificates wait")
            )
            return Banner("warn", f"{said} for a signature: {certificates.problem}.")
        pending = status.counts["pending"]
        if pending > MANY_PENDING:
            return Banner("warn", f"{pending:,} erasures are pending.")
        if self.unmatched is not None:
            return Banner(
                "warn",
                f"Erasure {self.unmatched.id} matched nobody: none of its ids belongs or belonged "
                "to anybody here, so nobody was forgotten.",
            )
        waiting = f"{pending:,} erasures are pending" if pending else "No erasure is pending"
        return Banner("good", f"{waiting}; {status.audit}.")


def read_overview(context: ServiceContext) -> Overview:
    store, status = context.store, read_status(context)
    versions = store.versions.find(last=charts.SHOWN)
    decisions = store.decisions.find(last=charts.SHOWN)
    trainings = [v for v in versions if v.kind in ("trained", "retrained")]
    return Overview(
        status=status,
        baseline=trainings[-1] if trainings else None,
        costs=costs(versions),
        decisions=decisions[-RECENT_DECISIONS:][::-1],
        charts=[
            (
                "Estimated disparity",
                "Compared with the threshold (dashed). Diamonds mark retrainings.",
                charts.disparity(decisions, status.threshold),
            ),
            (
                "Accuracy",
                "On held-out people. Diamonds mark retrainings.",
                charts.accuracy(versions),
            ),
            (
                "Time per version",
                "Wall-clock time from the start of the work to the commit.",
                charts.seconds(versions),
            ),
        ],
        jobs=[j for j in context.jobs.find(last=10) if j.state in ("pending", "running")],
        unmatched=_recently_unmatched(context),
    )


def _recently_unmatched(context: ServiceContext) -> ErasureRequest | None:
    found = context.store.requests.find(state="unmatched", last=1, with_items=False)
    recent = [r for r in found if r.submitted_at > context.clock() - UNMATCHED_SHOWN]
    return recent[0] if recent else None
