"""Certificates: the log, what waits for a signature, the budget of releases, and downloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from unfit.service.auth import PageRoute, allow, principal_of, require_role
from unfit.service.context import ServiceContext, context_of
from unfit.service.dashboard import charts
from unfit.service.dashboard.charts import Chart
from unfit.service.dashboard.rendering import PAGE, VIEWERS, page
from unfit.service.paging import Before, Number, newest_first
from unfit.service.problems import Problem
from unfit.service.usecases import certificates
from unfit.workspace.certificates import Certificate, LogHead
from unfit.workspace.results import CertificateStatus

routes = APIRouter(route_class=PageRoute, include_in_schema=False)
Place = Annotated[int, Path(ge=0, lt=2**63)]
_NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, kw_only=True)
class LogView:
    """The log for people. budget: the joint mu above which the policy retrains, if it does."""

    status: CertificateStatus
    head: LogHead
    budget: float | None
    chart: Chart | None
    shown: Sequence[Certificate]
    following: int | None


def read_log(context: ServiceContext, before: int | None) -> LogView:
    found, policy = context.workspace.certificates, context.config.policy
    budget = getattr(policy, "budget", None) if "budget" in policy.retrain_when else None
    shown, following = newest_first(found.find(before=before, last=PAGE + 1), PAGE, "number")
    return LogView(
        status=found.status(),
        head=found.head(),
        budget=budget,
        chart=charts.joint_mu(found.find(last=charts.SHOWN), budget),
        shown=shown,
        following=following,
    )


@routes.get("/certificates")
@allow(*VIEWERS)
def list_certificates(request: Request, before: Before = None) -> HTMLResponse:
    log = read_log(context_of(request), before)
    return page(request, "certificates.html", log=log, before=before)


@routes.get("/certificates/log")
@allow("operate", "audit")
def export_log(request: Request) -> StreamingResponse:
    """The whole log, as `unfit verify --log` reads it."""
    lines = context_of(request).workspace.certificates.export()
    return StreamingResponse(
        lines, media_type="application/x-ndjson", headers=_attachment("log.jsonl")
    )


@routes.get("/certificates/{number}/file")
@allow(*VIEWERS)
def download(request: Request, number: Place, annex: bool = False) -> Response:
    """What `unfit verify` reads. annex: for auditors alone."""
    if annex:
        require_role(request, "audit")
    context = context_of(request)
    content = certificates.file(context, certificates.find(context, number), annex=annex)
    name = f"certificate-{number}{'-annex' if annex else ''}.json"
    return Response(content, media_type="application/json", headers=_attachment(name))


@routes.get("/certificates/{number}/page")
@allow(*VIEWERS)
def print_page(request: Request, number: Place) -> HTMLResponse:
    """The certificate as one page to print."""
    context = context_of(request)
    return HTMLResponse(certificates.page(context, certificates.find(context, number)))


@routes.post("/erasures/{id}/proof")
@allow("erase")
def hand_out(
    request: Request, id: Number, confirmed: Annotated[str, Form(max_length=10)] = ""
) -> HTMLResponse:
    """The proof of the people an erasure names, as one page to print. It is shown once."""
    if confirmed != "yes":
        raise Problem(422, "Confirm that you hand the proof out now: it is shown once.")
    by = principal_of(request).token.public
    made = certificates.proof_page(context_of(request), id, by=by)
    return HTMLResponse(made, headers=_NO_STORE)


def _attachment(name: str) -> dict[str, str]:
    return _NO_STORE | {"Content-Disposition": f'attachment; filename="{name}"'}
