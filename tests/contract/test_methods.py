"""Every registered method passes the public contract."""

from dataclasses import replace

import numpy as np
import pytest

from tiers import mostly_slow
from unfit.core.factors import Cholesky
from unfit.methods import METHODS, State
from unfit.testing import CASES, SPARSE_CASES, check_method, method_checks
from unfit.testing.methods import check_weights_and_penalties


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.dtype}-{c.n_classes}")
@pytest.mark.parametrize("check", method_checks(), ids=lambda c: c.__name__)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_contract(method, check, case):
    check(method, case)


SPARSE = [name for name, method in METHODS.items() if not method.needs]
QUICK = [check for check in method_checks() if "noise" not in check.__module__]  # few models each


@pytest.mark.parametrize(
    "case",
    mostly_slow(SPARSE_CASES, SPARSE_CASES[-1:]),
    ids=lambda c: f"{c.dtype}-{c.n_classes}",
)
@pytest.mark.parametrize("check", mostly_slow(method_checks(), QUICK), ids=lambda c: c.__name__)
@pytest.mark.parametrize("method", SPARSE)
def test_contract_on_sparse_rows(method, check, case):
    check(METHODS[method], case)


def test_a_broken_method_is_caught():
    class Forgetful(METHODS["fisher"]):
        name = "forgetful"

        def step(self, weights, *_):
            return weights + 1.0

    with pytest.raises(AssertionError):
        check_method(Forgetful, CASES[:1])


def test_a_method_that_counts_rows_instead_of_weights_is_caught():
    class CountsRows(METHODS["retrain"]):
        name = "counts-rows"

        def unlearn(self, state, data, deleted, rng):
            mask, W = data.without(deleted), state.centre
            ridge = self.settings.l2 * np.count_nonzero(mask)
            gradient = data.gradient_sum(W, mask) + ridge * W
            factors = data.factors(W, mask, ridge)
            steps = [f.solve(g) for f, g in zip(factors, gradient, strict=True)]
            return State(self.name, W - steps, state.n - len(deleted))

    with pytest.raises(AssertionError, match="weights are not repetitions"):
        check_weights_and_penalties(CountsRows, CASES[2])


class NoiseRemoved(METHODS["fisher"]):
    """A second Newton step, from the released weights: it takes the noise off them again."""

    name = "noise-removed"

    def unlearn(self, state, data, deleted, rng):
        once = super().unlearn(state, data, deleted, rng)
        if len(deleted) == 0:
            return once
        here = self.statistics(data, once.weights, data.without(deleted))
        steps = [
            Cholesky.of(hessian).solve(gradient)
            for hessian, gradient in zip(here.hessian_sum, here.gradient_sum, strict=True)
        ]
        return State(self.name, once.weights - steps, once.n)


class FromReleased(METHODS["fisher"]):
    """Steps from the released weights, as the paper's equation reads."""

    name = "from-released"

    def unlearn(self, state, data, deleted, rng):
        released = replace(state, kept_centre=None, statistics=None)
        return super().unlearn(released, data, deleted, rng)


class NoiseKept(METHODS["retrain"]):
    """Carries half of the old noise along: as much as there should be, but nobody's own."""

    name = "noise-kept"

    def unlearn(self, state, data, deleted, rng):
        if len(deleted) == 0:
            return state
        new = super().unlearn(state, data, deleted, rng)
        noise = (new.weights - new.centre) + (state.weights - state.centre)
        return replace(new, weights=new.centre + noise / 2**0.5)


class HalfNoise(METHODS["retrain"]):
    name = "half-noise"

    def unlearn(self, state, data, deleted, rng):
        if len(deleted) == 0:
            return state
        new = super().unlearn(state, data, deleted, rng)
        return replace(new, weights=(new.centre + new.weights) / 2)


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        (NoiseRemoved, "0.1. times as much from run to run after one request"),
        (FromReleased, "times as much from run to run"),
        (NoiseKept, "correlated"),
        (HalfNoise, "0.5. times as much from run to run"),
    ],
)
def test_noise_that_is_not_what_was_promised_is_caught(method, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_method(method, CASES[:1])


def test_noise_of_one_seed_is_caught():
    class SameSeed(METHODS["retrain"]):
        name = "same-seed"

        def perturbed(self, weights, rng):
            return super().perturbed(weights, np.random.default_rng(7))

    with pytest.raises(AssertionError, match="noise"):
        check_method(SameSeed, CASES[:1])
