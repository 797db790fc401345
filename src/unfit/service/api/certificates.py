"""Certificates of erasures and versions, their log, and the proof of a person."""

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from unfit.service.api.common import problems, router
from unfit.service.api.schemas import (
    CertificateOut,
    CertificatesOut,
    GrowthIn,
    GrowthOut,
    KeysOut,
    LogOut,
    ProofOut,
)
from unfit.service.auth import allow, principal_of, require_role
from unfit.service.context import context_of
from unfit.service.paging import Before, Limit, Number, newest_first
from unfit.service.usecases import certificates
from unfit.store.records import CertificateRecord

routes = router("certificates")
Place = Annotated[int, Path(ge=0, lt=2**63)]
Key = Annotated[
    str | None,
    Query(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$", description="Of an erasure."),
]
Annex = Annotated[
    bool,
    Query(description="With the figures for an auditor, which depend on the rows (role audit)."),
]
Since = Annotated[
    str | None,
    Query(
        max_length=2000,
        description="A checkpoint that the caller holds: with the proof that the log has only "
        "grown since.",
    ),
]
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The certificate, its place in the log and the proof of that; exactly these "
        "bytes are checked by `unfit verify`.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    **problems(404, 409),
}


@routes.get("/certificates", summary="List certificates", responses=problems(404))
@allow("erase", "audit", "operate")
def list_certificates(
    request: Request, key: Key = None, limit: Limit = 50, before: Before = None
) -> CertificatesOut:
    """Newest first; or the one that the erasure with a key led to."""
    context = context_of(request)
    if key is not None:
        found = [certificates.of_key(context, key)]
    else:
        found = context.workspace.certificates.find(before=before, last=limit + 1)
    items, more = newest_first(found, limit, "number")
    return CertificatesOut(items=[CertificateOut.of(one) for one in items], next=more)


@routes.get(
    "/certificates/{number}",
    summary="Read a certificate",
    response_class=Response,
    responses=_FILE,
)
@allow("erase", "audit", "operate")
def read(request: Request, number: Place, annex: Annex = False, since: Since = None) -> Response:
    """By its place in the log, from 0. 409 while it waits for a signature."""
    return _file(request, certificates.find(context_of(request), number), annex, since)


@routes.get(
    "/erasures/{id}/certificate",
    summary="Read the certificate of an erasure",
    response_class=Response,
    responses=_FILE,
)
@allow("erase", "audit", "operate")
def of_erasure(request: Request, id: Number, annex: Annex = False, since: Since = None) -> Response:
    """Erasures that were applied together share it. It names nobody."""
    return _file(request, certificates.of_erasure(context_of(request), id), annex, since)


@routes.get(
    "/versions/{number}/certificate",
    summary="Read the certificate of a version",
    response_class=Response,
    responses=_FILE,
)
@allow("operate", "audit")
def of_version(
    request: Request, number: Number, annex: Annex = False, since: Since = None
) -> Response:
    """The newest one of that version."""
    return _file(request, certificates.of_version(context_of(request), number), annex, since)


def _file(request: Request, record: CertificateRecord, annex: bool, since: str | None) -> Response:
    if annex:
        require_role(request, "audit")
    content = certificates.file(context_of(request), record, annex=annex, since=since)
    return Response(content, media_type="application/json")


@routes.post(
    "/erasures/{id}/proof",
    summary="Hand out the proof of a person",
    responses=problems(404, 409, 410),
)
@allow("erase")
def hand_out(request: Request, response: Response, id: Number) -> ProofOut:
    """What the people of an erasure get, once: the salts that open the commitments to their ids in
    the certificate. They are removed here before they are answered; a second call is answered
    410."""
    response.headers["Cache-Control"] = "no-store"
    by = principal_of(request).token.public
    return ProofOut.of(certificates.hand_out(context_of(request), id, by=by))


@routes.get("/log", summary="Read the head of the log", responses=problems())
@allow("erase", "audit", "operate")
def head(request: Request) -> LogOut:
    """Its size, its root and the signed checkpoint; what waits for a signature, and why."""
    return LogOut.of(context_of(request).workspace.certificates.head())


@routes.get(
    "/log/export",
    summary="Export the log",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Lines of JSON: a head, every signed certificate, the checkpoint.",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        },
        **problems(409),
    },
)
@allow("audit", "operate")
def export(request: Request) -> StreamingResponse:
    """As `unfit verify --log` reads it. An answer that was cut short lacks its last line."""
    lines = context_of(request).workspace.certificates.export()
    return StreamingResponse(lines, media_type="application/x-ndjson")


@routes.post("/log/growth", summary="Prove that the log has only grown", responses=problems(409))
@allow("erase", "audit", "operate")
def prove_growth(request: Request, body: GrowthIn) -> GrowthOut:
    """Since a checkpoint that the caller holds."""
    found = context_of(request).workspace.certificates.growth_since(body.checkpoint)
    return GrowthOut(**found)


@routes.get("/log/keys", summary="Read the public keys", responses=problems())
@allow("erase", "audit", "operate")
def keys(request: Request) -> KeysOut:
    """Those that signed certificates, the one in use last."""
    found = context_of(request).workspace.certificates.public_keys()
    return KeysOut(keys=[key.text for key in found])
