"""A model that forgets, its certificates and its log, as an owner would write them."""

import hashlib
import math
import os
from dataclasses import dataclass, field, replace

import numpy as np
from safetensors.numpy import save

import unfit
from unfit.certify.accountant import epsilon_of, mu_of
from unfit.certify.bundle import bundle, export_lines
from unfit.certify.envelope import seal
from unfit.certify.keys import SigningKey
from unfit.certify.log import (
    Frontier,
    checkpoint,
    consistency_proof,
    entry_digest,
    inclusion_proof,
    leaf_hash,
    proof_text,
)
from unfit.certify.statement import (
    Annex,
    Claim,
    Constant,
    annex_bytes,
    centre_commitment,
    commitment,
    statement_bytes,
)
from unfit.certify.verify import ANNEX_TYPE, PAYLOAD_TYPE

ORIGIN = "example.org/churn"
SALT = bytes(range(16))
EPSILON, DELTA, NOISE, L2 = 1.0, 1e-5, 1e-2, 1e-2


def a_claim(**changes: object) -> Claim:
    """A claim that holds, of made-up rows."""
    limit = mu_of(EPSILON, DELTA)
    plain = Claim(
        model="churn",
        model_uuid="3f2c",
        request="training",
        version=1,
        earlier_version=None,
        issued="2026-01-31T12:00:00Z",
        theorem="A, version 1",
        loss="logistic",
        epsilon=EPSILON,
        delta=DELTA,
        mu_limit=limit,
        noise=NOISE,
        l2=L2,
        tol=1e-11,
        rows=400,
        problems=1,
        columns=6,
        deleted=0,
        releases=1,
        joint_mu=limit,
        joint_epsilon=epsilon_of(limit, DELTA),
        commitments=(),
        centre_commitment=centre_commitment(SALT, b"weights"),
        code_digest="sha256:0",
        constants=(Constant("shift of age", "fitted", 1), Constant("norm", "declared", None)),
        owner_choices=("l2 was chosen by the owner",),
        not_claimed=("releases from before a deletion",),
        previous=None,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@dataclass
class Owner:
    """Trains a model, deletes people one by one, and issues a certificate for each."""

    key: SigningKey = field(default_factory=lambda: SigningKey.generate(ORIGIN))
    entries: list[bytes] = field(default_factory=list)
    annexes: list[bytes] = field(default_factory=list)
    models: list[bytes] = field(default_factory=list)
    centres: list[np.ndarray] = field(default_factory=list)
    remaining: list[np.ndarray] = field(default_factory=list)  # rows by version

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((400, 5)) / 2
        self.y = (self.X[:, 0] + 0.5 * rng.standard_normal(400) > 0).astype(float)
        self._model = unfit.LogisticRegression(
            epsilon=EPSILON, delta=DELTA, noise=NOISE, l2=L2, dtype="float64"
        ).fit(self.X, self.y)
        self._left = np.ones(400, np.bool_)

    def train(self) -> None:
        self._issue("training", ())

    def forget(self, row: int) -> None:
        self._model.unlearn([row])
        self._left[row] = False
        self._issue("erasure", (commitment(SALT, f"person-{row}"),))

    def _issue(self, request: str, commitments: tuple[str, ...]) -> None:
        made, state = self._model.certificate_, self._model._state
        centre, model = state.centre, save({"weights": state.weights})
        salt, limit = os.urandom(16), mu_of(EPSILON, DELTA)
        joint = limit * math.sqrt(made.releases)
        claim = a_claim(
            request=request,
            version=len(self.entries) + 1,
            earlier_version=len(self.entries) or None,
            tol=made.tol,
            rows=made.rows,
            problems=made.problems,
            columns=made.columns,
            deleted=made.deleted,
            releases=made.releases,
            joint_mu=joint,
            joint_epsilon=epsilon_of(joint, DELTA),
            commitments=commitments,
            centre_commitment=centre_commitment(salt, centre.tobytes()),
            previous=entry_digest(self.entries[-1]) if self.entries else None,
        )
        digest = hashlib.sha256(model).hexdigest()
        self.entries.append(self.sealed(statement_bytes(claim, "model.safetensors", digest)))
        annex = Annex(
            entry=entry_digest(self.entries[-1]),
            distance=made.distance,
            bound=made.bound,
            mu=made.mu,
            steps=made.steps,
            residual=None if made.bound != "gradient" else made.distance * made.l2 * made.rows,
            centre_sha256=hashlib.sha256(centre.tobytes()).hexdigest(),
            centre_salt=salt.hex(),
        )
        self.annexes.append(seal(ANNEX_TYPE, annex_bytes(annex), self.key))
        self.models.append(model)
        self.centres.append(centre)
        self.remaining.append(np.flatnonzero(self._left))

    def sealed(self, statement: bytes) -> bytes:
        return seal(PAYLOAD_TYPE, statement, self.key)

    @property
    def leaves(self) -> list[bytes]:
        return [leaf_hash(entry) for entry in self.entries]

    def checkpoint(self, size: int | None = None) -> str:
        frontier = Frontier()
        for leaf in self.leaves[:size]:
            frontier = frontier.append(leaf)
        return checkpoint(ORIGIN, frontier.size, frontier.root, self.key)

    def bundle(self, index: int, *, annex: bool = False, since: int | None = None) -> bytes:
        """The certificate's file; since: with a proof that the log has grown from that size."""
        leaves = self.leaves
        proof = proof_text(index, inclusion_proof(index, leaves), self.checkpoint())
        grown = None
        if since is not None:
            frontier = Frontier()
            for leaf in leaves[:since]:
                frontier = frontier.append(leaf)
            grown = (since, frontier.root, consistency_proof(since, leaves))
        return bundle(self.entries[index], proof, self.annexes[index] if annex else None, grown)

    def export(self) -> bytes:
        return b"".join(export_lines(self.entries, self.checkpoint()))
