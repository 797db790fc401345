"""Certificates: a number behind the word "forgotten", with a proof (docs/certificates.md).

accountant turns distances into epsilon and delta; bounds says how far weights are from an optimum
at most, for which lengths says how long rows are; certifier says when a claim holds, and polishing
moves weights until it does; releases publishes them; agreement says where labels are certain;
paper_noise says what the paper's noises can claim. Attacks: release_test draws releases of one
model; shadow_models sends other rows through a pipeline, and shadow_scores tells them apart; rates
makes epsilon and mu of counts, attack_result a verdict. May know methods, engines and core; knows
no store and no file.

What is written down: keys sign; statement, envelope, log and bundle are the formats; verify checks
them, a file of its own that imports nothing of ours (docs/verifying.md). Names are imported when
they are first asked for, so that checking a certificate loads nothing that computes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unfit.certify.certifier import Promise
    from unfit.certify.release_test import ReleaseTest
    from unfit.certify.releases import Certificate, Ready, Releases, certified_settings

__all__ = ["Certificate", "Promise", "Ready", "ReleaseTest", "Releases", "certified_settings"]

_HOMES = {
    "Certificate": "unfit.certify.releases",
    "Promise": "unfit.certify.certifier",
    "Ready": "unfit.certify.releases",
    "ReleaseTest": "unfit.certify.release_test",
    "Releases": "unfit.certify.releases",
    "certified_settings": "unfit.certify.releases",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unfit.certify' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
