"""Signing in and out."""

import re
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from unfit.service.auth import COOKIE, PUBLIC, PageRoute, allow, principal_of
from unfit.service.context import context_of
from unfit.service.dashboard.rendering import VIEWERS, page
from unfit.service.log import log_event

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@routes.get("/sign-in")
@allow(PUBLIC)
def sign_in_form(request: Request, next: str = "/") -> HTMLResponse:
    return _form(request, _local(next))


@routes.post("/sign-in")
@allow(PUBLIC)
def sign_in(
    request: Request,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=500)] = "/",
) -> Response:
    context = context_of(request)
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return _form(request, "/", "Please sign in on this page.", 403)
    found = context.tokens.by_text(token.strip())
    if found is None:
        return _form(request, _local(next), "This token is unknown or was revoked.", 401)
    if not found.roles & {*VIEWERS, "admin"}:
        error = "This token may only request predictions. The dashboard needs another role."
        return _form(request, _local(next), error, 403)
    duration = context.config.service.sign_in
    secret = context.tokens.sign_in(found, context.clock(), duration)
    log_event(context.logger, "signed-in", token=found.public)
    response = RedirectResponse(_local(next), 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(duration.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )
    return response


@routes.post("/sign-out")
@allow(*VIEWERS)
def sign_out(request: Request) -> Response:
    context_of(request).tokens.sign_out(principal_of(request).session or "")
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


def _form(request: Request, next: str, error: str = "", status: int = 200) -> HTMLResponse:
    return page(request, "sign_in.html", status, next=next, error=error)


def _local(path: str) -> str:
    """A path of this service, never another host."""
    return path if re.fullmatch(r"/(?![/\\])[\w\-/.?=&]*", path) else "/"
