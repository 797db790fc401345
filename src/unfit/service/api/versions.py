"""The model in use, its versions, and why each came to be."""

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from unfit.data.constants import explained
from unfit.service.api.common import Before, Limit, Number, context_of, page, problems, router
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
from unfit.service.problems import Problem
from unfit.service.usecases.status import read_status
from unfit.workspace.export import pack
from unfit.workspace.model import ReleasedModel
from unfit.workspace.results import audited

routes = router("model")


@routes.get("/model", summary="The model in use", responses=problems())
@allow("predict", "erase", "operate", "audit")
async def model(request: Request) -> ModelOut:
    """Its version, classes and columns: what a prediction must bring."""
    context = context_of(request)
    card = (await context.predictors.get(request.state.seen)).model.card
    version = await run_in_threadpool(context.store.versions.active)
    assert version is not None
    how = explained(card.encoding)
    return ModelOut(
        version=VersionOut.of(version),
        label=card.label,
        classes=list(card.classes),
        columns=[
            ColumnOut(name=c.column.name, kind=c.column.kind, constants=how.columns[c.column.name])
            for c in card.encoding.columns
        ],
        norm=how.norm,
    )


@routes.get("/status", summary="How things stand", responses=problems())
@allow("operate", "audit", "erase")
def status(request: Request) -> StatusOut:
    context = context_of(request)
    now = read_status(context)
    version, audit = now.version, next(iter(context.store.audits.find(last=1)), None)
    return StatusOut(
        version=version.number if version else None,
        method=version.method if version else context.config.model.method,
        remembered=version.subjects if version else 0,
        forgotten_rows=now.forgotten_rows,
        forgotten_subjects=now.forgotten_subjects,
        purge_due=now.purge_due,
        estimate=now.estimate,
        threshold=now.threshold,
        worker=now.worker,
        audit=audited(audit, version),
        retained_rows=now.retained.rows,
        retained_until=now.retained.until,
        retained_overdue_rows=now.retained.overdue_rows,
        audit_window_seconds=context.config.retention.audit_window.total_seconds(),
        **now.counts,
    )


@routes.get("/versions", summary="List versions", responses=problems())
@allow("operate", "audit")
def list_versions(request: Request, limit: Limit = 50, before: Before = None) -> VersionsOut:
    """The newest first."""
    found = context_of(request).store.versions.find(before=before, last=limit + 1)
    items, more = page(found, limit, "number")
    return VersionsOut(items=[VersionOut.of(v) for v in items], next=more)


@routes.get("/versions/{number}", summary="Read a version", responses=problems(404))
@allow("operate", "audit")
def read(request: Request, number: Number) -> VersionOut:
    found = context_of(request).store.versions.find(number=number) if number < 2**31 else []
    if not found:
        raise Problem(404, f"there is no version {number}")
    return VersionOut.of(found[0])


@routes.get(
    "/versions/{number}/export",
    summary="Take the model away",
    response_class=Response,
    responses={
        200: {
            "description": "A zip of safetensors and JSON.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        **problems(404),
    },
)
@allow("operate")
async def export(request: Request, number: Number) -> Response:
    """Only the version in use: the others are erased with the people in them."""
    model = (await context_of(request).predictors.get(request.state.seen)).model
    if model.version != number:
        raise Problem(404, f"version {number} has no model any more; {model.version} is in use")
    return await run_in_threadpool(packed, model)


def packed(model: ReleasedModel) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="unfit-{model.version}.zip"'}
    return Response(pack(model), media_type="application/zip", headers=headers)


@routes.get("/decisions", summary="List decisions", responses=problems())
@allow("operate", "audit")
def list_decisions(request: Request, limit: Limit = 50, before: Before = None) -> DecisionsOut:
    """Why each version became active; the newest first."""
    found = context_of(request).store.decisions.find(before=before, last=limit + 1)
    items, more = page(found, limit, "version")
    return DecisionsOut(items=[DecisionOut.of(d) for d in items], next=more)
