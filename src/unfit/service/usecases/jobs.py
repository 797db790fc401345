"""Audits and retrainings: requested here, run by a worker beside everything else."""

from collections.abc import Mapping
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


def audit_report(context: ServiceContext, id: int) -> str:
    """A finished audit as one HTML page."""
    found = audit_record(context, find(context, "audit", id))
    if found is None:
        raise NotFinished(f"audit {id} has no report, because it is not finished")
    return audit_page(Report.of(found.report), context.workspace.status())
