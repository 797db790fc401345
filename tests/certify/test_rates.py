"""Counts become epsilon and mu as their definitions say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from unfit.certify.attack_result import at_least
from unfit.certify.rates import (
    Scores,
    auc_of,
    curves_of,
    highest,
    lowest,
    most_epsilon,
    told_apart,
    tpr_of,
)
from unfit.certify.shadow_scores import Margins, judged, likelihood_ratio


@pytest.mark.parametrize("mistakes", [0.05 / 4, 0.05 / 40, 1e-4])
@pytest.mark.parametrize("n", [1, 7, 128, 5000])
def test_bounds_of_a_rate_are_those_of_the_beta_distribution(n: int, mistakes: float) -> None:
    hits = np.unique(np.linspace(0, n, 9).astype(int))
    low = np.nan_to_num(stats.beta.ppf(mistakes, hits, n - hits + 1))
    high = stats.beta.ppf(1 - mistakes, hits + 1, n - hits)
    assert lowest(hits, n, mistakes) == pytest.approx(low, rel=1e-9, abs=1e-300)
    assert highest(hits, n, mistakes) == pytest.approx(np.where(hits == n, 1.0, high), rel=1e-9)


def test_bounds_of_a_rate_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    for rate in (0.02, 0.5):
        hits = rng.binomial(200, rate, 20_000)
        assert (lowest(hits, 200, 0.01) > rate).mean() <= 0.013
        assert (highest(hits, 200, 0.01) < rate).mean() <= 0.013


def test_bounds_hold_for_means_of_rates_that_differ() -> None:
    """Releases of models of different halves are not alike."""
    rng = np.random.default_rng(1)
    rates = rng.uniform(0, 1, 150)
    hits = (rng.random((20_000, 150)) < rates).sum(axis=1)
    assert (lowest(hits, 150, 0.01) > rates.mean()).mean() <= 0.013
    assert (highest(hits, 150, 0.01) < rates.mean()).mean() <= 0.013


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
def test_the_likelihood_ratio_of_two_gaussians_has_the_known_auc(mu: float) -> None:
    rng = np.random.default_rng(2)
    n, shift = 40_000, np.array([mu * 0.6, mu * 0.8]) * 3.0

    def draw(at: np.ndarray) -> np.ndarray:
        return np.asarray(at + 3.0 * rng.standard_normal((n, 2)))

    fit = draw(shift), draw(np.zeros(2))
    ours, theirs = (likelihood_ratio(z, *fit) for z in (draw(shift), draw(np.zeros(2))))
    expected = stats.norm.cdf(mu / math.sqrt(2))
    assert auc_of(Scores(ours, theirs)) == pytest.approx(expected, abs=0.012)
    threshold = stats.norm.ppf(0.99)
    power = stats.norm.sf(threshold - mu)
    assert tpr_of(Scores(ours, theirs), 0.01) == pytest.approx(power, abs=0.02)


def test_the_likelihood_ratio_is_that_of_the_densities() -> None:
    rng = np.random.default_rng(3)
    ours, theirs, z = (rng.standard_normal((50, 3)) * s for s in (1.0, 2.0, 1.5))
    expected = [
        sum(
            stats.norm.logpdf(z[:, k], of[:, k].mean(), of[:, k].std()) * sign
            for k in range(3)
            for of, sign in ((ours, 1), (theirs, -1))
        )
    ][0]
    assert likelihood_ratio(z, ours, theirs) == pytest.approx(expected, rel=1e-10)


def test_what_taught_the_attacker_is_not_counted() -> None:
    """In the odd splits the two kinds are worlds apart, in the even ones they are the same."""
    rng = np.random.default_rng(6)
    odd = np.arange(64) % 2 == 1
    ours, theirs, never, absent = (rng.standard_normal((64, 8, 1)) for _ in range(4))
    ours[odd] += 30
    measured = Margins(
        unlearned=ours, retrained=theirs, never=never, odd=odd, absent=absent, odd_absent=odd
    )
    seen = judged([measured], 1e-5, 0.0125)
    assert (seen.found.epsilon, seen.found.mu) == (0.0, 0.0)
    assert seen.found.auc == pytest.approx(0.5, abs=0.1)
    swapped = replace(measured, odd=~odd, odd_absent=~odd)
    assert judged([swapped], 1e-5, 0.0125).found.auc == 1.0


def test_auc_is_scikit_learns_with_ties_too() -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.integers(0, 9, 300) + 1.0, rng.integers(0, 9, 200).astype(float)
    labels = np.r_[np.ones(300), np.zeros(200)]
    expected = roc_auc_score(labels, np.concatenate([ours, theirs]))
    assert auc_of(Scores(ours, theirs)) == pytest.approx(expected, abs=1e-12)


def test_the_most_that_can_be_found_is_what_perfect_scores_show() -> None:
    for n, mistakes in ((64, 0.01), (2048, 0.05 / 40)):
        perfect = Scores(np.ones(n) + np.arange(n) * 1e-9, np.zeros(n) - np.arange(n) * 1e-9)
        shown = told_apart(perfect, perfect, 1e-5, mistakes)
        assert shown.epsilon == pytest.approx(most_epsilon(n, 1e-5, mistakes), rel=1e-12)
        closed = math.log((mistakes ** (1 / n) - 1e-5) / (1 - mistakes ** (1 / n)))
        assert shown.epsilon == pytest.approx(closed, rel=1e-9)


def test_curves_are_those_of_the_scores() -> None:
    rng = np.random.default_rng(5)
    scores = Scores(rng.standard_normal(4000) + 1, rng.standard_normal(3000))
    drawn = curves_of(scores)
    assert sum(drawn.ours) == pytest.approx(1)
    assert sum(drawn.theirs) == pytest.approx(1)
    assert len(drawn.edges) == len(drawn.ours) + 1
    fpr, low, tpr, high = np.array(drawn.roc).T
    assert (fpr[0], fpr[-1], tpr[-1]) == (0.0, 1.0, 1.0)
    assert (np.diff(fpr) >= 0).all()
    assert ((low <= tpr) & (tpr <= high)).all()
    area = np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2)
    assert area == pytest.approx(auc_of(scores), abs=0.01)
    true = stats.norm.sf(stats.norm.isf(np.clip(fpr, 1e-12, 1 - 1e-12)) - 1)
    inside = (low - 0.03 <= true) & (true <= high + 0.03)
    assert inside[1:-1].all()


@given(st.floats(1e-6, 1e6), st.integers(2, 6))
@settings(max_examples=300, deadline=None)
def test_a_lower_bound_is_rounded_down_and_not_far(value: float, digits: int) -> None:
    said = at_least(value, digits)
    assert said <= value
    assert said >= value * (1 - 1.001 * 10.0 ** (1 - digits))
