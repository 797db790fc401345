"""Audits and retrainings: asked for here, done by a worker beside everything else."""

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from unfit.pages.audit import audit_page
from unfit.service.api.common import Before, Limit, Number, context_of, page, problems, router
from unfit.service.api.schemas import AuditIn, AuditOut, AuditsOut, JobOut, JobsOut
from unfit.service.auth import allow, principal_of
from unfit.service.context import ServiceContext
from unfit.service.problems import Problem
from unfit.store.records import AuditRecord, Job, JobKind
from unfit.workspace.audit import Report

routes = router("audits and retrainings")


@routes.post("/audits", status_code=202, summary="Start an audit", responses=problems())
@allow("audit")
def start_audit(request: Request, response: Response, body: AuditIn) -> AuditOut:
    """An independent retraining, compared with the model in use."""
    context = context_of(request)
    options = body.model_dump(exclude_none=True)
    made = context.jobs.submit(
        "audit", options, context.clock(), principal_of(request).token.public
    )
    response.headers["Location"] = f"/v1/audits/{made}"
    return AuditOut.told(find(context, "audit", made), None)


@routes.get("/audits", summary="List audits", responses=problems())
@allow("audit", "operate")
def list_audits(request: Request, limit: Limit = 50, before: Before = None) -> AuditsOut:
    """The newest first."""
    context = context_of(request)
    found = context.jobs.find(kind="audit", before=before, last=limit + 1)
    items, more = page(found, limit, "id")
    return AuditsOut(items=[AuditOut.told(job, record(context, job)) for job in items], next=more)


@routes.get("/audits/{id}", summary="Read an audit", responses=problems(404))
@allow("audit", "operate")
def read_audit(request: Request, id: Number) -> AuditOut:
    """With its progress, then its report."""
    context = context_of(request)
    job = find(context, "audit", id)
    return AuditOut.told(job, record(context, job))


@routes.get(
    "/audits/{id}/report",
    summary="An audit as a page",
    response_class=HTMLResponse,
    responses=problems(404, 409),
)
@allow("audit", "operate")
def report(request: Request, id: Number) -> HTMLResponse:
    """One HTML page with its pictures, to keep or to print."""
    context = context_of(request)
    found = record(context, find(context, "audit", id))
    if found is None:
        raise Problem(409, "this audit has no report; it is not done")
    return HTMLResponse(audit_page(Report.of(found.report), context.workspace.status()))


@routes.post("/retrainings", status_code=202, summary="Retrain", responses=problems())
@allow("operate")
def start_retraining(request: Request, response: Response) -> JobOut:
    """On the rows that remain, beside predictions; erasures wait until it is done."""
    context = context_of(request)
    made = context.jobs.submit("retrain", {}, context.clock(), principal_of(request).token.public)
    response.headers["Location"] = f"/v1/retrainings/{made}"
    return JobOut.of(find(context, "retrain", made))


@routes.get("/retrainings", summary="List retrainings", responses=problems())
@allow("operate", "audit")
def list_retrainings(request: Request, limit: Limit = 50, before: Before = None) -> JobsOut:
    """Those that were asked for; the newest first."""
    found = context_of(request).jobs.find(kind="retrain", before=before, last=limit + 1)
    items, more = page(found, limit, "id")
    return JobsOut(items=[JobOut.of(job) for job in items], next=more)


@routes.get("/retrainings/{id}", summary="Read a retraining", responses=problems(404))
@allow("operate", "audit")
def read_retraining(request: Request, id: Number) -> JobOut:
    return JobOut.of(find(context_of(request), "retrain", id))


def find(context: ServiceContext, kind: JobKind, id: int) -> Job:
    found = context.jobs.find(id=id, kind=kind)
    if not found:
        named = {"audit": "audit", "retrain": "retraining"}[kind]
        raise Problem(404, f"there is no {named} {id}")
    return found[0]


def record(context: ServiceContext, job: Job) -> AuditRecord | None:
    """The report of an audit that is done."""
    return None if job.audit_id is None else context.store.audits.find(id=job.audit_id)[0]
