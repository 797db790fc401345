"""Audits and retrainings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unfit.service.api.schemas.base import StrictInput
from unfit.store.records import AuditRecord, Job


class AuditIn(StrictInput):
    """Options of an audit; the workspace's settings are the defaults."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"threshold": 1.5, "draws": 5}, {"attack": True}]}
    )
    threshold: Annotated[float, Field(ge=0, le=200)] | None = None
    draws: Annotated[int, Field(ge=1, le=100)] | None = None
    attack: bool | None = Field(
        None, description="Also try to tell releases from those of a retraining."
    )
    splits: Annotated[int, Field(ge=16, le=4096, multiple_of=4)] | None = None
    targets: Annotated[int, Field(ge=1, le=100)] | None = None


class JobOut(BaseModel):
    """A long-running job: an audit or a retraining."""

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
    def of(cls, job: Job) -> "JobOut":
        return cls(**_fields(job))


class AuditOut(JobOut):
    passed: bool | None = Field(None, description="null: the audit is not done, or it cannot tell.")
    outcome: Literal["forgotten", "not forgotten", "cannot tell"] | None = None
    verdict: str | None = Field(None, description="The outcome and its reason.")
    report: Mapping[str, Any] | None = None

    @classmethod
    def of_audit(cls, job: Job, found: AuditRecord | None) -> "AuditOut":
        if found is None:
            return cls(**_fields(job))
        return cls(
            **_fields(job),
            passed=found.passed,
            outcome=found.report.get("outcome", "cannot tell"),
            verdict=found.report.get("verdict"),
            report=found.report,
        )


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in JobOut.model_fields}


class JobsOut(BaseModel):
    items: list[JobOut]
    next: int | None


class AuditsOut(BaseModel):
    items: list[AuditOut]
    next: int | None
