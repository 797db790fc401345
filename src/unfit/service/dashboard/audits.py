"""Audits: pages and the form that starts one."""

from collections.abc import Callable, Collection
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from unfit.pages.audit import facts_of
from unfit.service.auth import PageRoute, allow, principal_of, require_role
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard import charts
from unfit.service.dashboard.rendering import PAGE, page
from unfit.service.paging import Before, Number, newest_first
from unfit.service.problems import Problem
from unfit.service.usecases import jobs
from unfit.store.records import AuditRecord
from unfit.workspace.audit import Report

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@routes.get("/audits")
@allow("audit", "operate")
def list_audits(request: Request, before: Before = None) -> HTMLResponse:
    context = context_of(request)
    found = context.jobs.find(kind="audit", before=before, last=PAGE + 1)
    items, following = newest_first(found, PAGE, "id")
    auditor = principal_of(request).may("audit")
    shown = [
        (job, jobs.shown_audit(context, jobs.audit_record(context, job), auditor=auditor))
        for job in items
    ]
    known = {job.audit_id for job, _ in shown}
    others = [] if before else _from_command_line(context, known, auditor)
    return page(
        request,
        "audits.html",
        shown=shown,
        following=following,
        before=before,
        others=others,
        threshold=context.config.policy.disparity,
        noisy=context.config.model.sigma > 0,
    )


def _from_command_line(
    context: ServiceContext, known: Collection[int | None], auditor: bool
) -> list[AuditRecord]:
    """Audits that are not jobs of the service."""
    found = [a for a in reversed(context.store.audits.find(last=PAGE)) if a.id not in known]
    shown = (jobs.shown_audit(context, a, auditor=auditor) for a in found)
    return [a for a in shown if a is not None]


@routes.post("/audits")
@allow("audit")
def start_audit(
    request: Request,
    threshold: Annotated[str, Form(max_length=20)] = "",
    draws: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    options: dict[str, Any] = {}
    if threshold.strip():
        options["threshold"] = _number(threshold, "threshold", float, (0, 200))
    if draws.strip():
        options["draws"] = _number(draws, "number of retrainings", int, (1, 100))
    job = jobs.start_audit(context_of(request), options, by=principal_of(request).token.public)
    return RedirectResponse(f"/audits/{job.id}", 303)


def _number(text: str, name: str, kind: Callable[[str], Any], bounds: tuple[int, int]) -> Any:
    least, most = bounds
    try:
        value = kind(text.strip())
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise Problem(422, f"The {name} must be a number from {least} to {most}.")
    return value


@routes.get("/audits/{id}")
@allow("audit", "operate")
def audit(request: Request, id: Number) -> HTMLResponse:
    return page(request, "audit.html", **_content(request, id))


@routes.get("/audits/{id}/panel")
@allow("audit", "operate")
def audit_panel(request: Request, id: Number) -> HTMLResponse:
    return page(request, "audit_panel.html", **_content(request, id))


def _content(request: Request, id: int) -> dict[str, Any]:
    context = context_of(request)
    job = jobs.find(context, "audit", id)
    if jobs.needs_auditor(context, job):
        require_role(request, "audit")
    found = jobs.audit_record(context, job)
    if found is None:
        return {"job": job, "report": None, "facts": (), "chart": None, "distances": None}
    report = Report.of(found.report)
    return {
        "job": job,
        "report": report,
        "facts": facts_of(report),
        "chart": charts.accuracies(report),
        "distances": charts.distances(report),
    }


@routes.get("/audits/{id}/report")
@allow("audit", "operate")
def report(request: Request, id: Number) -> HTMLResponse:
    """The audit as one page to keep."""
    context = context_of(request)
    if jobs.needs_auditor(context, jobs.find(context, "audit", id)):
        require_role(request, "audit")
    return HTMLResponse(jobs.audit_report(context, id))
