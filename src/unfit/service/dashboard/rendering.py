"""Pages from templates; errors become pages too if a browser asked."""

import secrets
from functools import cache
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from unfit import __version__
from unfit.pages.certificate import in_words
from unfit.service.auth import PageRoute
from unfit.service.context import context_of
from unfit.service.dashboard import formatting

PAGE = 25  # entries of a list on one page
VIEWERS = ("operate", "audit", "erase")  # every role that sees the dashboard
NAVIGATION = (
    ("/", "Overview", VIEWERS),
    ("/erasures", "Erasures", VIEWERS),
    ("/audits", "Audits", ("audit", "operate")),
    ("/certificates", "Certificates", VIEWERS),
    ("/versions", "Versions", ("operate", "audit")),
    ("/method", "Method", VIEWERS),
    ("/settings", "Settings", ("operate", "audit")),
)
ERROR_TITLES = {
    400: "The request cannot be read",
    403: "This token may not do that",
    404: "Page not found",
    409: "Not possible now",
    410: "No longer available",
    422: "The request is invalid",
    429: "Too many requests",
    503: "Temporarily unavailable",
}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("unfit.service"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["moment"] = formatting.moment
    made.filters["number"] = lambda n: f"{n:,}"
    made.filters["ms"] = formatting.milliseconds
    made.filters["times"] = formatting.times
    made.filters["share"] = formatting.share
    made.filters["claimed"] = in_words
    made.filters["outcome"] = formatting.outcome
    made.globals["asset"] = f"?v={__version__}"
    made.globals["version_of_unfit"] = __version__
    return made


def page(request: Request, template: str, status: int = 200, **content: Any) -> HTMLResponse:
    principal = getattr(request.state, "principal", None)
    now = context_of(request).clock()
    text = (
        _templates()
        .get_template(template)
        .render(
            principal=principal,
            path=request.url.path,
            navigation=NAVIGATION,
            may=principal.may if principal else lambda *_: False,
            csrf=principal.csrf if principal else "",
            form_key=secrets.token_hex(12),
            age=lambda at: formatting.age(at, now),
            **content,
        )
    )
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


def error_page(request: Request, problem: HTTPException) -> Response | None:
    """An error as a page if a page was requested, otherwise None."""
    route = request.scope.get("route")
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not (isinstance(route, PageRoute) or (route is None and wants_page)):
        return None
    if problem.status_code == 401:
        if request.headers.get("hx-request") == "true":
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        back = request.url.path if request.method == "GET" else "/"
        return RedirectResponse(f"/sign-in?next={back}", 303)
    if not hasattr(request.state, "principal"):
        request.state.principal = None
    title = ERROR_TITLES.get(problem.status_code, "Something went wrong")
    detail = str(problem.detail)
    return page(request, "error.html", problem.status_code, title=title, detail=detail)
