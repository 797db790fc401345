"""Erasures and look-ups of people: pages, forms and events."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from unfit.data.ids import id_list
from unfit.errors import BadInput, UnfitError
from unfit.service.auth import PageRoute, allow, principal_of
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard.rendering import PAGE, VIEWERS, page
from unfit.service.event_streams import streams_of
from unfit.service.paging import Before, Number, newest_first
from unfit.service.usecases import certificates, erasures, lookup
from unfit.service.usecases.certificates import ErasureCertificate
from unfit.service.usecases.erasures import Erasure
from unfit.store.records import Decision, RequestState, Version
from unfit.store.records import Request as ErasureRequest

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, kw_only=True)
class ErasureView:
    """An erasure with the versions before and after it."""

    request: ErasureRequest
    decision: Decision | None
    before: Version | None
    after: Version | None
    certified: ErasureCertificate | None = None  # where a single erasure is shown

    @property
    def seconds_to_effect(self) -> float | None:
        r = self.request
        return None if r.applied_at is None else (r.applied_at - r.submitted_at).total_seconds()


def view(context: ServiceContext, request: ErasureRequest) -> ErasureView:
    store = context.store
    decision = store.decisions.on(request)
    before = after = None
    if request.version is not None:
        after = next(iter(store.versions.find(number=request.version)), None)
        if decision is not None:
            before = next(iter(store.versions.find(number=request.version - 1)), None)
    return ErasureView(request=request, decision=decision, before=before, after=after)


@routes.get("/erasures")
@allow(*VIEWERS)
def list_erasures(request: Request, state: str = "", before: Before = None) -> HTMLResponse:
    return _list(request, state if state in get_args(RequestState) else "", before)


def _list(
    request: Request, state: str = "", before: int | None = None, status: int = 200, **more: Any
) -> HTMLResponse:
    context = context_of(request)
    found = context.store.requests.find(
        state=state or None, before=before, last=PAGE + 1, with_items=False
    )
    items, following = newest_first(found, PAGE, "id")
    return page(
        request,
        "erasures.html",
        status,
        shown=[view(context, r) for r in items],
        state=state,
        following=following,
        before=before,
        counts=context.store.requests.counts(),
        **({"error": "", "person": None} | more),
    )


@routes.post("/erasures")
@allow("erase")
def submit(
    request: Request,
    ids: Annotated[str, Form(max_length=1_000_000)] = "",
    kind: Annotated[str, Form()] = "subject",
    written: Annotated[str, Form()] = "lines",
    key: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """One id per line, or a JSON list. The form's key makes a second click the same request."""
    context, by = context_of(request), principal_of(request).token.public
    try:
        named = id_list(ids, "json" if written == "json" else "lines", "The field")
        subjects, rows = (named, []) if kind == "subject" else ([], named)
        made = erasures.submit(context, subjects, rows, key=key or None, by=by)
        near = lookup.find_near_spellings(context, subjects, rows)
    except UnfitError as error:
        status = 422 if isinstance(error, BadInput) else 503
        return _list(request, status=status, error=str(error), typed=ids)
    if near:  # shown only now, to the person who typed the ids: they are stored nowhere
        return page(request, "erasure.html", shown=view(context, made), near=near)
    return RedirectResponse(f"/erasures/{made.id}", 303)


@routes.post("/people")
@allow("erase")
def look_up(request: Request, subject: Annotated[str, Form(max_length=512)] = "") -> HTMLResponse:
    """By POST, so that no address and no log of addresses contains the id."""
    if not subject.strip() or "\0" in subject:
        return _list(request, status=422, lookup_error="Enter the id of a person.")
    person = lookup.look_up(context_of(request), subject)
    return _list(request, person=person, sought=subject)


@routes.get("/erasures/{id}")
@allow(*VIEWERS)
def erasure(request: Request, id: Number) -> HTMLResponse:
    return page(request, "erasure.html", shown=_find(request, id))


@routes.get("/erasures/{id}/panel")
@allow(*VIEWERS)
def erasure_panel(request: Request, id: Number) -> HTMLResponse:
    return page(request, "erasure_panel.html", shown=_find(request, id))


@routes.get("/erasures/{id}/events")
@allow(*VIEWERS)
async def erasure_events(request: Request, id: Number) -> StreamingResponse:
    first = await run_in_threadpool(erasures.find, context_of(request), id)
    return streams_of(request).respond(request, Erasure(first), _encode)


@routes.post("/erasures/{id}/cancel")
@allow("erase")
def cancel(request: Request, id: Number) -> Response:
    erasures.cancel(context_of(request), id)
    return RedirectResponse(f"/erasures/{id}", 303)


def _find(request: Request, id: int) -> ErasureView:
    context = context_of(request)
    found = erasures.find(context, id)
    certified = certificates.describe(context, found) if found.state == "applied" else None
    return replace(view(context, found), certified=certified)


def _encode(erasure: Erasure) -> str:
    """What static/app.js needs to know."""
    return json.dumps({"id": erasure.request.id, "state": erasure.request.state})
