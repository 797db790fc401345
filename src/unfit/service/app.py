"""The app of one API process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from unfit import __version__
from unfit.clock import now
from unfit.errors import UnfitError
from unfit.service import problems
from unfit.service.api import erasures, health, jobs, predictions, schemas, versions
from unfit.service.auth import PUBLIC, Gate, GuardedRoute
from unfit.service.change_counter import SharedChangeCounter
from unfit.service.context import ServiceContext
from unfit.service.dashboard import routes as dashboard
from unfit.service.dashboard.rendering import on_page
from unfit.service.fast_path import FastPathMiddleware
from unfit.service.log import Log
from unfit.service.metrics import Metrics
from unfit.service.middleware import STATIC, RequestMiddleware
from unfit.service.predictor import PredictorCache
from unfit.workspace import Workspace

_ABOUT = """\
Predictions by a linear classifier that can forget, and erasures from it. Every call but those on
health wants a token: `Authorization: Bearer unfit_...`; `unfit token create` makes one. Errors are
problem+json; lists come newest first, with `next` to go on.
"""


def make_app(folder: str | Path, *, log: Log | None = None) -> FastAPI:
    workspace = Workspace(folder)
    changes = SharedChangeCounter(workspace.store.change_counter())
    context = ServiceContext(
        workspace,
        changes,
        PredictorCache(workspace),
        workspace.store.tokens,
        workspace.store.jobs,
        log or Log(),
        Metrics(),
        now,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(context.heartbeat.watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        changes.close()
        workspace.close()
        context.log.close()

    app = bare_app(lifespan=lifespan)
    app.state.context = context
    app.state.event_streams = erasures.event_streams(context)
    app.state.gate = Gate(context.access, changes, workspace.config.service.rate, context.clock)
    app.mount(STATIC, StaticFiles(packages=[("unfit.service", "static")]), name="static")
    for kind in (HTTPException, UnfitError, RequestValidationError):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(FastPathMiddleware, routes=predictions.routes.routes)
    app.add_middleware(
        RequestMiddleware,
        max_body=int(1e6 * workspace.config.service.max_body_mb),
        log=context.log,
        metrics=context.metrics,
    )
    return app


def bare_app(**options: Any) -> FastAPI:
    """The routes and their schema, with nothing behind them."""
    app = FastAPI(
        title="unfit",
        version=__version__,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **options,
    )
    for module in (predictions, erasures, versions, jobs, health, dashboard):
        app.router.routes.extend(module.routes.routes)  # as they are: each is its own guard
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    """As a page to who looks at pages, as problem+json to everybody else."""
    problem: HTTPException
    if isinstance(error, HTTPException):
        problem = error
    elif isinstance(error, RequestValidationError):
        problem = problems.from_validation(error)
    else:
        assert isinstance(error, UnfitError)
        problem = problems.for_request(request, error)
    return on_page(request, problem) or problems.render(problem)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """With the errors' schema, the schemas that predictions name, and who needs a token."""
    if app.openapi_schema:
        return app.openapi_schema
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    parts = made["components"]
    for model in (schemas.Problem, schemas.PredictionsIn, schemas.PredictionsOut):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        parts["schemas"].update(schema.pop("$defs", {}))
        parts["schemas"][model.__name__] = schema
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for route in guarded_routes(app):
        for method in route.methods or ():
            operation = made["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None and route.rule != {PUBLIC}:
                operation["security"] = [{"token": []}]
    app.openapi_schema = made
    return made


def guarded_routes(app: FastAPI) -> list[GuardedRoute]:
    """Every route with its rule."""
    return [route for route in app.routes if isinstance(route, GuardedRoute)]
