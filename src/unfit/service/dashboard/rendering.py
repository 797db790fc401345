"""Pages from templates; errors as pages too, for who asked with a browser."""

import secrets
from functools import cache
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from unfit import __version__
from unfit.service.auth import PageRoute
from unfit.service.dashboard import views

NAVIGATION = (
    ("/", "Overview", ("operate", "audit", "erase")),
    ("/erasures", "Erasures", ("operate", "audit", "erase")),
    ("/audits", "Audits", ("audit", "operate")),
    ("/versions", "Versions", ("operate", "audit")),
    ("/method", "Method", ("operate", "audit", "erase")),
    ("/settings", "Settings", ("operate", "audit")),
)
SENTENCES = {
    400: "That cannot be read",
    403: "That is not for this token",
    404: "There is nothing here",
    409: "Not in this state",
    422: "That cannot be used",
    429: "Too much at once",
    503: "Not just now",
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
    made.filters["moment"] = views.moment
    made.filters["number"] = lambda n: f"{n:,}"
    made.filters["ms"] = views.milliseconds
    made.filters["times"] = lambda r: f"{r:,.0f} times" if r >= 10 else f"{r:.2g} times"
    made.filters["share"] = lambda v: "-" if v is None else f"{v:.4f}"
    made.filters["outcome"] = views.outcome_of
    made.globals["asset"] = f"?v={__version__}"
    made.globals["version_of_unfit"] = __version__
    return made


def page(request: Request, template: str, status: int = 200, **content: Any) -> HTMLResponse:
    principal = getattr(request.state, "principal", None)
    now = request.app.state.context.clock()
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
            age=lambda at: views.age(at, now),
            **content,
        )
    )
    headers = {"Cache-Control": "no-store"}
    return HTMLResponse(text, status, headers=headers)


def sign_in_page(request: Request, next: str, said: str = "", status: int = 200) -> HTMLResponse:
    return page(request, "sign_in.html", status, next=next, said=said)


def on_page(request: Request, problem: HTTPException) -> Response | None:
    """An error as a page, where a page was asked for; None where not."""
    route = request.scope.get("route")
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    ours = isinstance(route, PageRoute) or (route is None and wants_page)
    if not ours:
        return None
    lively = request.headers.get("hx-request") == "true"
    if problem.status_code == 401:
        if lively:
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        back = request.url.path if request.method == "GET" else "/"
        return RedirectResponse(f"/sign-in?next={back}", 303)
    title = SENTENCES.get(problem.status_code, "Something is wrong")
    if not hasattr(request.state, "principal"):
        request.state.principal = None
    return page(request, "error.html", problem.status_code, title=title, detail=str(problem.detail))
