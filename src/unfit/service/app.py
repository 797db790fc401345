"""The app of one API process: routes, access control, middleware and errors."""

import asyncio
import logging
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
from unfit.errors import UnfitError
from unfit.service import api, dashboard, problems
from unfit.service.api import schemas
from unfit.service.api.predictions import routes as fast_routes
from unfit.service.auth import PUBLIC, AccessControl, GuardedRoute
from unfit.service.context import ServiceContext
from unfit.service.dashboard.rendering import error_page
from unfit.service.event_streams import EventStreams
from unfit.service.fast_path import FastPathMiddleware
from unfit.service.log import log
from unfit.service.middleware import STATIC, RequestMiddleware

_DESCRIPTION = """\
Predictions by a linear classifier that can forget, and erasures from it. Every request except those
under /health needs a token: `Authorization: Bearer unfit_...`; `unfit token create` makes one.
Errors are problem+json. Lists are newest first; `next` leads to the next page.
"""


def make_app(folder: str | Path, *, logger: logging.Logger = log) -> FastAPI:
    context = ServiceContext.open(folder, logger)
    settings = context.config.service

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(context.heartbeat.watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        context.close()

    app = bare_app(lifespan=lifespan)
    app.state.context = context
    app.state.event_streams = EventStreams(context)
    app.state.access_control = AccessControl(
        context.tokens, context.changes, settings.rate, context.clock
    )
    app.mount(STATIC, StaticFiles(packages=[("unfit.service", "static")]), name="static")
    for kind in (HTTPException, UnfitError, RequestValidationError):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(FastPathMiddleware, routes=fast_routes.routes)
    app.add_middleware(
        RequestMiddleware,
        max_body=int(1e6 * settings.max_body_mb),
        logger=context.logger,
        metrics=context.metrics,
    )
    return app


def bare_app(**options: Any) -> FastAPI:
    """The routes and their schema, with nothing behind them."""
    app = FastAPI(
        title="unfit",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **options,
    )
    for routes in (*api.ROUTERS, *dashboard.ROUTERS):
        app.router.routes.extend(routes.routes)  # as they are: each guards itself
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    """As a page if a page was requested, otherwise as problem+json."""
    problem: HTTPException
    if isinstance(error, HTTPException):
        problem = error
    elif isinstance(error, RequestValidationError):
        problem = problems.from_validation(error)
    else:
        assert isinstance(error, UnfitError)
        problem = problems.for_request(request, error)
    return error_page(request, problem) or problems.render(problem)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's schema, with errors, the bodies of predictions, and which routes need a token."""
    if app.openapi_schema:
        return app.openapi_schema
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    components = made["components"]
    for model in (schemas.Problem, schemas.PredictionsIn, schemas.PredictionsOut):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        components["schemas"].update(schema.pop("$defs", {}))
        components["schemas"][model.__name__] = schema
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
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
