"""Certificates: a number behind the word "forgotten", with a proof (docs/certificates.md).

accountant turns distances into epsilon and delta; bounds says how far weights are from an optimum
at most, for which lengths says how long rows are; certifier polishes weights until a claim holds;
releases publishes them; agreement says where labels are certain; release_test attacks the claim.
What is written down: statement, envelope, log, keys, bundle, all on top of verify, which stands
alone. May know methods, engines and core; knows no store and no file. What computes is imported
when it is asked for, so that signatures can be looked at without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unfit.certify.certifier import Promise
    from unfit.certify.release_test import ReleaseTest
    from unfit.certify.releases import Certificate, Ready, Releases, certified_settings

__all__ = ["Certificate", "Promise", "Ready", "ReleaseTest", "Releases", "certified_settings"]
_WHERE = {"Promise": "certifier", "ReleaseTest": "release_test"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'releases')}"), name)
