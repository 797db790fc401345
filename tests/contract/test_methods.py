"""Every registered method passes the public contract."""

import pytest

from unfit.methods import METHODS
from unfit.testing import CASES, check_method, method_checks


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.dtype}-{c.n_classes}")
@pytest.mark.parametrize("check", method_checks(), ids=lambda c: c.__name__)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_contract(method, check, case):
    check(method, case)


def test_a_broken_method_is_caught():
    class Forgetful(METHODS["fisher"]):
        name = "forgetful"

        def step(self, weights, *_):
            return weights + 1.0

    with pytest.raises(AssertionError):
        check_method(Forgetful, CASES[:1])
