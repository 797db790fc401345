"""The active model, its versions, and why each became active."""

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from unfit.data.explained import explained
from unfit.service.api.common import problems, router
from unfit.service.api.schemas import (
    ColumnOut,
    DecisionOut,
    DecisionsOut,
    ModelOut,
    StatusOut,
    VersionOut,
    VersionsOut,
)
from unfit.service.auth import allow
from unfit.service.context import context_of
from unfit.service.paging import Before, Limit, Number, newest_first
from unfit.service.usecases import versions
from unfit.service.usecases.errors import NotFound
from unfit.service.usecases.status import read_status

routes = router("model")


@routes.get("/model", summary="Describe the active model", responses=problems())
@allow("predict", "erase", "operate", "audit")
async def model(request: Request) -> ModelOut:
    """Its version, classes and columns, which are the fields that a prediction needs."""
    context = context_of(request)
    card = (await context.predictors.get(request.state.seen)).model.card
    version = await run_in_threadpool(context.store.versions.active)
    assert version is not None
    how = explained(card.encoding)
    columns = [encoded.column for encoded in card.encoding.columns]
    return ModelOut(
        version=VersionOut.of(version),
        label=card.label,
        classes=list(card.classes),
        columns=[
            ColumnOut(name=c.name, kind=c.kind, constants=how.columns[c.name]) for c in columns
        ],
        norm=how.norm,
    )


@routes.get("/status", summary="Read the status", responses=problems())
@allow("operate", "audit", "erase")
def status(request: Request) -> StatusOut:
    """The active version, counts of erasures, the estimated disparity, and what is due."""
    return StatusOut.of(read_status(context_of(request)))


@routes.get("/versions", summary="List versions", responses=problems())
@allow("operate", "audit")
def list_versions(request: Request, limit: Limit = 50, before: Before = None) -> VersionsOut:
    """Newest first."""
    found = context_of(request).store.versions.find(before=before, last=limit + 1)
    items, more = newest_first(found, limit, "number")
    return VersionsOut(items=[VersionOut.of(v) for v in items], next=more)


@routes.get("/versions/{number}", summary="Read a version", responses=problems(404))
@allow("operate", "audit")
def read(request: Request, number: Number) -> VersionOut:
    """Its rows, its accuracy, and how long it took to make."""
    return VersionOut.of(versions.find(context_of(request), number))


@routes.get(
    "/versions/{number}/export",
    summary="Export the active model",
    response_class=Response,
    responses={
        200: {
            "description": "A zip of safetensors and JSON, with the certificate if there is one.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        **problems(404),
    },
)
@allow("operate")
async def export(request: Request, number: Number) -> Response:
    """Only the active version: the files of earlier ones are purged with the people in them."""
    context = context_of(request)
    model = (await context.predictors.get(request.state.seen)).model
    if model.version != number:
        raise NotFound(f"version {number} has no model any more; version {model.version} is active")
    made = await run_in_threadpool(versions.export, context, model)
    return Response(made.content, media_type="application/zip", headers=made.headers)


@routes.get("/decisions", summary="List decisions", responses=problems())
@allow("operate", "audit")
def list_decisions(request: Request, limit: Limit = 50, before: Before = None) -> DecisionsOut:
    """Why each version became active; newest first."""
    found = context_of(request).store.decisions.find(before=before, last=limit + 1)
    items, more = newest_first(found, limit, "version")
    return DecisionsOut(items=[DecisionOut.of(d) for d in items], next=more)
