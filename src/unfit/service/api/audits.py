"""Audits and retrainings: requested here, run by a worker beside everything else."""

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from unfit.service.api.common import problems, router
from unfit.service.api.schemas import AuditIn, AuditOut, AuditsOut, JobOut, JobsOut
from unfit.service.auth import allow, principal_of, require_role
from unfit.service.context import context_of
from unfit.service.paging import Before, Limit, Number, newest_first
from unfit.service.usecases import jobs
from unfit.store.records import Job

routes = router("audits and retrainings")


@routes.post("/audits", status_code=202, summary="Start an audit", responses=problems())
@allow("audit")
def start_audit(request: Request, response: Response, body: AuditIn) -> AuditOut:
    """Retrains independently and compares the result with the active model."""
    options = body.model_dump(exclude_none=True)
    job = jobs.start_audit(context_of(request), options, by=principal_of(request).token.public)
    response.headers["Location"] = f"/v1/audits/{job.id}"
    return AuditOut.of_audit(job, None)


@routes.get("/audits", summary="List audits", responses=problems())
@allow("audit", "operate")
def list_audits(request: Request, limit: Limit = 50, before: Before = None) -> AuditsOut:
    """Newest first."""
    context = context_of(request)
    found = context.jobs.find(kind="audit", before=before, last=limit + 1)
    items, more = newest_first(found, limit, "id")
    return AuditsOut(items=[_shown(request, job) for job in items], next=more)


@routes.get("/audits/{id}", summary="Read an audit", responses=problems(404))
@allow("audit", "operate")
def read_audit(request: Request, id: Number) -> AuditOut:
    """With its progress and, once it is done, its report. Of a certified model, the figures are for
    the role audit."""
    return _shown(request, jobs.find(context_of(request), "audit", id))


def _shown(request: Request, job: Job) -> AuditOut:
    context, auditor = context_of(request), principal_of(request).may("audit")
    found = jobs.audit_record(context, job)
    return AuditOut.of_audit(job, jobs.shown_audit(context, found, auditor=auditor))


@routes.get(
    "/audits/{id}/report",
    summary="Read an audit's report as a page",
    response_class=HTMLResponse,
    responses=problems(404, 409),
)
@allow("audit", "operate")
def report(request: Request, id: Number) -> HTMLResponse:
    """One HTML page with its plots, to keep or to print. Of a certified model, for the role
    audit."""
    context = context_of(request)
    if jobs.needs_auditor(context, jobs.find(context, "audit", id)):
        require_role(request, "audit")
    return HTMLResponse(jobs.audit_report(context, id))


@routes.post("/retrainings", status_code=202, summary="Start a retraining", responses=problems())
@allow("operate")
def start_retraining(request: Request, response: Response) -> JobOut:
    """Trains from scratch on the rows that remain. Predictions continue; erasures wait until it is
    done."""
    job = jobs.start_retraining(context_of(request), by=principal_of(request).token.public)
    response.headers["Location"] = f"/v1/retrainings/{job.id}"
    return JobOut.of(job)


@routes.get("/retrainings", summary="List retrainings", responses=problems())
@allow("operate", "audit")
def list_retrainings(request: Request, limit: Limit = 50, before: Before = None) -> JobsOut:
    """Those that were requested here; newest first."""
    found = context_of(request).jobs.find(kind="retrain", before=before, last=limit + 1)
    items, more = newest_first(found, limit, "id")
    return JobsOut(items=[JobOut.of(job) for job in items], next=more)


@routes.get("/retrainings/{id}", summary="Read a retraining", responses=problems(404))
@allow("operate", "audit")
def read_retraining(request: Request, id: Number) -> JobOut:
    """With its progress."""
    return JobOut.of(jobs.find(context_of(request), "retrain", id))
