"""The pages and what their forms do. Every page is whole without scripts."""

import re
from collections.abc import Callable
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Form, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from unfit.data.ids import id_list
from unfit.errors import BadInput, UnfitError
from unfit.pages.audit import audit_page, facts_of
from unfit.service.api import erasures, jobs, versions
from unfit.service.api.common import context_of
from unfit.service.api.schemas import ErasureOut
from unfit.service.auth import COOKIE, PUBLIC, PageRoute, allow, principal_of
from unfit.service.dashboard import charts, views
from unfit.service.dashboard.rendering import page, sign_in_page
from unfit.service.problems import Problem
from unfit.service.usecases import erasures as usecase
from unfit.store.records import Request as Erasure
from unfit.store.records import RequestState
from unfit.workspace.audit import Report

PAGE = 25
SEES = ("operate", "audit", "erase")  # everybody but who only asks for predictions

routes = APIRouter(route_class=PageRoute, include_in_schema=False)
Number = Annotated[int, Path(ge=1, lt=2**63)]
Before = Annotated[int | None, Query(ge=1, lt=2**63)]


# --- coming and going ---------------------------------------------------------------------------


@routes.get("/sign-in")
@allow(PUBLIC)
def sign_in_form(request: Request, next: str = "/") -> HTMLResponse:
    return sign_in_page(request, _local(next))


@routes.post("/sign-in")
@allow(PUBLIC)
def sign_in(
    request: Request,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=500)] = "/",
) -> Response:
    context = context_of(request)
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return sign_in_page(request, "/", "Sign in from this page.", 403)
    found = context.access.by_text(token.strip())
    if found is None:
        return sign_in_page(request, _local(next), "This token is not known here.", 401)
    if not found.roles & {*SEES, "admin"}:
        said = "This token may ask for predictions only; the dashboard wants another."
        return sign_in_page(request, _local(next), said, 403)
    lasting = context.config.service.sign_in
    secret = context.access.sign_in(found, context.clock(), lasting)
    context.log.line("signed-in", token=found.public)
    response = RedirectResponse(_local(next), 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(lasting.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )
    return response


@routes.post("/sign-out")
@allow(*SEES)
def sign_out(request: Request) -> Response:
    context_of(request).access.sign_out(principal_of(request).session or "")
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


def _local(path: str) -> str:
    """Somewhere here, never at another host."""
    return path if re.fullmatch(r"/(?![/\\])[\w\-/.?=&]*", path) else "/"


# --- overview -----------------------------------------------------------------------------------


@routes.get("/")
@allow(*SEES)
def overview(request: Request) -> HTMLResponse:
    return page(request, "overview.html", shown=views.overview(context_of(request)))


@routes.get("/overview/panel")
@allow(*SEES)
def overview_panel(request: Request, seen: str = "") -> Response:
    """The same again if anything has changed."""
    shown = views.overview(context_of(request))
    if shown.mark == seen:
        return Response(status_code=204)
    return page(request, "overview_panel.html", shown=shown)


# --- erasures -----------------------------------------------------------------------------------


@routes.get("/erasures")
@allow(*SEES)
def list_erasures(request: Request, state: str = "", before: Before = None) -> HTMLResponse:
    return _erasures(request, state if state in get_args(RequestState) else "", before)


def _erasures(
    request: Request, state: str = "", before: int | None = None, status: int = 200, **more: Any
) -> HTMLResponse:
    context = context_of(request)
    found = context.store.requests.find(
        state=state or None, before=before, last=PAGE + 1, with_items=False
    )[::-1]
    shown = [views.followed(context, r) for r in found[:PAGE]]
    following = found[PAGE - 1].id if len(found) > PAGE else None
    return page(
        request,
        "erasures.html",
        status,
        shown=shown,
        state=state,
        following=following,
        before=before,
        counts=context.store.requests.counts(),
        **({"said": "", "person": None} | more),
    )


@routes.post("/erasures")
@allow("erase")
def file(
    request: Request,
    ids: Annotated[str, Form(max_length=1_000_000)] = "",
    kind: Annotated[str, Form()] = "subject",
    written: Annotated[str, Form()] = "lines",
    key: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """One id a line, or a JSON list; the form's key makes a second click the same."""
    context = context_of(request)
    try:
        named = id_list(ids, "json" if written == "json" else "lines", "The field")
        subjects, rows = (named, []) if kind == "subject" else ([], named)
        made = usecase.submit(
            context, subjects, rows, key or None, principal_of(request).token.public
        )
        near = usecase.near(context, subjects, rows)
    except UnfitError as error:
        status = 422 if isinstance(error, BadInput) else 503
        return _erasures(request, status=status, said=str(error), typed=ids)
    if near:  # shown to who typed the ids, now or never: they are kept nowhere
        return page(request, "erasure.html", shown=views.followed(context, made), near=near)
    return RedirectResponse(f"/erasures/{made.id}", 303)


@routes.post("/people")
@allow("erase")
def look_up(request: Request, subject: Annotated[str, Form(max_length=512)] = "") -> HTMLResponse:
    """By POST, so that no address, and no log of one, holds the id."""
    if not subject.strip() or "\0" in subject:
        return _erasures(request, status=422, looked="Type the id of a person.")
    found = usecase.look_up(context_of(request), subject)
    return _erasures(request, person=found, sought=subject)


@routes.get("/erasures/{id}")
@allow(*SEES)
def erasure(request: Request, id: Number) -> HTMLResponse:
    return page(
        request, "erasure.html", shown=views.followed(context_of(request), _find(request, id))
    )


@routes.get("/erasures/{id}/panel")
@allow(*SEES)
def erasure_panel(request: Request, id: Number) -> HTMLResponse:
    found = views.followed(context_of(request), _find(request, id))
    return page(request, "erasure_panel.html", shown=found)


@routes.get("/erasures/{id}/events")
@allow(*SEES)
async def erasure_events(request: Request, id: Number) -> StreamingResponse:
    found = await run_in_threadpool(_find, request, id)
    return erasures.follow(request, id, ErasureOut.of(found))


@routes.post("/erasures/{id}/cancel")
@allow("erase")
def cancel(request: Request, id: Number) -> Response:
    context = context_of(request)
    _find(request, id)
    context.store.requests.cancel(id, context.clock())
    return RedirectResponse(f"/erasures/{id}", 303)


def _find(request: Request, id: int) -> Erasure:
    found = context_of(request).store.requests.find(ids=[id], with_items=False)
    if not found:
        raise Problem(404, f"There is no erasure {id}.")
    return found[0]


# --- audits -------------------------------------------------------------------------------------


@routes.get("/audits")
@allow("audit", "operate")
def list_audits(request: Request, before: Before = None) -> HTMLResponse:
    context = context_of(request)
    found = context.jobs.find(kind="audit", before=before, last=PAGE + 1)[::-1]
    shown = [(job, jobs.record(context, job)) for job in found[:PAGE]]
    following = found[PAGE - 1].id if len(found) > PAGE else None
    others = [] if before else _by_hand(context, {job.audit_id for job, _ in shown})
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


def _by_hand(context: Any, known: set[int | None]) -> list[Any]:
    """Audits of the command line, which are no jobs of the service."""
    return [a for a in reversed(context.store.audits.find(last=PAGE)) if a.id not in known]


@routes.post("/audits")
@allow("audit")
def start_audit(
    request: Request,
    threshold: Annotated[str, Form(max_length=20)] = "",
    draws: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    context = context_of(request)
    options: dict[str, Any] = {}
    if threshold.strip():
        options["threshold"] = _number(threshold, "threshold", float, 0, 200)
    if draws.strip():
        options["draws"] = _number(draws, "number of retrainings", int, 1, 100)
    made = context.jobs.submit(
        "audit", options, context.clock(), principal_of(request).token.public
    )
    return RedirectResponse(f"/audits/{made}", 303)


def _number(text: str, name: str, kind: Callable[[str], Any], least: int, most: int) -> Any:
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
    return page(request, "audit.html", **_audit(request, id))


@routes.get("/audits/{id}/panel")
@allow("audit", "operate")
def audit_panel(request: Request, id: Number) -> HTMLResponse:
    return page(request, "audit_panel.html", **_audit(request, id))


def _audit(request: Request, id: int) -> dict[str, Any]:
    context = context_of(request)
    job = jobs.find(context, "audit", id)
    found = jobs.record(context, job)
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
    found = jobs.record(context, jobs.find(context, "audit", id))
    if found is None:
        raise Problem(409, "This audit has no report yet.")
    return HTMLResponse(audit_page(Report.of(found.report), context.workspace.status()))


# --- versions -----------------------------------------------------------------------------------


@routes.get("/versions")
@allow("operate", "audit")
def list_versions(
    request: Request, before: Before = None, a: Before = None, b: Before = None
) -> HTMLResponse:
    context = context_of(request)
    found = context.store.versions.find(before=before, last=PAGE + 1)[::-1]
    small = a is not None and b is not None and max(a, b) < 2**31
    compared = views.compared(context, a, b) if small and a is not None and b is not None else None
    if a is not None and b is not None and compared is None:
        raise Problem(404, "One of these versions is not there.")
    why = {d.version: d for d in context.store.decisions.find(before=before, last=PAGE + 1)}
    return page(
        request,
        "versions.html",
        shown=found[:PAGE],
        why=why,
        compared=compared,
        before=before,
        following=found[PAGE - 1].number if len(found) > PAGE else None,
        retrainings=context.jobs.find(kind="retrain", last=3)[::-1],
    )


@routes.get("/versions/export")
@allow("operate")
async def export(request: Request) -> Response:
    predictor = await context_of(request).predictors.get(request.state.seen)
    return await run_in_threadpool(versions.packed, predictor.model)


@routes.post("/retrainings")
@allow("operate")
def retrain(request: Request) -> Response:
    context = context_of(request)
    context.jobs.submit("retrain", {}, context.clock(), principal_of(request).token.public)
    return RedirectResponse("/versions", 303)


# --- what it is ---------------------------------------------------------------------------------


@routes.get("/method")
@allow(*SEES)
def method(request: Request) -> HTMLResponse:
    context = context_of(request)
    return page(request, "method.html", shown=views.method(context), policy=context.config.policy)


@routes.get("/settings")
@allow("operate", "audit")
def settings(request: Request) -> HTMLResponse:
    context = context_of(request)
    return page(
        request,
        "settings.html",
        tables=views.settings(context),
        folder=context.workspace.folder.name,
    )
