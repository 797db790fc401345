"""Certificates, their log, and the proof of a person. Figures that depend on the rows are in no
answer but the annex of a certificate, which only auditors get."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from unfit.service.api.schemas.base import StrictInput, examples
from unfit.workspace.certificates import Certificate, LogHead, PersonProof


class CertificateOut(BaseModel):
    """An entry of the log; its file is what can be checked."""

    model_config = examples(
        {
            "number": 85,
            "version": 85,
            "kind": "updated",
            "at": "2030-01-02T03:04:05.310Z",
            "signed": True,
            "epsilon": 1.0,
            "delta": 1e-05,
            "noise": 0.001,
            "rows": 3817,
            "deleted": 5096,
            "releases": 85,
            "joint_mu": 2.457,
            "joint_epsilon": 12.92,
            "model_sha256": "9f3c1a0e" * 8,
        }
    )
    number: int = Field(description="Its place in the log, from 0.")
    version: int
    kind: Literal["trained", "updated", "retrained", "withdrawn", "kept"] = Field(
        description="kept: an erasure of people whom the model was not trained on."
    )
    at: datetime
    signed: bool = Field(description="False: it waits for the signing key.")
    epsilon: float = Field(
        description="The release cannot be told from a retraining's, up to this,"
    )
    delta: float = Field(description="except with this probability.")
    noise: float = Field(description="Standard deviation of the noise on each weight.")
    rows: int = Field(description="Training rows that remain.")
    deleted: int = Field(description="Training rows deleted since the first certificate.")
    releases: int = Field(description="Certified releases so far.")
    joint_mu: float = Field(description="mu of all of them together.")
    joint_epsilon: float = Field(description="The same as epsilon, at this delta.")
    model_sha256: str = Field(description="Of model.safetensors in the export.")

    @classmethod
    def of(cls, certificate: Certificate) -> "CertificateOut":
        claim = certificate.claim
        return cls(
            number=certificate.number,
            version=certificate.version,
            kind=certificate.kind,
            at=certificate.at,
            signed=certificate.signed,
            epsilon=claim.epsilon,
            delta=claim.delta,
            noise=claim.noise,
            rows=claim.rows,
            deleted=claim.deleted,
            releases=claim.releases,
            joint_mu=claim.joint_mu,
            joint_epsilon=claim.joint_epsilon,
            model_sha256=certificate.sha256,
        )


class CertificatesOut(BaseModel):
    items: list[CertificateOut]
    next: int | None = Field(description="Pass it as `before` to get the next page.")


class SaltOut(BaseModel):
    salt: str = Field(description="Together with the id it gives the commitment.")
    commitment: str = Field(description="As the certificate holds it.")


class ProofOut(BaseModel):
    """What the people of an erasure get: the certificate, and what shows that it is about them."""

    certificate: str = Field(description="The certificate's file, as text.")
    salts: list[SaltOut] = Field(description="One for each id that was forgotten.")

    @classmethod
    def of(cls, proof: PersonProof) -> "ProofOut":
        return cls.model_validate(proof.as_dict())


class LogOut(BaseModel):
    """The head of the log."""

    entries: int
    waiting: int = Field(description="Certificates that wait for a signature.")
    problem: str | None = Field(description="Why they wait.")
    root: str | None = Field(description="Of the Merkle tree over the signed entries (RFC 6962).")
    checkpoint: str | None = Field(
        description="Size and root, signed (C2SP). Whoever keeps one notices if the log is "
        "rewritten."
    )
    joint_mu: float = Field(description="mu of all certified releases together.")
    joint_epsilon: float
    keys: list[str] = Field(description="The public keys, the one in use last.")

    @classmethod
    def of(cls, head: LogHead) -> "LogOut":
        return cls(**head.as_dict())


class KeysOut(BaseModel):
    keys: list[str] = Field(description="name+hash+base64, the one in use last.")


class GrowthIn(StrictInput):
    """A checkpoint that the caller holds."""

    checkpoint: str = Field(min_length=1, max_length=20_000)


class GrowthOut(BaseModel):
    """The proof that the log has only grown since (RFC 6962, 2.1.2)."""

    size: int
    root: str
    path: list[str]
    checkpoint: str = Field(description="The newest one, which the proof leads to.")
