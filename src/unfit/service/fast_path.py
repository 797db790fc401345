"""The most frequent routes, found by their exact path without FastAPI's routing."""

from collections.abc import Sequence

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from unfit.errors import UnfitError
from unfit.service import problems
from unfit.service.auth import RawRoute
from unfit.service.middleware import App, Receive, Scope, Send


class FastPathMiddleware:
    """Answers raw routes, with the same access control and errors; passes on everything else."""

    def __init__(self, app: App, *, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._known = {
            (method, route.path): (route, route.get_route_handler())
            for route in routes
            if isinstance(route, RawRoute)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._known.get((scope.get("method", ""), scope.get("path", "")))
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], handle = found
        request = Request(scope, receive)
        try:
            answer = await handle(request)
        except HTTPException as problem:
            answer = problems.render(problem)
        except UnfitError as error:
            answer = problems.render(problems.for_request(request, error))
        await answer(scope, receive, send)
