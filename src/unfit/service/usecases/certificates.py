"""Certificates: what is claimed of a release, signed; and what a person gets of it, once."""

from dataclasses import dataclass

from unfit.pages.certificate import certificate_page
from unfit.service.context import ServiceContext
from unfit.service.log import log_event
from unfit.service.usecases import erasures, versions
from unfit.service.usecases.errors import NotFound
from unfit.store.records import CertificateRecord, Request
from unfit.workspace.certificates import Certificate, NoCertificate, PersonProof


@dataclass(frozen=True, kw_only=True)
class ErasureCertificate:
    """The certificate of an erasure.

    without: why it has none, where others have. problem: what keeps its signature waiting. proof:
    the people it names can still get theirs.
    """

    certificate: Certificate | None = None
    without: str = ""
    problem: str | None = None
    proof: bool = False


def find(context: ServiceContext, number: int) -> CertificateRecord:
    """By its place in the log."""
    found = context.store.certificates.find(number=number)
    if not found:
        raise NotFound(f"there is no certificate {number}")
    return found[0]


def of_erasure(context: ServiceContext, id: int) -> CertificateRecord:
    return context.workspace.certificates.of_request(erasures.find(context, id).key)


def of_key(context: ServiceContext, key: str) -> Certificate:
    """Of the erasure with this key."""
    if not context.store.requests.find(key=key, with_items=False):
        raise NotFound(f"there is no erasure with the key {key!r}")
    return Certificate.of(context.workspace.certificates.of_request(key))


def of_version(context: ServiceContext, number: int) -> CertificateRecord:
    """The newest one; erasures of held-out people alone give a version another."""
    return context.workspace.certificates.of_version(versions.find(context, number).number)


def describe(context: ServiceContext, request: Request) -> ErasureCertificate:
    """For people."""
    certificates = context.workspace.certificates
    try:
        record = certificates.of_request(request.key)
    except NoCertificate as error:
        status = certificates.status()
        return ErasureCertificate(without=str(error) if status.promised or status.entries else "")
    return ErasureCertificate(
        certificate=Certificate.of(record),
        problem=None if record.envelope else certificates.status().problem,
        proof=certificates.can_hand_out(request),
    )


def file(
    context: ServiceContext,
    record: CertificateRecord,
    *,
    annex: bool = False,
    since: str | None = None,
) -> bytes:
    """The certificate as `unfit verify` reads it. annex: for auditors alone."""
    return context.workspace.certificates.bundle(record, annex=annex, since=since)


def page(context: ServiceContext, record: CertificateRecord) -> str:
    """The certificate as one HTML page to print."""
    head = context.workspace.certificates.head()
    return certificate_page(Certificate.of(record), (), head)


def hand_out(context: ServiceContext, id: int, *, by: str) -> PersonProof:
    """What the people of an erasure get, once. The log says who took it, and for which erasure."""
    made = context.workspace.certificates.hand_out(erasures.find(context, id).key)
    log_event(context.logger, "proof-handed-out", erasure=id, token=by)
    return made


def proof_page(context: ServiceContext, id: int, *, by: str) -> str:
    """The same as one HTML page to print."""
    record = of_erasure(context, id)
    head = context.workspace.certificates.head()
    made = hand_out(context, id, by=by)
    return certificate_page(Certificate.of(record), made.salts, head)
