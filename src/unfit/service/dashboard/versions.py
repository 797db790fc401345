"""Versions: the list, a comparison of two, the export and the retraining."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from unfit.service.auth import PageRoute, allow, principal_of
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard.formatting import difference, moment
from unfit.service.dashboard.rendering import PAGE, page
from unfit.service.paging import Before, newest_first
from unfit.service.usecases import jobs, versions
from unfit.store.records import Decision, Version

HELD_OUT = (("Majority rate", "majority"), ("AUC", "auc"), ("Log-loss", "log_loss"))
Line = tuple[str, str, str, str]  # name, first, second, difference

routes = APIRouter(route_class=PageRoute, include_in_schema=False)


@routes.get("/versions")
@allow("operate", "audit")
def list_versions(
    request: Request, before: Before = None, a: Before = None, b: Before = None
) -> HTMLResponse:
    context = context_of(request)
    found = context.store.versions.find(before=before, last=PAGE + 1)
    shown, following = newest_first(found, PAGE, "number")
    decisions = context.store.decisions.find(before=before, last=PAGE + 1)
    return page(
        request,
        "versions.html",
        shown=shown,
        why={d.version: d for d in decisions},
        compared=None if a is None or b is None else compare(context, a, b),
        before=before,
        following=following,
        retrainings=context.jobs.find(kind="retrain", last=3)[::-1],
    )


@routes.get("/versions/export")
@allow("operate")
async def export(request: Request) -> Response:
    context = context_of(request)
    predictor = await context.predictors.get(request.state.seen)
    made = await run_in_threadpool(versions.export, context, predictor.model)
    return Response(made.content, media_type="application/zip", headers=made.headers)


@routes.post("/retrainings")
@allow("operate")
def retrain(request: Request) -> Response:
    jobs.start_retraining(context_of(request), by=principal_of(request).token.public)
    return RedirectResponse("/versions", 303)


@dataclass(frozen=True)
class Comparison:
    """Two versions, fact by fact."""

    a: Version
    b: Version
    decisions: Sequence[Decision]

    @property
    def lines(self) -> list[Line]:
        a, b = self.a, self.b
        active_for = (b.activated_at - a.activated_at).total_seconds()
        held_out = [
            _numbers(
                name, getattr(a.held_out, field, None), getattr(b.held_out, field, None), ".4f"
            )
            for name, field in HELD_OUT
        ]
        return [
            ("Kind", a.kind, b.kind, ""),
            ("Method", a.method, b.method, ""),
            (
                "Active since",
                moment(a.activated_at),
                moment(b.activated_at),
                difference(active_for),
            ),
            _numbers("Rows", a.rows, b.rows, ",d"),
            _numbers("People", a.subjects, b.subjects, ",d"),
            _numbers("Rows deleted with it", a.deleted, b.deleted, ",d"),
            _numbers("Test accuracy", a.accuracy, b.accuracy, ".4f"),
            *held_out,
            _numbers("Milliseconds to the commit", 1000 * a.seconds, 1000 * b.seconds, ",.1f"),
            _numbers("Slope c", a.baseline.get("slope"), b.baseline.get("slope"), ".3f"),
        ]


def _numbers(name: str, x: float | None, y: float | None, form: str) -> Line:
    first, second = ("-" if value is None else format(value, form) for value in (x, y))
    change = "" if x is None or y is None else format(y - x, f"+{form}")
    return name, first, second, change


def compare(context: ServiceContext, a: int, b: int) -> Comparison:
    first, second = versions.find(context, a), versions.find(context, b)
    why = context.store.decisions.find(version=a) + context.store.decisions.find(version=b)
    return Comparison(first, second, why)
