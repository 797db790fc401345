"""Health, readiness and metrics, for monitoring."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from unfit.service.api.common import problems
from unfit.service.api.schemas import HealthOut, ReadyOut
from unfit.service.auth import PUBLIC, GuardedRoute, allow
from unfit.service.context import context_of
from unfit.service.usecases import metrics as usecase

routes = APIRouter(route_class=GuardedRoute, tags=["monitoring"])


@routes.get("/health/live", summary="Check that the process is alive")
@allow(PUBLIC)
async def live() -> HealthOut:
    return HealthOut(status="ok")


@routes.get("/health/ready", summary="Check that it can answer", responses={503: problems()[503]})
@allow(PUBLIC)
async def ready(request: Request) -> ReadyOut:
    """It has a model, and everybody on the deletion list is forgotten."""
    context = context_of(request)
    predictor = await context.predictors.get(await context.changes.read())
    worker = await run_in_threadpool(context.worker_is_alive)
    return ReadyOut(status="ready", version=predictor.model.version, worker=worker)


@routes.get(
    "/metrics",
    summary="Read metrics for Prometheus",
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
    """Counters of all API processes, and gauges read from the records."""
    content = usecase.render(context_of(request))
    return Response(content, media_type="text/plain; version=0.0.4")


@routes.get("/openapi.json", include_in_schema=False)
@allow(PUBLIC)
async def openapi(request: Request) -> JSONResponse:
    return JSONResponse(request.app.openapi())
