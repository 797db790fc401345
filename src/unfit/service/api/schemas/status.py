"""The state of the service, and its health."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from unfit.service.api.schemas.base import examples
from unfit.service.usecases.status import ServiceStatus


class StatusOut(BaseModel):
    model_config = examples(
        {
            "version": 85,
            "method": "fisher",
            "remembered": 3817,
            "forgotten_rows": 5096,
            "forgotten_subjects": 1701,
            "pending": 0,
            "applied": 90,
            "unmatched": 0,
            "cancelled": 0,
            "purge_due": False,
            "estimate": 0.32,
            "threshold": 2.0,
            "worker": True,
            "audit_window_seconds": 2592000,
            "retained_rows": 12,
            "retained_until": "2030-02-01T03:04:05.300Z",
            "retained_overdue_rows": 0,
            "audit": "last audit: version 85, forgotten",
            "certificates": 86,
            "certificates_waiting": 0,
            "certificates_problem": None,
            "joint_mu": 2.457,
            "joint_epsilon": 12.92,
        }
    )
    version: int | None = Field(description="The active version.")
    method: str
    remembered: int
    forgotten_rows: int
    forgotten_subjects: int
    pending: int
    applied: int
    unmatched: int = Field(description="Erasures whose ids matched nobody.")
    cancelled: int
    purge_due: bool = Field(description="Some bytes still have to be purged.")
    audit_window_seconds: float = Field(
        description="How long deleted rows are kept for audits (retention.audit_window)."
    )
    retained_rows: int = Field(description="Deleted rows currently kept for audits.")
    retained_until: datetime | None = Field(description="When the last of them is removed.")
    retained_overdue_rows: int = Field(description="Rows kept longer than the window allows.")
    estimate: float | None
    threshold: float
    worker: bool = Field(description="Whether a worker is running.")
    audit: str = Field(description="The result of the last audit, and which version it was of.")

    certificates: int = Field(description="Certificates in the log.")
    certificates_waiting: int = Field(description="Those that wait for a signature.")
    certificates_problem: str | None = Field(description="Why they wait.")
    joint_mu: float | None = Field(
        description="mu of all certified releases together; null if there are none."
    )
    joint_epsilon: float | None = Field(description="The same as epsilon, at the delta claimed.")

    @classmethod
    def of(cls, status: ServiceStatus) -> "StatusOut":
        version, certificates = status.version, status.certificates
        return cls(
            version=version.number if version else None,
            method=status.method,
            remembered=version.subjects if version else 0,
            forgotten_rows=status.forgotten_rows,
            forgotten_subjects=status.forgotten_subjects,
            **status.counts,
            purge_due=status.purge_due,
            audit_window_seconds=status.audit_window.total_seconds(),
            retained_rows=status.retained.rows,
            retained_until=status.retained.until,
            retained_overdue_rows=status.retained.overdue_rows,
            estimate=status.estimate,
            threshold=status.threshold,
            worker=status.worker,
            audit=status.audit,
            certificates=certificates.entries,
            certificates_waiting=certificates.waiting,
            certificates_problem=certificates.problem,
            joint_mu=certificates.joint_mu,
            joint_epsilon=certificates.joint_epsilon,
        )


class HealthOut(BaseModel):
    status: Literal["ok"]


class ReadyOut(BaseModel):
    status: Literal["ready"]
    version: int
    worker: bool
