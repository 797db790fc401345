"""For those who watch over the service."""

import os

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from unfit.service.api.common import context_of, problems
from unfit.service.api.schemas import HealthOut, ReadyOut
from unfit.service.auth import PUBLIC, GuardedRoute, allow
from unfit.service.usecases.status import read_status

routes = APIRouter(route_class=GuardedRoute, tags=["watching"])


@routes.get("/health/live", summary="Is the process there?")
@allow(PUBLIC)
async def live() -> HealthOut:
    return HealthOut(status="ok")


@routes.get("/health/ready", summary="Can it answer?", responses={503: problems()[503]})
@allow(PUBLIC)
async def ready(request: Request) -> ReadyOut:
    """With a model, and everybody on the deletion list forgotten."""
    context = context_of(request)
    predictor = await context.predictors.get(await context.changes.read())
    worker = await run_in_threadpool(context.worker_lives)
    return ReadyOut(status="ready", version=predictor.model.version, worker=worker)


@routes.get(
    "/metrics",
    summary="For Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(),
    },
)
@allow("operate")
def metrics(request: Request) -> Response:
    """Counters of all API processes, and gauges from the records."""
    context = context_of(request)
    now = read_status(context)
    version = now.version
    gauges: dict[str, tuple[str, float | None]] = {
        "unfit_pending": ("Erasures that wait.", now.counts["pending"]),
        "unfit_unmatched": ("Erasures that matched nobody.", now.counts["unmatched"]),
        "unfit_applied": ("Erasures in force.", now.counts["applied"]),
        "unfit_forgotten_rows": ("Rows forgotten, of training and held-out.", now.forgotten_rows),
        "unfit_forgotten_subjects": ("Subjects forgotten.", now.forgotten_subjects),
        "unfit_version": ("The version in use; 0: none.", version.number if version else 0),
        "unfit_accuracy": ("Accuracy on the held-out rows.", version.accuracy if version else None),
        "unfit_disparity_estimate_percent": (
            "Estimated disparity at the last decision, percent.",
            now.estimate,
        ),
        "unfit_disparity_threshold_percent": ("policy.disparity, percent.", now.threshold),
        "unfit_worker": ("Whether a worker is at its place.", float(now.worker)),
        "unfit_purge_due": ("Bytes remain that are to go.", float(now.purge_due)),
        "unfit_retained_rows": ("Deleted rows kept for audits.", now.retained.rows),
        "unfit_retained_overdue_rows": (
            "Kept longer than audit_window.",
            now.retained.overdue_rows,
        ),
    }
    content = context.metrics.render("PROMETHEUS_MULTIPROC_DIR" in os.environ, gauges)
    return Response(content, media_type="text/plain; version=0.0.4")


@routes.get("/openapi.json", include_in_schema=False)
@allow(PUBLIC)
async def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())
