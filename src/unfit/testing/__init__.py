"""The contracts that extensions are held to, ours and other people's.

    from unfit.testing import check_method
    check_method(MyMethod)

`method_checks()` lists the checks one by one for test runners. `check_engine(MyEngine)` is the
contract of an engine, `check_loss(MyLoss)` that of a loss, `check_source(location)` that of a
source of rows, and `check_policy(MyPolicy)` that of a policy. May know lifecycle, estimator and
below, and data.
"""

from unfit.testing.cases import CASES, SPARSE_CASES, Case
from unfit.testing.engines import check_engine
from unfit.testing.losses import check_loss
from unfit.testing.methods import check_method, method_checks
from unfit.testing.policies import check_policy
from unfit.testing.sources import check_source

__all__ = [
    "CASES",
    "SPARSE_CASES",
    "Case",
    "check_engine",
    "check_loss",
    "check_method",
    "check_policy",
    "check_source",
    "method_checks",
]
