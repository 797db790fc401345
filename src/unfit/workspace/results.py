"""What the verbs of a workspace answer: frozen, printable, ready for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from unfit.data.kept import Kept
from unfit.store.records import AuditRecord, Decision, HeldOut, Matched, Version
from unfit.workspace.retention import Retained


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What `train` and `retrain` answer.

    seconds: from the start of the work to the commit; phases: where they went. kernels: seconds of
    compiling or loading kernels, which are not counted in them.
    """

    version: int
    kind: str
    method: str
    rows: int
    subjects: int
    columns: int
    accuracy: float
    slope: float
    seconds: float
    left_out: int = 0  # rows of the source that the deletion list names
    phases: Mapping[str, float] = field(default_factory=dict)
    kernels: float = 0.0
    dropped: int = 0  # rows of a source without a label, subject or row id
    unreadable: Mapping[str, int] = field(default_factory=dict)  # values by column, now missing
    held_out: HeldOut | None = None  # other measures, beside the accuracy

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What `forget` answers. dry_run: nothing changed; seconds and estimate are expected.

    subjects: how many of the ids had rows here, ids of single rows among them. seconds: from the
    request being taken to the commit that puts it in force, as the version's record has it (None:
    not measured, not known). purge_seconds: of the purge after that.
    """

    key: str
    rows: int
    subjects: int
    repeated: Sequence[str]
    unknown: Sequence[str]  # matched nobody
    version: int
    action: str
    reason: str
    estimate: float | None
    threshold: float | None
    seconds: float | None
    purged: bool | None  # whether no byte is left, not even for audits; None: matched nobody
    dry_run: bool = False
    purge_seconds: float | None = None
    replayed: bool = False  # the key was used before, and this is what was answered then
    near: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of unknown ids: who is there
    forgotten_as: Mapping[str, str] = field(default_factory=dict)  # of unknown ids: who was there
    purge_due: bool = False  # bytes remain that must be removed
    kept_rows: int = 0  # that left with this version, and are kept for audits
    kept_until: datetime | None = None
    certificate: int | None = None  # its place in the log, where certificates are made
    agreement: float | None = None  # share of held-out rows whose label is certainly a retraining's

    @property
    def matched(self) -> Matched:
        """Whether the ids were anybody's; earlier: all were forgotten before."""
        if self.unknown:
            return "some" if self.subjects or self.repeated else "none"
        return "all" if self.subjects else "earlier"

    def as_dict(self) -> dict[str, Any]:
        until = self.kept_until and self.kept_until.isoformat()
        return asdict(self) | {"matched": self.matched, "kept_until": until}


@dataclass(frozen=True, kw_only=True)
class CertificateStatus:
    """Where the certificates stand. promised: epsilon and delta of the next training, if any.

    waiting: certificates without a signature, and the problem that keeps them waiting. joint_mu,
    joint_epsilon: of all releases together, as the newest certificate states them.
    """

    promised: tuple[float, float] | None
    entries: int
    waiting: int
    problem: str | None
    joint_mu: float | None
    joint_epsilon: float | None

    def __str__(self) -> str:
        if not self.entries:
            if self.promised is None:
                return "none; certify.epsilon in unfit.toml asks for them"
            return "none yet; the next training makes the first"
        waiting = ""
        if self.waiting:
            verb = "waits" if self.waiting == 1 else "wait"
            waiting = f", {self.waiting:,} {verb} for a signature: {self.problem}"
        joint = f"all releases together: mu {self.joint_mu:.3g}, epsilon {self.joint_epsilon:.3g}"
        ended = "" if self.promised else "; turned off from the next training on"
        return f"{self.entries:,}{waiting}; {joint}{ended}"


@dataclass(frozen=True, kw_only=True)
class Status:
    """One screen: the active model, who is left, what waits, what was decided and why."""

    path: str
    method: str
    version: Version | None
    forgotten_rows: int
    pending: int
    applied: int
    unmatched: int  # requests that matched nobody
    purge_due: bool
    policy: Sequence[str]
    threshold: float
    versions: Sequence[Version]
    decisions: Sequence[Decision]
    last_audit: AuditRecord | None
    list_differs: bool  # the deletion list is not as this workspace knows it
    audit_window: timedelta
    retained: Retained
    certificates: CertificateStatus
    kept: Kept | None = None  # how the rows of the active version are kept

    @property
    def summary(self) -> str:
        """What is known of the requests and of the last audit, in a sentence."""
        if self.pending:
            waits = "1 request waits" if self.pending == 1 else f"{self.pending:,} requests wait"
        else:
            waits = "no request waits"
        return f"{waits}; {audited(self.last_audit, self.version)}"

    def as_dict(self) -> dict[str, Any]:
        v, audit = self.version, self.last_audit
        return {
            "path": self.path,
            "method": self.method,
            "version": v and v.number,
            "kind": v and v.kind,
            "active_since": v and v.activated_at.isoformat(),
            "accuracy": v and v.accuracy,
            "held_out": v and v.held_out and asdict(v.held_out),
            "rows": v and v.rows,
            "kept_as": self.kept and ("sparse" if self.kept.sparse else "dense"),
            "columns": self.kept and self.kept.columns,
            "subjects": v and v.subjects,
            "forgotten_rows": self.forgotten_rows,
            "pending": self.pending,
            "applied": self.applied,
            "unmatched": self.unmatched,
            "purge_due": self.purge_due,
            "list_differs": self.list_differs,
            "audit_window_seconds": self.audit_window.total_seconds(),
            "retained_rows": self.retained.rows,
            "retained_until": self.retained.until and self.retained.until.isoformat(),
            "retained_overdue_rows": self.retained.overdue_rows,
            "certificates": asdict(self.certificates),
            "summary": self.summary,
            "policy": list(self.policy),
            "threshold": self.threshold,
            "versions": [_version_as_dict(version) for version in self.versions],
            "decisions": [_decision_as_dict(decision) for decision in self.decisions],
            "last_audit": audit and _audit_as_dict(audit),
        }


def _version_as_dict(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "kind": version.kind,
        "rows": version.rows,
        "deleted": version.deleted,
        "accuracy": version.accuracy,
        "seconds": version.seconds,
        "times": None if version.times is None else asdict(version.times),
        "activated_at": version.activated_at.isoformat(),
    }


def _decision_as_dict(decision: Decision) -> dict[str, Any]:
    return {
        "version": decision.version,
        "at": decision.at.isoformat(),
        "action": decision.action,
        "reason": decision.reason,
        "estimate": decision.estimate,
        "threshold": decision.threshold,
        "distance": decision.inputs.get("distance"),
        "accuracy_change": decision.inputs.get("accuracy_change"),
        "log_loss_change": decision.inputs.get("log_loss_change"),
    }


def _audit_as_dict(audit: AuditRecord) -> dict[str, Any]:
    return {
        "version": audit.version,
        "at": audit.at.isoformat(),
        "passed": audit.passed,
        "outcome": audit.report.get("outcome"),
        "verdict": audit.report.get("verdict"),
        "acc_dis": audit.report.get("acc_dis"),
    }


def audited(audit: AuditRecord | None, version: Version | None) -> str:
    """What the last audit said, and of which version."""
    if audit is None:
        return "never audited"
    said = audit.report.get("outcome", "cannot tell")
    behind = 0 if version is None else version.number - audit.version
    since = f", {behind:,} version{'' if behind == 1 else 's'} ago" if behind > 0 else ""
    return f"last audit: version {audit.version}{since}, {said}"
