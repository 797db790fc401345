"""What the API takes and gives. No answer holds the id of a person, but for near spellings of an
id that matched nobody, given to who may erase."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from unfit.store.records import (
    AuditRecord,
    Decision,
    HeldOut,
    Job,
    Matched,
    Request,
    RequestState,
    Version,
)


def _whole(value: object) -> object:
    """7.0 is 7, as in a column of numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Id = (
    Annotated[StrictStr, Field(min_length=1, max_length=512)]
    | Annotated[StrictInt, BeforeValidator(_whole), Field(ge=-(2**63), lt=2**63)]
)


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


class PredictionsIn(_In):
    """Rows to predict: an object each, with a field for every column of the model."""

    rows: Annotated[
        list[dict[str, StrictStr | StrictFloat | StrictInt | bool | None]], Field(min_length=1)
    ]


class PredictionOut(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    class_: str = Field(alias="class")
    probabilities: dict[str, float] = Field(
        description="By class, summing to 1. With more than two classes they are one-vs-rest: the "
        "scores of separate models, scaled. They rank classes well, and are less well calibrated "
        "than those of a softmax model."
    )


class PredictionsOut(BaseModel):
    model_config = _example(
        version=84,
        rare=0,
        unseen=0,
        predictions=[{"class": "yes", "probabilities": {"no": 0.397, "yes": 0.603}}],
    )
    version: int = Field(description="The version of the model that answered.")
    rare: int = Field(
        description="Rows with a category that is known, but too rare for a column of its own."
    )
    unseen: int = Field(
        description="Rows with a category in no training row, or in fewer than "
        "preprocessing.min_rows: which of the two is not told, since it may be one person's."
    )
    predictions: list[PredictionOut]


class ErasureIn(_In):
    """Whom to forget: subjects with all their rows, or single rows."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"subjects": ["C-1042", "C-77"]}, {"rows": [17]}]},
    )
    subjects: Annotated[list[Id], Field(max_length=10_000)] = []
    rows: Annotated[list[Id], Field(max_length=10_000)] = []


class ItemOut(BaseModel):
    kind: Literal["subject", "row"]
    outcome: Literal["forgotten", "repeated", "unknown"] | None = Field(
        description="unknown: nobody here has or had this id. null while the request waits."
    )
    rows: int | None


class DecisionOut(BaseModel):
    """Why a version is in use."""

    model_config = _example(
        version=85,
        at="2030-01-02T03:04:05.300Z",
        action="update",
        estimate=0.32,
        threshold=2.0,
        reason="the estimated disparity 0.32 % is within the threshold 2 %",
    )
    version: int
    at: datetime
    action: Literal["open", "update", "retrain", "withdraw"]
    reason: str
    estimate: float | None = Field(
        description="Estimated disparity, in percent; null where it was not measured."
    )
    threshold: float | None
    distance: float | None = Field(
        None, description="Estimated distance to a retraining, as a share of the weights' length."
    )
    accuracy_change: float | None = Field(
        None, description="On held-out people since training; below 0 it fell."
    )
    log_loss_change: float | None = Field(None, description="Since training; above 0 is worse.")

    @classmethod
    def of(cls, d: Decision) -> "DecisionOut":
        known = ("distance", "accuracy_change", "log_loss_change")
        return cls(
            **{name: d.inputs.get(name) for name in known},
            version=d.version,
            at=d.at,
            action=d.action,
            reason=d.reason,
            estimate=d.estimate,
            threshold=d.threshold,
        )


class ErasureOut(BaseModel):
    model_config = _example(
        id=90,
        key="3f1c9a52",
        state="applied",
        in_force=True,
        submitted_at="2030-01-02T03:04:05.120Z",
        applied_at="2030-01-02T03:04:05.310Z",
        cancelled_at=None,
        version=85,
        matched="all",
        ids=1,
        forgotten=1,
        repeated=0,
        unknown=0,
        rows=3,
        purged=True,
        kept_for_audit_until=None,
        items=[{"kind": "subject", "outcome": "forgotten", "rows": 3}],
        decision=None,
        near=None,
    )
    id: int
    key: str = Field(description="The Idempotency-Key it was filed with.")
    state: RequestState = Field(
        description="unmatched: nobody had any of its ids, nobody was forgotten."
    )
    in_force: bool = Field(
        description="Whoever it matched is not in the model in use any more. False where it "
        "matched nobody."
    )
    matched: Matched | None = Field(
        description="all: every id was somebody's; some: others matched nobody; earlier: all were "
        "forgotten before; none. null until it is settled."
    )
    submitted_at: datetime
    applied_at: datetime | None
    cancelled_at: datetime | None
    version: int | None = Field(description="The version that forgot.")
    ids: int = Field(description="How many it names; 0 once it is cancelled.")
    forgotten: int
    repeated: int = Field(description="Ids named twice, or forgotten before.")
    unknown: int = Field(description="Ids that matched nobody.")
    rows: int = Field(description="That went with it.")
    purged: bool | None = Field(
        description="No byte of whom it names is left, neither in use nor for audits. null: it "
        "matched nobody, or was cancelled."
    )
    kept_for_audit_until: datetime | None = Field(
        description="Its deleted rows, without ids, are kept until then; null: none are."
    )
    items: list[ItemOut] | None = Field(None, description="Only where one erasure is read.")
    decision: DecisionOut | None = None
    near: list["NearOut"] | None = Field(
        None,
        description="Only in the answer to who files it: of its ids, those that match nobody just "
        "now, with near spellings that somebody has.",
    )

    @classmethod
    def of(
        cls,
        r: Request,
        why: Decision | None = None,
        *,
        with_items: bool = False,
        near: Sequence["NearOut"] | None = None,
    ) -> "ErasureOut":
        each = [ItemOut(kind=i.kind, outcome=i.outcome, rows=i.rows) for i in r.items]
        return cls(
            id=r.id,
            key=r.key,
            state=r.state,
            in_force=r.state == "applied",
            submitted_at=r.submitted_at,
            applied_at=r.applied_at,
            cancelled_at=r.cancelled_at,
            version=None if r.state == "unmatched" else r.version,
            matched=r.matched,
            near=None if near is None else list(near),
            purged=r.purged,
            kept_for_audit_until=r.kept_until,
            **asdict(r.tally),
            items=each if with_items else None,
            decision=None if why is None else DecisionOut.of(why),
        )


class NearOut(BaseModel):
    """An id that matches nobody, and spellings close to it that do exist."""

    kind: Literal["subject", "row"]
    asked: str
    spellings: list[str] = Field(description="Equal but for case, blanks, zeros or the like.")
    forgotten_as: str | None = Field(None, description="A near spelling that was forgotten before.")


class ErasuresOut(BaseModel):
    items: list[ErasureOut]
    next: int | None = Field(description="Give it as `before` for the page after this one.")


class LookupIn(_In):
    """Whom to look up. In the body, so that no log of an address holds it."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"subject": "C-1042"}]}
    )
    subject: Id


class LookupOut(BaseModel):
    state: Literal["remembered", "waiting", "forgotten", "unknown"]
    rows: int
    purged: bool | None = Field(
        description="Of who is forgotten: whether no byte of theirs is left; else null."
    )
    kept_for_audit_until: datetime | None = Field(
        description="Deleted rows, without ids, that may be theirs are kept until then."
    )
    erasures: list[ErasureOut]
    near: list[str] = Field([], description="Of an unknown id: near spellings that do exist.")


class VersionOut(BaseModel):
    version: int
    kind: Literal["trained", "updated", "retrained", "withdrawn"]
    state: Literal["active", "superseded"]
    method: str
    activated_at: datetime
    superseded_at: datetime | None
    rows: int
    subjects: int
    deleted: int
    accuracy: float | None = Field(description="On held-out people.")
    majority: float | None = Field(
        description="The accuracy of always naming the most frequent class, on the same people."
    )
    auc: float | None = Field(
        description="Area under the curve; beyond two classes, the mean of each against the rest."
    )
    log_loss: float | None = Field(description="Of the probabilities as predictions give them.")
    initial_accuracy: float | None = Field(
        description="Of the model as last trained, on the people held out now."
    )
    log_loss_change: float | None = Field(description="Since that training; above 0 is worse.")
    seconds: float = Field(
        description="From the work being taken up to the commit that put it in force; getting "
        "kernels ready before and the purge after are not in it."
    )
    phases: dict[str, float] | None = Field(
        description="Where the seconds went, by phase; null of records from before."
    )
    purge_seconds: float | None = Field(
        description="Of the purge after the commit, which versions may share; null while it is due."
    )
    cold: bool | None = Field(
        description="Whether kernels were compiled or loaded within the seconds."
    )

    @classmethod
    def of(cls, v: Version) -> "VersionOut":
        t, seen = v.times, v.held_out or HeldOut()
        return cls(
            **asdict(seen),
            version=v.number,
            kind=v.kind,
            state=v.state,
            method=v.method,
            activated_at=v.activated_at,
            superseded_at=v.superseded_at,
            rows=v.rows,
            subjects=v.subjects,
            deleted=v.deleted,
            accuracy=v.accuracy,
            seconds=v.seconds,
            phases=None if t is None else dict(t.phases),
            cold=None if t is None else t.cold,
            purge_seconds=None if t is None else t.purge,
        )


class VersionsOut(BaseModel):
    items: list[VersionOut]
    next: int | None


class DecisionsOut(BaseModel):
    items: list[DecisionOut]
    next: int | None


class ColumnOut(BaseModel):
    name: str
    kind: Literal["numeric", "boolean", "category"]
    constants: dict[str, str] = Field(
        description="In words, how each constant of the column was come by."
    )


class ModelOut(BaseModel):
    """The model in use."""

    version: VersionOut
    label: str
    classes: list[str]
    columns: list[ColumnOut]
    norm: str = Field(description="In words, how the bound on the length of rows was come by.")


class StatusOut(BaseModel):
    model_config = _example(
        version=85,
        method="fisher",
        remembered=3817,
        forgotten_rows=5096,
        forgotten_subjects=1701,
        pending=0,
        applied=90,
        unmatched=0,
        cancelled=0,
        purge_due=False,
        estimate=0.32,
        threshold=2.0,
        worker=True,
        audit_window_seconds=2592000,
        retained_rows=12,
        retained_until="2030-02-01T03:04:05.300Z",
        retained_overdue_rows=0,
        audit="last audit: version 85, forgotten",
    )
    version: int | None
    method: str
    remembered: int
    forgotten_rows: int
    forgotten_subjects: int
    pending: int
    applied: int
    unmatched: int = Field(description="Erasures of whose ids nobody had any.")
    cancelled: int
    purge_due: bool = Field(description="Bytes remain that are to go.")
    audit_window_seconds: float = Field(
        description="How long deleted rows are kept for audits (retention.audit_window)."
    )
    retained_rows: int = Field(description="Deleted rows that are kept for audits now.")
    retained_until: datetime | None = Field(description="When the last of them is removed.")
    retained_overdue_rows: int = Field(description="Kept longer than the window says.")
    estimate: float | None
    threshold: float
    worker: bool = Field(description="A worker is at its place.")
    audit: str = Field(description="What the last audit said, and of which version.")


class AuditIn(_In):
    """How to audit; by default as the workspace says."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"examples": [{}, {"threshold": 1.5, "draws": 5}]},
    )
    threshold: Annotated[float, Field(ge=0, le=200)] | None = None
    draws: Annotated[int, Field(ge=1, le=100)] | None = None


class JobOut(BaseModel):
    """Long work: an audit or a retraining."""

    id: int
    kind: Literal["audit", "retrain"]
    state: Literal["pending", "running", "done", "failed"]
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stage: str | None
    done: int | None
    total: int | None
    error: str | None
    version: int | None

    @classmethod
    def fields(cls, j: Job) -> dict[str, Any]:
        return {name: getattr(j, name) for name in JobOut.model_fields}

    @classmethod
    def of(cls, j: Job) -> "JobOut":
        return cls(**cls.fields(j))


class AuditOut(JobOut):
    passed: bool | None = Field(None, description="null: not done, or it cannot tell.")
    outcome: Literal["forgotten", "not forgotten", "cannot tell"] | None = None
    verdict: str | None = Field(None, description="The outcome and its reason.")
    report: Mapping[str, Any] | None = None

    @classmethod
    def told(cls, j: Job, found: AuditRecord | None) -> "AuditOut":
        more: dict[str, Any] = {}
        if found is not None:
            more = {
                "passed": found.passed,
                "outcome": found.report.get("outcome", "cannot tell"),
                "verdict": found.report.get("verdict"),
                "report": found.report,
            }
        return cls(**cls.fields(j), **more)


class JobsOut(BaseModel):
    items: list[JobOut]
    next: int | None


class AuditsOut(BaseModel):
    items: list[AuditOut]
    next: int | None


class HealthOut(BaseModel):
    status: Literal["ok"]


class ReadyOut(BaseModel):
    status: Literal["ready"]
    version: int
    worker: bool
