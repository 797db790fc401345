"""Certificates to hand on: a certificate with its proof, the log, and the proof of one person.

Reading needs no lock. What a person gets, the salts that open the commitments to their ids, is
handed out once: it is removed here before it is given away.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from unfit.certify.bundle import bundle, export_lines
from unfit.certify.envelope import seal
from unfit.certify.keys import PublicKey
from unfit.certify.log import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    open_checkpoint,
    proof_text,
)
from unfit.certify.statement import Claim, parse_statement
from unfit.certify.verify import ANNEX_TYPE
from unfit.errors import BadInput, Unavailable
from unfit.store.records import CertificateRecord, Request
from unfit.workspace.reader import WorkspaceReader


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """One entry of the log, for people. kind: what it is about; signed: it has its place."""

    number: int
    version: int
    kind: str
    at: datetime
    claim: Claim
    sha256: str  # of the released model, model.safetensors of `unfit export`
    signed: bool

    @classmethod
    def of(cls, record: CertificateRecord) -> "Certificate":
        claim, (subject,) = parse_statement(record.statement.encode())
        return cls(
            number=record.number,
            version=record.version,
            kind=record.kind,
            at=record.at,
            claim=claim,
            sha256=subject.sha256,
            signed=record.envelope is not None,
        )

    def as_dict(self) -> dict[str, Any]:
        claim = asdict(self.claim)
        return asdict(self) | {"at": self.at.isoformat(), "claim": claim}


@dataclass(frozen=True, kw_only=True)
class LogHead:
    """Where the log stands. waiting: certificates that have no signature, and why."""

    entries: int
    waiting: int
    problem: str | None
    root: str | None
    checkpoint: str | None
    joint_mu: float
    joint_epsilon: float
    keys: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class PersonProof:
    """What the people of one request get: the certificate, and what opens their commitments."""

    certificate: bytes
    salts: Sequence[tuple[str, str]]  # salt and commitment, one for each id

    def as_dict(self) -> dict[str, Any]:
        return {
            "certificate": self.certificate.decode(),
            "salts": [{"salt": salt, "commitment": of} for salt, of in self.salts],
        }


class Certificates:
    """The certificates of one workspace."""

    def __init__(self, reader: WorkspaceReader) -> None:
        self._records, self._requests = reader.store.certificates, reader.store.requests
        self._key_file, self._reader = reader.key_file, reader

    def find(self, *, version: int | None = None, last: int | None = None) -> list[Certificate]:
        """In the order of the log; the last so many."""
        return [Certificate.of(one) for one in self._records.find(version=version, last=last)]

    def of_request(self, key: str) -> CertificateRecord:
        """The certificate that a request led to."""
        found = self._requests.find(key=key)
        if not found:
            raise BadInput(f"there is no erasure with the key {key!r}")
        record = self._of(found[0])
        if record is None:
            raise Unavailable(f"the erasure {key!r} has no certificate: {self._why_none(found[0])}")
        return record

    def _of(self, request: Request) -> CertificateRecord | None:
        if request.version is None or request.applied_at is None:
            return None
        of_version = self._records.find(version=request.version)
        return next((one for one in of_version if one.at == request.applied_at), None)

    def _why_none(self, request: Request) -> str:
        if request.state != "applied":
            return f"it is {request.state}"
        return "it forgot nobody, or certificates were not made yet (certify.epsilon)"

    def bundle(
        self, record: CertificateRecord, *, annex: bool = False, since: str | None = None
    ) -> bytes:
        """The certificate's file. annex: with the figures for an auditor, which depend on the rows;
        they are sealed with the key in use. since: an older checkpoint that the reader holds."""
        signed = self._records.find(signed=True)
        if record.envelope is None or not signed:
            raise Unavailable(f"certificate {record.number} waits for a signature: {self._wait()}")
        head, leaves = signed[-1], self._leaves()
        assert head.checkpoint is not None
        path = inclusion_proof(record.number, leaves)
        sealed = None
        if annex and record.annex is not None:
            sealed = seal(ANNEX_TYPE, record.annex.encode(), self._key_file.require())
        return bundle(
            record.envelope.encode(),
            proof_text(record.number, path, head.checkpoint),
            sealed,
            None if since is None else self._growth(since, leaves),
        )

    def _growth(self, since: str, leaves: list[bytes]) -> tuple[int, bytes, list[bytes]]:
        """The proof that the log has only grown since a checkpoint."""
        old = open_checkpoint(since, self._key_file.public_keys())
        return old.size, old.root, consistency_proof(old.size, leaves)

    def head(self) -> LogHead:
        """Where the log stands now."""
        entries, waiting = self._records.count()
        last, signed = self._records.last(), self._records.find(signed=True, last=1)
        head = signed[0] if signed else None
        joint = Certificate.of(last).claim if last is not None else None
        root = None
        if head is not None and head.frontier is not None:
            root = Frontier.from_bytes(bytes.fromhex(head.frontier)).root.hex()
        return LogHead(
            entries=entries,
            waiting=waiting,
            problem=self._wait() if waiting else None,
            root=root,
            checkpoint=None if head is None else head.checkpoint,
            joint_mu=0.0 if joint is None else joint.joint_mu,
            joint_epsilon=0.0 if joint is None else joint.joint_epsilon,
            keys=[key.text for key in self.public_keys()],
        )

    def public_keys(self) -> list[PublicKey]:
        """Every key that signed certificates, the newest last."""
        return self._key_file.public_keys()

    def export(self) -> Iterator[bytes]:
        """The whole log, line by line, as `unfit verify --log` reads it."""
        signed = self._records.find(signed=True)
        if not signed:
            raise Unavailable(f"the log has no signed entry: {self._wait()}")
        checkpoint = signed[-1].checkpoint
        assert checkpoint is not None
        yield from export_lines((str(one.envelope).encode() for one in signed), checkpoint)

    def growth_since(self, checkpoint: str) -> dict[str, Any]:
        """The proof that the log has only grown since a checkpoint that somebody holds."""
        size, root, path = self._growth(checkpoint, self._leaves())
        return {
            "size": size,
            "root": root.hex(),
            "path": [node.hex() for node in path],
            "checkpoint": self.head().checkpoint,
        }

    def hand_out(self, key: str) -> PersonProof:
        """What the people of a request get, once: the salts are removed here first."""
        record = self.of_request(key)
        (request,) = self._requests.find(key=key)
        certificate = self.bundle(record)
        salts = self._records.salts(request.id)
        if not salts:
            raise Unavailable(
                f"the proof of the erasure {key!r} was handed out before, or its time is over "
                "(certify.keep_salts); what opens the commitments is not here any more"
            )
        self._records.purge_salts(request_id=request.id)
        return PersonProof(certificate, [(one.salt, one.commitment) for one in salts])

    def _leaves(self) -> list[bytes]:
        return [bytes.fromhex(leaf) for leaf in self._records.leaves()]

    def _wait(self) -> str:
        return self._key_file.problem() or "the next erasure or `unfit key sign` makes it"
