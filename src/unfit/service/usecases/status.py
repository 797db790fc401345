"""The state of the service, read from the records: for the API, the metrics and the dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from unfit.service.context import ServiceContext
from unfit.store.records import AuditRecord, Decision, Version
from unfit.workspace.results import CertificateStatus, audited
from unfit.workspace.retention import Retained


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    version: Version | None  # the active one
    method: str
    counts: Mapping[str, int]  # of requests, by state
    forgotten_rows: int
    forgotten_subjects: int
    last_decision: Decision | None
    last_audit: AuditRecord | None
    threshold: float
    worker: bool
    purge_due: bool  # bytes remain that have to go, overdue rows kept for audits among them
    retained: Retained
    certificates: CertificateStatus
    audit_window: timedelta

    @property
    def estimate(self) -> float | None:
        """Of the disparity, in percent."""
        return None if self.last_decision is None else self.last_decision.estimate

    @property
    def audit(self) -> str:
        """The result of the last audit, in words."""
        return audited(self.last_audit, self.version)


def read_status(context: ServiceContext) -> ServiceStatus:
    store, config = context.store, context.config
    version, retained = store.versions.active(), context.workspace.retained()
    rows, people = store.forgotten.counts()
    return ServiceStatus(
        version=version,
        method=version.method if version else config.model.method,
        counts=store.requests.counts(),
        forgotten_rows=rows,
        forgotten_subjects=people,
        last_decision=next(iter(store.decisions.find(last=1)), None),
        last_audit=next(iter(store.audits.find(last=1)), None),
        threshold=config.policy.disparity,
        worker=context.worker_is_alive(),
        purge_due=store.model.read().purge_due or retained.overdue_rows > 0,
        retained=retained,
        certificates=context.workspace.certificates.status(),
        audit_window=config.retention.audit_window,
    )
