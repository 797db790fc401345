"""The page of a certificate, to print: for the person who was erased, or for a regulator."""

import math
from collections.abc import Sequence

from unfit.certify.statement import Claim
from unfit.pages.templating import render
from unfit.workspace.certificates import Certificate, LogHead

_KINDS = {
    "trained": "the first training",
    "updated": "an erasure, unlearned",
    "retrained": "a retraining on the rows that remain",
    "withdrawn": "an erasure after which no model can be trained, so none is released",
    "kept": "an erasure of people whom the model was not trained on",
}


def certificate_page(
    certificate: Certificate, salts: Sequence[tuple[str, str]], head: LogHead
) -> str:
    """One self-contained HTML page. salts: what opens the commitments to the ids of a request, with
    the commitments; they make it the page of one person, which nobody else should get."""
    claim = certificate.claim
    return render(
        "certificate.html",
        certificate=certificate,
        claim=claim,
        salts=salts,
        keys=head.keys,
        about=_KINDS[certificate.kind],
        words=in_words(claim),
        facts=_facts(certificate),
        declared=[c.name for c in claim.constants if c.origin == "declared"],
        fitted=[c.name for c in claim.constants if c.origin == "fitted"],
    )


def in_words(claim: Claim) -> str:
    """What epsilon and delta mean for whoever sees the released model."""
    return (
        "Whoever sees the released model cannot tell whether it was updated without the deleted "
        "rows or trained anew without them: for every question about its weights, the two ways "
        f"lead to a yes with probabilities within a factor of {math.exp(claim.epsilon):.3g} "
        f"(e^epsilon) and an addend of {claim.delta:g} (delta) of each other."
    )


def _facts(certificate: Certificate) -> list[tuple[str, str]]:
    claim = certificate.claim
    return [
        ("Claim", f"({claim.epsilon:g}, {claim.delta:g})-indistinguishable from a retraining"),
        ("mu of this release", f"{claim.mu_limit:.4g} at most"),
        (
            "All releases together",
            f"{claim.releases:,}: mu {claim.joint_mu:.4g}, epsilon {claim.joint_epsilon:.4g}",
        ),
        ("Noise", f"{claim.noise:g} on each of {claim.problems * claim.columns:,} weights"),
        ("Rows", f"{claim.rows:,} remain; deleted since the first training: {claim.deleted:,}"),
        ("Model", f"version {certificate.version}, SHA-256 {certificate.sha256}"),
        ("Entry of the log", f"{certificate.number}, of {claim.model}"),
        ("Issued", claim.issued),
        ("Signature", "Ed25519" if certificate.signed else "none yet: the signing key is missing"),
    ]
