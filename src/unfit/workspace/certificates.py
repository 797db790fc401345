"""Certificates to hand on: a certificate with its proof, the log, and the proof of one person.

Reading needs no lock. What a person gets, the salts that open the commitments to their ids, is
handed out once: it is removed in the transaction that gives it away.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from unfit.certify.bundle import bundle, export_lines
from unfit.certify.envelope import seal
from unfit.certify.keys import PublicKey, SigningKey
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
from unfit.workspace.certification import OCCASIONS, Kind
from unfit.workspace.reader import WorkspaceReader
from unfit.workspace.results import CertificateStatus
from unfit.workspace.signing import SIGNED_NEXT


class NoCertificate(Unavailable):
    """An erasure or a version without a certificate."""


class Unsigned(Unavailable):
    """A certificate, or a log, that waits for its signature."""


class HandedOut(Unavailable):
    """A person's proof that is not here any more."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """One entry of the log, for people. kind: what it is about; signed: it has its place."""

    number: int
    version: int
    kind: Kind
    at: datetime
    claim: Claim
    sha256: str  # of the released model, model.safetensors of `unfit export`
    signed: bool

    @property
    def released(self) -> bool:
        """Whether it is about a model; a withdrawn one is no file, and has the digest of none."""
        return self.sha256 != hashlib.sha256(b"").hexdigest()

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

    def find(
        self, *, version: int | None = None, before: int | None = None, last: int | None = None
    ) -> list[Certificate]:
        """In the order of the log; the last so many. before: only places below this one."""
        found = self._records.find(version=version, before=before, last=last)
        return [Certificate.of(one) for one in found]

    def of_request(self, key: str) -> CertificateRecord:
        """The certificate that a request led to."""
        found = self._requests.find(key=key) if _is_text(key) else []
        if not found:
            raise BadInput(f"there is no erasure with the key {key!r}")
        record = self._of(found[0])
        if record is None:
            why = self._why_none(found[0])
            raise NoCertificate(f"the erasure {key!r} has no certificate: {why}")
        return record

    def of_version(self, number: int) -> CertificateRecord:
        """The newest certificate of a version."""
        found = self._records.find(version=number, last=1)
        if not found:
            raise NoCertificate(
                f"version {number} has no certificate: it was made without certify.epsilon"
            )
        return found[0]

    def _of(self, request: Request) -> CertificateRecord | None:
        if request.version is None or not request.tally.forgotten:
            return None
        of_version = self._records.find(version=request.version)
        return next((one for one in of_version if one.at == request.applied_at), None)

    def _why_none(self, request: Request) -> str:
        if request.state != "applied":
            return f"it is {request.state}"
        if not request.tally.forgotten:
            return "it forgot nobody who was not forgotten before"
        return "the model was trained without certify.epsilon"

    def to_export(self, version: int) -> bytes | None:
        """The file that goes with an exported model: its newest certificate that is signed."""
        signed = self._records.find(version=version, signed=True, last=1)
        return self.bundle(signed[0]) if signed else None

    def bundle(
        self, record: CertificateRecord, *, annex: bool = False, since: str | None = None
    ) -> bytes:
        """The certificate's file. annex: with the figures for an auditor, which depend on the rows;
        they are sealed with the key in use. since: an older checkpoint that the reader holds."""
        if record.envelope is None:
            raise Unsigned(f"certificate {record.number} waits for a signature: {self._wait()}")
        checkpoint, leaves = self._signed()
        path = inclusion_proof(record.number, leaves)
        sealed = None
        if annex:
            if record.annex is None:
                raise NoCertificate(
                    f"certificate {record.number} has no annex, because no weights were released "
                    f"with it: it is about an {OCCASIONS[record.kind]}"
                )
            sealed = seal(ANNEX_TYPE, record.annex.encode(), self._sealing_key())
        return bundle(
            record.envelope.encode(),
            proof_text(record.number, path, checkpoint),
            sealed,
            None if since is None else self._growth(since, leaves),
        )

    def _sealing_key(self) -> SigningKey:
        try:
            return self._key_file.require()
        except (BadInput, Unavailable) as error:
            raise Unsigned(f"the annex cannot be sealed: {error}") from None

    def _growth(self, since: str, leaves: list[bytes]) -> tuple[int, bytes, list[bytes]]:
        """The proof that the log has only grown since a checkpoint."""
        old = open_checkpoint(since, self._key_file.public_keys())
        path = consistency_proof(old.size, leaves)
        tree = Frontier()
        for leaf in leaves[: old.size]:
            tree = tree.append(leaf)
        if tree.root != old.root:
            raise BadInput(
                f"the first {old.size:,} entries of the log are not those of this checkpoint: a "
                "backup was restored since, and the log went on from there"
            )
        return old.size, old.root, path

    def status(self) -> CertificateStatus:
        """How many there are, what keeps some waiting, and what they add up to."""
        return self._reader.certificate_status()

    def head(self) -> LogHead:
        """Where the log stands now."""
        status, signed = self.status(), self._records.find(signed=True, last=1)
        head = signed[0] if signed else None
        root = None
        if head is not None and head.frontier is not None:
            root = Frontier.from_bytes(bytes.fromhex(head.frontier)).root.hex()
        return LogHead(
            entries=status.entries,
            waiting=status.waiting,
            problem=status.problem,
            root=root,
            checkpoint=None if head is None else head.checkpoint,
            joint_mu=status.joint_mu or 0.0,
            joint_epsilon=status.joint_epsilon or 0.0,
            keys=[key.text for key in self.public_keys()],
        )

    def public_keys(self) -> list[PublicKey]:
        """Every key that signed certificates, the newest last."""
        return self._key_file.public_keys()

    def export(self) -> Iterator[bytes]:
        """The whole log, line by line, as `unfit verify --log` reads it."""
        head = self._signed_head()
        entries = (text.encode() for text in self._records.envelopes(head.number + 1))
        return export_lines(entries, str(head.checkpoint))

    def growth_since(self, checkpoint: str) -> dict[str, Any]:
        """The proof that the log has only grown since a checkpoint that somebody holds."""
        now, leaves = self._signed()
        size, root, path = self._growth(checkpoint, leaves)
        return {
            "size": size,
            "root": root.hex(),
            "path": [node.hex() for node in path],
            "checkpoint": now,
        }

    def can_hand_out(self, request: Request) -> bool:
        """Whether the people of a request can still get their proof."""
        return bool(self._records.salts(request.id))

    @contextmanager
    def handing_out(self, key: str) -> Iterator[PersonProof]:
        """What the people of a request get, once: the salts are removed here when the block ends.
        If it fails, because the proof could not be written, they stay."""
        record = self.of_request(key)
        (request,) = self._requests.find(key=key)
        certificate = self.bundle(record)
        with self._records.handing_out(request.id) as salts:
            if not salts:
                raise HandedOut(
                    f"the proof of the erasure {key!r} was handed out before, or its time is over "
                    "(certify.keep_salts); what opens the commitments is not here any more"
                )
            yield PersonProof(certificate, [(one.salt, one.commitment) for one in salts])

    def hand_out(self, key: str) -> PersonProof:
        """The same for a caller that answers at once: the salts are gone when this returns."""
        with self.handing_out(key) as proof:
            return proof

    def _signed_head(self) -> CertificateRecord:
        """The newest entry that is signed; all before it are."""
        signed = self._records.find(signed=True, last=1)
        if not signed:
            raise Unsigned(f"the log has no signed entry: {self._wait()}")
        return signed[0]

    def _signed(self) -> tuple[str, list[bytes]]:
        """The newest checkpoint, and the leaves of the log that it is about."""
        head = self._signed_head()
        leaves = self._records.leaves()[: head.number + 1]
        return str(head.checkpoint), [bytes.fromhex(leaf) for leaf in leaves]

    def _wait(self) -> str:
        return self._key_file.problem() or SIGNED_NEXT


def _is_text(key: str) -> bool:
    """Whether it can be written in UTF-8, as every key is that was ever taken."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
