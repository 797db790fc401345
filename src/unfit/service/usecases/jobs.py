"""Audits and retrainings: requested here, run by a worker beside everything else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unfit.pages.audit import audit_page
from unfit.service.context import ServiceContext
from unfit.service.usecases.errors import NotFinished, NotFound
from unfit.store.records import AuditRecord, Job, JobKind
from unfit.workspace.audit import Report

NAMES: dict[JobKind, str] = {"audit": "audit", "retrain": "retraining"}


def start_audit(context: ServiceContext, options: Mapping[str, Any], *, by: str) -> Job:
    return find(context, "audit", context.jobs.submit("audit", options, context.clock(), by))


def start_retraining(context: ServiceContext, *, by: str) -> Job:
    return find(context, "retrain", context.jobs.submit("retrain", {}, context.clock(), by))


def find(context: ServiceContext, kind: JobKind, id: int) -> Job:
    found = context.jobs.find(id=id, kind=kind)
    if not found:
        raise NotFound(f"there is no {NAMES[kind]} {id}")
    return found[0]


def audit_record(context: ServiceContext, job: Job) -> AuditRecord | None:
    """What a finished audit found."""
    return None if job.audit_id is None else context.store.audits.find(id=job.audit_id)[0]


def shown_audit(
    context: ServiceContext, found: AuditRecord | None, *, auditor: bool
) -> AuditRecord | None:
    """What a reader may see of an audit. Of a certified model its figures tell how far the weights
    before noise are from a retraining's: they are for auditors, like the annex of a certificate."""
    if found is None or auditor or not _is_certified(context, found.version):
        return found
    outcome = found.report.get("outcome", "cannot tell")
    said = f"{outcome}; the figures of a certified model are for the role 'audit'"
    return replace(found, report={"outcome": outcome, "verdict": said})


def needs_auditor(context: ServiceContext, job: Job) -> bool:
    """Whether an audit has figures that are for auditors alone."""
    found = audit_record(context, job)
    return found is not None and _is_certified(context, found.version)


def _is_certified(context: ServiceContext, version: int) -> bool:
    return bool(context.store.certificates.find(version=version, last=1))


def audit_report(context: ServiceContext, id: int) -> str:
    """A finished audit as one HTML page."""
    found = audit_record(context, find(context, "audit", id))
    if found is None:
        raise NotFinished(f"audit {id} has no report, because it is not finished")
    return audit_page(Report.of(found.report), context.workspace.status())
