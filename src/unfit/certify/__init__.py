"""Certificates: a number behind the word "forgotten", with a proof (docs/certificates.md).

accountant turns distances into epsilon and delta; bounds says how far weights are from an optimum
at most, for which lengths says how long rows are; certifier says when a claim holds, and polishing
moves weights until it does; releases publishes them; release_test attacks the claim. May know
methods, engines and core; knows no store and no file.
"""

from unfit.certify.certifier import Promise
from unfit.certify.release_test import ReleaseTest
from unfit.certify.releases import Certificate, Releases, certified_settings

__all__ = ["Certificate", "Promise", "ReleaseTest", "Releases", "certified_settings"]
