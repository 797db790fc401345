"""Certificates of a workspace: what is claimed of a release becomes an entry of the log.

An entry is made before the commit and written by it, in the transaction that makes the version
active. It names nobody: people are commitments whose salts are handed out once. Nothing here looks
at noise, and nothing of the weights before noise is in what is signed.
"""

import hashlib
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from unfit.certify import Promise, Ready
from unfit.certify.accountant import epsilon_of
from unfit.certify.statement import (
    Annex,
    Claim,
    Constant,
    annex_bytes,
    centre_commitment,
    commitment,
    parse_statement,
    statement_bytes,
)
from unfit.methods import State
from unfit.store.records import CertificateRecord, IdKind, NewCertificate, Salt
from unfit.workspace.export import weights_file
from unfit.workspace.model import Card
from unfit.workspace.session import Session
from unfit.workspace.signing import signed

log = logging.getLogger("unfit")
Kind = Literal["trained", "updated", "retrained", "withdrawn", "kept"]
OCCASIONS: dict[Kind, str] = {
    "trained": "training",
    "retrained": "retraining",
    "updated": "erasure",
    "kept": "erasure of people who were held out, or of nobody in the model",
    "withdrawn": "erasure; no model can be trained on what remains, and none is released",
}
TRAINED_SHARE = 64  # a training is certified at this part of the mu that epsilon and delta allow
FILE = "model.safetensors"
_NOT_CLAIMED = (
    "releases from before the deletion: who holds one of them and this one may learn about the row",
    "which rows remain: the claim is equivalence to a retraining on those that do",
    "figures about the model that its owner sees: accuracy, decisions, times",
    "releases that are not in this log, such as those between a backup and its restoration: the "
    "joint mu does not count them",
    "copies of the rows elsewhere, and that the process ran as it says",
    "rounding: the proof is of exact numbers, and releases are rounded to a grid of noise / 1024",
)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A certified release. claimed: the mu that is stated of it, one of two levels; what it came to
    is in `ready`."""

    card: Card
    promise: Promise
    ready: Ready
    weights: np.ndarray
    rows: int
    claimed: float

    @classmethod
    def of(cls, card: Card, ready: Ready, state: State, *, trained: bool) -> "Release":
        """state: as it is released. trained: from nothing, which is nearer to the optimum."""
        promise = ready.releases.certifier.promise
        low = promise.mu / TRAINED_SHARE
        return cls(
            card=card,
            promise=promise,
            ready=ready,
            weights=state.weights,
            rows=state.n,
            claimed=low if trained and ready.mu <= low else promise.mu,
        )


@dataclass(frozen=True, kw_only=True)
class Person:
    """An id that a request named and that was forgotten."""

    request_id: int
    kind: IdKind
    value: str


def identifier(kind: IdKind, value: str) -> str:
    """What is committed to of an id: a subject and a row may have the same name."""
    return f"{kind}:{value}"


def joint_mu_with(session: Session, promise: Promise) -> float:
    """The joint mu of all releases, if one more at the limit follows."""
    last = session.store.certificates.last()
    return math.sqrt((0.0 if last is None else last.mu_squares) + promise.mu**2)


@dataclass(frozen=True, kw_only=True)
class EntryMaker:
    """Makes the next entry of the log. number: of the version it is about; deleted: training rows
    that leave with it."""

    session: Session
    number: int
    deleted: int = 0
    people: Sequence[Person] = ()

    def of_release(self, kind: Kind, release: Release) -> NewCertificate:
        """For a version that is released now."""
        last = self._last
        squares = release.claimed**2 + (0.0 if last is None else last.mu_squares)
        releases = 1 + (0 if last is None else last.releases)
        salt = os.urandom(32)
        polished = release.ready.polished
        centre = np.ascontiguousarray(polished.centre, "<f8").tobytes()
        claim = self._claim(
            kind,
            release,
            releases=releases,
            joint_mu=math.sqrt(squares),
            centre_commitment=centre_commitment(salt, centre),
        )
        annex = Annex(
            entry="0" * 64,  # set with the signature
            distance=polished.distance,
            bound=polished.bound,
            mu=release.ready.mu,
            steps=polished.steps,
            residual=_residual(release),
            centre_sha256=hashlib.sha256(centre).hexdigest(),
            centre_salt=salt.hex(),
        )
        digest = hashlib.sha256(weights_file(release.weights)).hexdigest()
        return self._entry(kind, claim, digest, squares, annex_bytes(annex).decode())

    def of_active(self, kind: Kind) -> NewCertificate | None:
        """For a version that stays as it is, or is withdrawn; None if the active one has none."""
        last, active = self._last, self.session.require_version()
        if last is None or last.version != active.number:
            return None
        claim, (subject,) = parse_statement(last.statement.encode())
        digest, squares = subject.sha256, last.mu_squares
        if kind == "withdrawn":  # counted as a release, of nothing, at the limit
            digest, squares = hashlib.sha256(b"").hexdigest(), squares + claim.mu_limit**2
        claim = replace(
            claim,
            releases=last.releases + (kind == "withdrawn"),
            joint_mu=math.sqrt(squares),
            joint_epsilon=epsilon_of(math.sqrt(squares), claim.delta),
            request=OCCASIONS[kind],
            version=self.number,
            earlier_version=active.number if kind == "withdrawn" else claim.earlier_version,
            issued=self._issued,
            code_digest=code_digest() if kind == "withdrawn" else claim.code_digest,
            deleted=self._deleted,
            commitments=self._commitments,
        )
        return self._entry(kind, claim, digest, squares, None)

    def _claim(
        self,
        kind: Kind,
        release: Release,
        *,
        releases: int,
        joint_mu: float,
        centre_commitment: str,
    ) -> Claim:
        session, card = self.session, release.card
        return Claim(
            model=session.key_file.name,
            model_uuid=session.config.id,
            request=OCCASIONS[kind],
            version=self.number,
            earlier_version=None if session.active is None else session.active.number,
            issued=self._issued,
            theorem="A, version 1: Gaussian release of weights near the optimum",
            loss=card.loss.name,
            epsilon=release.promise.epsilon,
            delta=release.promise.delta,
            mu_limit=release.claimed,
            noise=release.promise.noise,
            l2=card.settings.l2,
            tol=release.ready.releases.certifier.tol,
            rows=release.rows,
            problems=card.k,
            columns=card.d,
            deleted=self._deleted,
            releases=releases,
            joint_mu=joint_mu,
            joint_epsilon=epsilon_of(joint_mu, release.promise.delta),
            commitments=self._commitments,
            centre_commitment=centre_commitment,
            code_digest=code_digest(),
            constants=_constants(card, self.number),
            owner_choices=(
                f"l2 = {card.settings.l2:g}, the columns and their kinds, min_rows, the shares of "
                "the split: chosen by the owner, perhaps after looking at rows that have left",
            ),
            not_claimed=_NOT_CLAIMED,
            previous=None,  # set with the signature
        )

    def _entry(
        self, kind: Kind, claim: Claim, digest: str, squares: float, annex: str | None
    ) -> NewCertificate:
        """Signed, if there is a key and nothing before it waits for one."""
        last = self._last
        entry = NewCertificate(
            number=0 if last is None else last.number + 1,
            kind=kind,
            statement=statement_bytes(claim, FILE, digest).decode(),
            mu_squares=squares,
            releases=claim.releases,
            deleted=self._deleted,
            annex=annex,
            salts=self._salts,
        )
        key = self.session.signing_key()
        if key is None or (last is not None and last.envelope is None):
            return entry
        return signed(entry, last, key)

    @cached_property
    def _last(self) -> CertificateRecord | None:
        return self.session.store.certificates.last()

    @property
    def _deleted(self) -> int:
        return self.deleted + (0 if self._last is None else self._last.deleted)

    @property
    def _issued(self) -> str:
        """The time, but never before that of the last certificate: a clock may be wrong."""
        now = self.session.clock()
        if self._last is None or now >= self._last.at:
            return rfc3339(now)
        log.warning(
            "the clock says %s, and the last certificate was issued at %s: this one is given the "
            "same time; set the clock right",
            rfc3339(now),
            rfc3339(self._last.at),
        )
        return rfc3339(self._last.at)

    @property
    def _commitments(self) -> tuple[str, ...]:
        return tuple(sorted(one.commitment for one in self._salts))

    @cached_property
    def _salts(self) -> list[Salt]:
        made = []
        for person in self.people:
            salt = os.urandom(32)
            committed = commitment(salt, identifier(person.kind, person.value))
            made.append(Salt(request_id=person.request_id, commitment=committed, salt=salt.hex()))
        return made


def _residual(release: Release) -> float | None:
    """The most that the gradient at the centre can be, where the distance rests on it."""
    polished = release.ready.polished
    if polished.bound != "gradient":
        return None
    return polished.distance * release.card.settings.l2 * release.rows


def _constants(card: Card, number: int) -> tuple[Constant, ...]:
    """Of every column, and the norm: fitted ones are what a fit on the remaining rows gives."""
    encoding = card.encoding
    found = [Constant(c.column.name, c.constants, number) for c in encoding.columns]
    if encoding.clip:
        found.append(Constant("norm", "fitted" if encoding.norm_fitted else "declared", number))
    return tuple(found)


def rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def code_digest() -> str:
    """Of the source files of unfit that are running, by name and content."""
    root, found = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()
