"""What the pages show, read from the records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from unfit.service.context import ServiceContext
from unfit.service.dashboard import charts
from unfit.service.dashboard.charts import Chart
from unfit.service.dashboard.costs import Costs, costs
from unfit.service.usecases.status import ServiceStatus, read_status
from unfit.store.records import AuditRecord, Decision, Job, Request, Version
from unfit.workspace.results import audited

RECENT = 12
UNMATCHED_SHOWN = timedelta(days=1)
HELD_OUT = (("Majority rate", "majority"), ("AUC", "auc"), ("Log-loss", "log_loss"))


@dataclass(frozen=True)
class Overview:
    now: ServiceStatus
    baseline: Version | None  # the training that the version in use goes back to
    costs: Costs
    last_audit: AuditRecord | None
    decisions: Sequence[Decision]
    charts: Sequence[tuple[str, str, Chart | None]]
    jobs: Sequence[Job]
    unmatched: Request | None = None  # the newest of the last day that matched nobody

    @property
    def mark(self) -> str:
        """Changes when anything shown does."""
        running = ",".join(f"{j.id}{j.state}" for j in self.jobs)
        number = self.now.version.number if self.now.version else 0
        audit = self.last_audit.id if self.last_audit else 0
        counted = "-".join(str(n) for n in self.now.counts.values())
        kept = f"{self.now.retained.rows}{self.now.purge_due:d}"
        return f"{number}-{counted}-{self.now.worker:d}-{kept}-{audit}-{running}"

    @property
    def order(self) -> tuple[str, str]:
        """good, warn or bad, and the sentence that goes with it."""
        if self.now.version is None or self.now.version.model_sha is None:
            return "bad", "There is no model in use: too few classes have rows left."
        if not self.now.worker:
            return "bad", "No worker is at its place: erasures wait until one is started."
        late = self.now.retained
        if late.overdue_rows and late.overdue_since is not None:
            return "warn", (
                f"{late.overdue_rows:,} deleted training rows were to be removed by "
                f"{moment(late.overdue_since)} UTC and are still here."
            )
        audit, version = self.last_audit, self.now.version
        if audit is not None and audit.passed is False and audit.version == version.number:
            return "bad", f"The last audit says: {audit.report.get('verdict')}."
        if self.now.estimate is not None and self.now.estimate > self.now.threshold:
            return "warn", "The estimated disparity is over the threshold."
        if self.now.counts["pending"] > 100:
            return "warn", f"{self.now.counts['pending']:,} erasures wait."
        if self.unmatched is not None:
            return "warn", (
                f"Erasure {self.unmatched.id} matched nobody: no id of it is or was anybody's "
                "here, and nobody was forgotten by it."
            )
        pending = self.now.counts["pending"]
        waits = f"{pending:,} erasures wait" if pending else "No erasure waits"
        return "good", f"{waits}; {audited(audit, version)}."


def overview(context: ServiceContext) -> Overview:
    store, now = context.store, read_status(context)
    versions = store.versions.find(last=charts.SHOWN)
    decisions = store.decisions.find(last=charts.SHOWN)
    audits = store.audits.find(last=1)
    made = [v for v in versions if v.kind in ("trained", "retrained")]
    return Overview(
        now,
        made[-1] if made else None,
        costs(versions),
        audits[0] if audits else None,
        decisions[-RECENT:][::-1],
        [
            (
                "Estimated disparity",
                "Against the threshold (dashed). Diamonds: retrained.",
                charts.disparity(decisions, now.threshold),
            ),
            ("Accuracy", "On held-out people. Diamonds: retrained.", charts.accuracy(versions)),
            (
                "Time per version",
                "From the work being taken up to the commit, by the clock.",
                charts.seconds(versions),
            ),
        ],
        [j for j in context.jobs.find(last=10) if j.state in ("pending", "running")],
        _lately_unmatched(context),
    )


def _lately_unmatched(context: ServiceContext) -> Request | None:
    found = context.store.requests.find(state="unmatched", last=1, with_items=False)
    recent = [r for r in found if r.submitted_at > context.clock() - UNMATCHED_SHOWN]
    return recent[0] if recent else None


@dataclass(frozen=True)
class Followed:
    """An erasure with the versions before and after it."""

    request: Request
    decision: Decision | None
    before: Version | None
    after: Version | None

    @property
    def waited(self) -> float | None:
        r = self.request
        return None if r.applied_at is None else (r.applied_at - r.submitted_at).total_seconds()


def followed(context: ServiceContext, request: Request) -> Followed:
    decision = context.store.decisions.on(request)
    before = after = None
    if request.version is not None:
        after = next(iter(context.store.versions.find(number=request.version)), None)
        if decision is not None:
            before = next(iter(context.store.versions.find(number=request.version - 1)), None)
    return Followed(request, decision, before, after)


@dataclass(frozen=True)
class Compared:
    """Two versions, fact by fact."""

    a: Version
    b: Version
    decisions: Sequence[Decision]

    @property
    def lines(self) -> list[tuple[str, str, str, str]]:
        """name, first, second, difference."""
        a, b = self.a, self.b

        def number(name: str, x: float | None, y: float | None, form: str) -> tuple[str, ...]:
            if x is None or y is None:
                return name, *("-" if v is None else format(v, form) for v in (x, y)), ""
            return name, format(x, form), format(y, form), format(y - x, f"+{form}")

        made = [
            ("Kind", a.kind, b.kind, ""),
            ("Method", a.method, b.method, ""),
            (
                "In use since",
                moment(a.activated_at),
                moment(b.activated_at),
                _span((b.activated_at - a.activated_at).total_seconds()),
            ),
            number("Rows", a.rows, b.rows, ",d"),
            number("People", a.subjects, b.subjects, ",d"),
            number("Rows that left with it", a.deleted, b.deleted, ",d"),
            number("Test accuracy", a.accuracy, b.accuracy, ".4f"),
            *(
                number(
                    name, getattr(a.held_out, field, None), getattr(b.held_out, field, None), ".4f"
                )
                for name, field in HELD_OUT
            ),
            number("Milliseconds to the commit", 1000 * a.seconds, 1000 * b.seconds, ",.1f"),
            number("Slope c", a.baseline.get("slope"), b.baseline.get("slope"), ".3f"),
        ]
        return [(line[0], line[1], line[2], line[3]) for line in made]


def compared(context: ServiceContext, a: int, b: int) -> Compared | None:
    first, second = context.store.versions.find(number=a), context.store.versions.find(number=b)
    if not first or not second:
        return None
    why = context.store.decisions.find(version=a) + context.store.decisions.find(version=b)
    return Compared(first[0], second[0], why)


@dataclass(frozen=True)
class Method:
    """The method in use, with this workspace's numbers."""

    name: str
    settings: dict[str, Any]
    version: Version | None
    decision: Decision | None
    costs: Costs

    @property
    def slope(self) -> float | None:
        return None if self.version is None else self.version.baseline.get("slope")


def method(context: ServiceContext) -> Method:
    versions = context.store.versions.find(last=charts.SHOWN)
    decided = context.store.decisions.find(last=1)
    m = context.config.model
    settings = {name: getattr(m, name) for name in type(m).__dataclass_fields__}
    employed = context.store.versions.active()
    return Method(
        employed.method if employed else m.method,
        settings,
        employed,
        decided[0] if decided else None,
        costs(versions),
    )


def settings(context: ServiceContext) -> list[tuple[str, list[tuple[str, str]]]]:
    """unfit.toml, table by table; no address of a database with its password."""
    found = []
    for table in ("model", "policy", "preprocessing", "split", "retention", "service"):
        held = getattr(context.config, table)
        lines = [(name, _shown(getattr(held, name))) for name in type(held).__dataclass_fields__]
        found.append((table, lines))
    kind = "SQLite, in the workspace" if context.store.database.sqlite else "PostgreSQL"
    roles = context.config.roles
    found.append(
        (
            "roles",
            [
                ("label", roles.label),
                ("subject", roles.subject or "every row"),
                ("row_id", roles.row_id or "its number in the source"),
            ],
        )
    )
    found.append(("store", [("kind", kind)]))
    return found


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)


def milliseconds(value: float) -> str:
    """With what digits it has: a ratio of two of them can be checked by eye."""
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def outcome_of(audit: AuditRecord) -> str:
    """Forgotten, not forgotten or cannot tell; what older audits compared shows none of them."""
    return str(audit.report.get("outcome", "cannot tell"))


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _span(seconds: float) -> str:
    size = abs(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if size >= length:
            return f"{seconds / length:+.1f} {unit}"
    return f"{seconds:+.1f} s"


def age(at: datetime, now: datetime) -> str:
    """How long ago, in words."""
    seconds = max(0.0, (now - at).total_seconds())
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
