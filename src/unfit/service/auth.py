"""Who may do what. Everything is denied by default: a route without a rule cannot be created.

`@allow(...)` names the roles of a route; `GuardedRoute` checks them before the request is read,
except for the small body of a prediction. The API takes bearer tokens and no cookies, the dashboard
session cookies and no bearer tokens.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from unfit.service.change_counter import SharedChangeCounter
from unfit.service.json_bodies import StrictRequest
from unfit.service.problems import Problem
from unfit.service.roles import ROLES
from unfit.store.records import Token
from unfit.store.tokens import Tokens

PUBLIC = "public"
COOKIE, CSRF_FIELD, CSRF_HEADER = "unfit_session", "csrf", "x-csrf-token"
MAX_UNCHECKED_BYTES = 64 * 1024  # of a body, read before it is known who sent it
_RULE = "__unfit_rule__"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def allow(*roles: str) -> Callable[[Endpoint], Endpoint]:
    """Let these roles, and admin, use an endpoint; PUBLIC lets everybody use it."""
    if roles != (PUBLIC,) and not (roles and set(roles) <= ROLES.keys()):
        raise ValueError(f"{roles} are not roles; allow PUBLIC or some of {sorted(ROLES)}")

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _RULE, frozenset(roles) if roles == (PUBLIC,) else {*roles, "admin"})
        return endpoint

    return mark


@dataclass(frozen=True)
class Principal:
    """Who sent a request."""

    token: Token
    session: str | None = None

    @property
    def csrf(self) -> str:
        """The token that a form of this session must contain."""
        secret = (self.session or "").encode()
        return hmac.new(secret, b"unfit-csrf", hashlib.sha256).hexdigest()

    def may(self, *roles: str) -> bool:
        return bool(self.token.roles & {*roles, "admin"})


class AccessControl:
    """Admits requests; caches tokens until a token or session changes in any process."""

    def __init__(
        self,
        tokens: Tokens,
        changes: SharedChangeCounter,
        rate: float,
        clock: Callable[[], datetime],
    ):
        self._tokens, self._changes, self._rate, self._clock = tokens, changes, rate, clock
        self._known: dict[tuple[str, str], tuple[Token, datetime | None]] = {}
        self._as_of: tuple[object, ...] | None = None
        self._buckets: dict[int, tuple[float, float]] = {}

    async def admit(self, request: Request, rule: frozenset[str], by_cookie: bool) -> None:
        """Set request.state.principal and .seen, or raise."""
        state = request.state
        state.principal, state.access = None, "public" if rule == {PUBLIC} else "denied"
        if rule == {PUBLIC}:
            return
        state.seen = await self._changes.read()
        if state.seen[1:] != self._as_of:
            self._known.clear()
            self._as_of = state.seen[1:]
        principal = await (self._by_cookie if by_cookie else self._by_bearer)(request)
        state.principal = principal
        self._within_rate(principal.token)
        if not principal.token.roles & rule:
            needed = " or ".join(f"'{role}'" for role in sorted(rule - {"admin"}))
            raise Problem(403, f"This token lacks the role {needed}.")
        state.access = "granted"

    async def _by_bearer(self, request: Request) -> Principal:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        found = None
        if scheme.lower() == "bearer" and 0 < len(text) < 200:
            found = self._known.get(("bearer", text))
            if found is None:
                token = await run_in_threadpool(self._tokens.by_text, text)
                if token is not None:
                    found = (token, None)
                    self._remember(request, ("bearer", text), found)
        if found is None:
            detail = "A valid token is required: Authorization: Bearer unfit_..."
            raise Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="unfit"'})
        return Principal(found[0])

    async def _by_cookie(self, request: Request) -> Principal:
        secret = request.cookies.get(COOKIE, "")
        found = self._known.get(("session", secret))
        if found is None and 0 < len(secret) < 200:
            found = await run_in_threadpool(self._tokens.by_session, secret)
            if found is not None:
                self._remember(request, ("session", secret), found)
        if found is None or (found[1] is not None and found[1] <= self._clock()):
            raise Problem(401, "Sign in with a token.")
        return Principal(found[0], secret)

    def _remember(
        self, request: Request, key: tuple[str, str], found: tuple[Token, datetime | None]
    ) -> None:
        """Unless something has changed since this request arrived: it may have been this token."""
        if request.state.seen[1:] == self._as_of:
            self._known[key] = found

    def _within_rate(self, token: Token) -> None:
        """A token bucket that holds two seconds' worth of requests."""
        now, most = time.monotonic(), max(1.0, 2 * self._rate)
        level, at = self._buckets.get(token.id, (most, now))
        level = min(most, level + (now - at) * self._rate)
        if level < 1:
            self._buckets[token.id] = (level, now)
            wait = max(1, round((1 - level) / self._rate))
            raise Problem(
                429,
                f"This token may send {self._rate:g} requests per second (service.rate).",
                headers={"Retry-After": str(wait)},
            )
        self._buckets[token.id] = (level - 1, now)


class GuardedRoute(APIRoute):
    """A route of the API, used with a bearer token."""

    by_cookie = False

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        rule = getattr(endpoint, _RULE, None)
        if rule is None:
            raise TypeError(f"the route {path} needs a rule that says who may use it: @allow(...)")
        self.rule: frozenset[str] = frozenset(rule)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        changes = bool((self.methods or set()) - {"GET", "HEAD"})
        form_checked = self.by_cookie and changes and self.rule != {PUBLIC}

        async def guarded(request: Request) -> Response:
            await request.app.state.access_control.admit(request, self.rule, self.by_cookie)
            if form_checked:
                await _check_csrf(request)
            if not self.by_cookie:
                request = StrictRequest(request.scope, request.receive)
            return await handle(request)

        return guarded


class RawRoute(GuardedRoute):
    """A route whose endpoint takes the request and returns the response, without FastAPI."""

    def get_route_handler(self) -> Handler:
        rule, endpoint = self.rule, self.endpoint

        async def guarded(request: Request) -> Response:
            length = request.headers.get("content-length", "")
            request.state.whole = length.isdigit() and int(length) <= MAX_UNCHECKED_BYTES
            if request.state.whole:  # so that changes are read after the whole request has arrived
                await request.body()
            await request.app.state.access_control.admit(request, rule, False)
            answer: Response = await endpoint(request)
            return answer

        return guarded


class PageRoute(GuardedRoute):
    """A page of the dashboard, used with a session cookie; forms need the session's CSRF token."""

    by_cookie = True


async def _check_csrf(request: Request) -> None:
    given = request.headers.get(CSRF_HEADER)
    if given is None:
        form = await request.form(max_files=0, max_fields=50)
        given = str(form.get(CSRF_FIELD, ""))
    if not hmac.compare_digest(given.encode(), principal_of(request).csrf.encode()):
        request.state.access = "denied"
        raise Problem(
            403, "This form does not belong to your session. Reload the page and try again."
        )


def require_role(request: Request, role: str) -> None:
    """For what only some of those may have who may use an endpoint."""
    if not principal_of(request).may(role):
        request.state.access = "denied"
        raise Problem(403, f"This token lacks the role '{role}'.")


def principal_of(request: Request) -> Principal:
    found = request.state.principal
    assert isinstance(found, Principal)
    return found
