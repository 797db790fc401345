"""The active model, its versions, and the decisions that led to them."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from unfit.service.api.schemas.base import examples
from unfit.store.records import Decision, HeldOut, Version


class DecisionOut(BaseModel):
    """Why a version became active."""

    model_config = examples(
        {
            "version": 85,
            "at": "2030-01-02T03:04:05.300Z",
            "action": "update",
            "estimate": 0.32,
            "threshold": 2.0,
            "reason": "the estimated disparity 0.32 % is within the threshold 2 %",
        }
    )
    version: int
    at: datetime
    action: Literal["open", "update", "retrain", "withdraw"]
    reason: str
    estimate: float | None = Field(
        description="Disparity in percent, estimated or measured; null if neither was possible."
    )
    measured: bool = Field(
        False,
        description="The disparity is measured, as it can be of a certified model, and holds at "
        "most; otherwise it is an estimate.",
    )
    threshold: float | None
    distance: float | None = Field(
        None,
        description="Distance to a retrained model, relative to the length of the weights: "
        "estimated, or of a certified model the most that its certificate allows.",
    )
    accuracy_change: float | None = Field(
        None,
        description="Change of accuracy on held-out people since training; negative means it fell.",
    )
    log_loss_change: float | None = Field(
        None, description="Change of log-loss since training; positive means it got worse."
    )

    @classmethod
    def of(cls, decision: Decision) -> "DecisionOut":
        return cls(
            version=decision.version,
            at=decision.at,
            action=decision.action,
            reason=decision.reason,
            estimate=decision.estimate,
            threshold=decision.threshold,
            measured=decision.measured,
            distance=decision.inputs.get("distance"),
            accuracy_change=decision.inputs.get("accuracy_change"),
            log_loss_change=decision.inputs.get("log_loss_change"),
        )


class VersionOut(BaseModel):
    version: int
    kind: Literal["trained", "updated", "retrained", "withdrawn"]
    state: Literal["active", "superseded"]
    method: str
    activated_at: datetime = Field(description="When it became active.")
    superseded_at: datetime | None
    rows: int
    subjects: int
    deleted: int
    accuracy: float | None = Field(description="On held-out people.")
    majority: float | None = Field(
        description="The accuracy of always predicting the most frequent class, on the same people."
    )
    auc: float | None = Field(
        description="Area under the ROC curve; with more than two classes, the mean of each class "
        "against the rest."
    )
    log_loss: float | None = Field(description="Of the probabilities that predictions return.")
    initial_accuracy: float | None = Field(
        description="Accuracy of the model as it was last trained, on the people held out now."
    )
    log_loss_change: float | None = Field(
        description="Since that training; positive means it got worse."
    )
    seconds: float = Field(
        description="From the start of the work to the commit that made the version active. "
        "Compiling or loading kernels before and the purge after are not included."
    )
    phases: dict[str, float] | None = Field(
        description="The seconds by phase; null for records that have none."
    )
    purge_seconds: float | None = Field(
        description="Duration of the purge after the commit, which several versions may share; "
        "null while it is due."
    )
    cold: bool | None = Field(
        description="Whether kernels were compiled or loaded within the seconds."
    )

    @classmethod
    def of(cls, version: Version) -> "VersionOut":
        times = version.times
        return cls(
            **asdict(version.held_out or HeldOut()),
            version=version.number,
            kind=version.kind,
            state=version.state,
            method=version.method,
            activated_at=version.activated_at,
            superseded_at=version.superseded_at,
            rows=version.rows,
            subjects=version.subjects,
            deleted=version.deleted,
            accuracy=version.accuracy,
            seconds=version.seconds,
            phases=None if times is None else dict(times.phases),
            cold=None if times is None else times.cold,
            purge_seconds=None if times is None else times.purge,
        )


class VersionsOut(BaseModel):
    items: list[VersionOut]
    next: int | None


class DecisionsOut(BaseModel):
    items: list[DecisionOut]
    next: int | None


class ColumnOut(BaseModel):
    name: str
    kind: Literal["numeric", "boolean", "category", "sparse", "hash"]
    constants: dict[str, str] = Field(
        description="How each constant of the column was obtained, in words."
    )


class ModelOut(BaseModel):
    """The active model."""

    version: VersionOut
    label: str
    classes: list[str]
    columns: list[ColumnOut]
    norm: str = Field(description="How the bound on the length of rows was obtained, in words.")
