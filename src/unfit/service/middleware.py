"""Around every request: limits on its body, security headers, the log and the metrics.

RawRoute ASGI, so that it costs microseconds.
"""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect

from unfit.service.log import failed_in, log_event
from unfit.service.metrics import Metrics
from unfit.service.problems import Problem, render

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_SECONDS = 20.0
CLIENT_CLOSED = 499  # in the log: the client left before it was answered
STATIC = "/static"  # styles and scripts: the only path without a rule, open to everybody
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
        b"data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    ),
]


class RequestMiddleware:
    def __init__(
        self, app: App, *, max_body: int, logger: logging.Logger, metrics: Metrics
    ) -> None:
        self._app, self._max_body = app, max_body
        self._logger, self._metrics = logger, metrics
        self._prefix, self._numbers = os.urandom(4).hex(), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, begun = 500, False
        scope.setdefault("state", {})
        request_id = f"{self._prefix}{next(self._numbers):08x}"

        async def answer(message: MutableMapping[str, Any]) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                own = [(b"x-request-id", request_id.encode()), *_HEADERS]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        failure = None
        try:
            declared = _declared(scope)
            if declared is not None and declared > self._max_body:
                raise _too_large(self._max_body)
            await self._app(scope, _Limited(receive, self._max_body), answer)
        except Problem as problem:  # from the limits below, outside the app's own handlers
            if not begun:
                await render(problem)(scope, receive, answer)
        except (ClientDisconnect, ConnectionError):
            status = CLIENT_CLOSED
        except Exception as error:
            failure = failed_in(error)
            if begun:
                raise
            await render(Problem(500, "Internal error. The log of the service says more."))(
                scope, receive, answer
            )
        finally:
            self._record(scope, status, time.perf_counter() - started, request_id, failure)

    def _record(
        self, scope: Scope, status: int, seconds: float, request_id: str, failure: str | None
    ) -> None:
        state = scope.get("state") or {}
        public = scope["path"].startswith(STATIC + "/")
        route = getattr(scope.get("route"), "path", None) or (STATIC if public else "(none)")
        principal = state.get("principal")
        self._metrics.request(scope["method"], route, status, seconds)
        facts: dict[str, Any] = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "request": request_id,
            "token": principal.token.public if principal else None,
            "access": "public" if public else state.get("access", "none"),
        }
        if failure is not None:
            facts["failure"] = failure
        if "trouble" in state:
            facts["trouble"] = state["trouble"]
        log_event(self._logger, "request", **facts)


class _Limited:
    """The body of a request, limited in size and time."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._got, self._complete, self._until = 0, False, 0.0

    async def __call__(self) -> MutableMapping[str, Any]:
        if self._complete:  # what follows is the client's disconnection
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._until = self._until or loop.time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                408,
                f"The body did not arrive within {BODY_SECONDS:g} seconds.",
                headers={"Connection": "close"},
            ) from None
        self._got += len(message.get("body", b""))
        if self._got > self._most:
            raise _too_large(self._most)
        self._complete = not message.get("more_body", False)
        return message


def _declared(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 1 << 62
    return None


def _too_large(most: int) -> Problem:
    return Problem(
        413,
        f"The body is larger than {most / 1e6:g} MB (service.max_body_mb). Send less per request.",
        headers={"Connection": "close"},
    )
