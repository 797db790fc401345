"""The page of a certificate, to print: for the person who was erased, or for a regulator."""

import math
from collections.abc import Sequence

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
        words=in_words(certificate),
        facts=_facts(certificate),
        declared=[c.name for c in claim.constants if c.origin == "declared"],
        fitted=[c.name for c in claim.constants if c.origin == "fitted"],
    )


def in_words(certificate: Certificate) -> str:
    """What epsilon and delta mean for whoever sees the released model, if one is released."""
    claim = certificate.claim
    if not certificate.released:
        return "No model can be trained on the rows that remain, so none is released any more."
    said = (
        "Whoever sees the released model cannot tell whether it was updated without the deleted "
        "rows or trained anew without them: for every question about its weights, the two ways "
        f"lead to a yes with probabilities within a factor of {math.exp(claim.epsilon):.3g} "
        f"(e^epsilon) and an addend of {claim.delta:g} (delta) of each other."
    )
    if certificate.kind == "kept":
        return (
            f"The model was not trained on the people of this erasure, and stays as it is. {said}"
        )
    return said


def _facts(certificate: Certificate) -> list[tuple[str, str]]:
    claim = certificate.claim
    return [
        *(_release(certificate) if certificate.released else []),
        (
            "All releases together",
            f"{claim.releases:,}: mu {claim.joint_mu:.4g}, epsilon {claim.joint_epsilon:.4g}",
        ),
        ("Rows", f"{claim.rows:,} remain; deleted since the first training: {claim.deleted:,}"),
        ("Entry of the log", f"{certificate.number}, of {claim.model}"),
        ("Issued", claim.issued),
        ("Signature", "Ed25519" if certificate.signed else "none yet: the signing key is missing"),
    ]


def _release(certificate: Certificate) -> list[tuple[str, str]]:
    """What is said of the model that is released."""
    claim = certificate.claim
    return [
        ("Claim", f"({claim.epsilon:g}, {claim.delta:g})-indistinguishable from a retraining"),
        ("mu of this release", f"{claim.mu_limit:.4g} at most"),
        ("Noise", f"{claim.noise:g} on each of {claim.problems * claim.columns:,} weights"),
        ("Model", f"version {certificate.version}, SHA-256 {certificate.sha256}"),
    ]
