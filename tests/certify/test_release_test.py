"""The attack refutes what is false, and does not refute what is true."""

import math

import numpy as np
import pytest

from unfit.certify.accountant import epsilon_of, mu_of
from unfit.certify.certifier import Certifier, Promise
from unfit.certify.rates import Scores, Told, told_apart
from unfit.certify.release_test import Centres, release_test

PROMISE = Promise(1.0, 1e-5, 1e-3)
MU = mu_of(1.0, 1e-5)


def releases(noise: float = 1e-3) -> Certifier:
    return Certifier(promise=Promise(1.0, 1e-5, noise), l2=1e-3, radius=1.0)


def told(ours: np.ndarray, theirs: np.ndarray) -> Told:
    return told_apart(*Scores(ours, theirs).halves(), 1e-5)


def test_scores_that_are_the_same_are_not_told_apart() -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(50):
        found = told(rng.standard_normal(4000), rng.standard_normal(4000))
        wrong += found.epsilon > 0 or found.mu > 0
        assert found.auc == pytest.approx(0.5, abs=0.05)
    assert wrong <= 5


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_what_is_found_is_below_the_truth_and_not_far_below(mu: float) -> None:
    rng = np.random.default_rng(1)
    over, found = 0, []
    for _ in range(20):
        one = told(rng.standard_normal(20_000) + mu, rng.standard_normal(20_000))
        over += one.mu > mu or one.epsilon > epsilon_of(mu, 1e-5)
        found.append(one.mu)
    assert over <= 3
    assert np.median(found) > 0.8 * mu


def test_scores_far_apart_show_what_so_many_draws_can_show() -> None:
    scores = np.random.default_rng(2).standard_normal(10_000)
    best = told(scores + 1e3, scores)
    assert best.auc == 1.0
    assert best.epsilon == pytest.approx(math.log(1 / (1 - (0.05 / 4) ** (1 / 5000))), rel=0.01)


def test_a_claim_that_holds_is_not_refuted_and_half_the_noise_is() -> None:
    centre = np.zeros((1, 4))
    near, limit = (centre + share * MU * 1e-3 / 2 for share in (0.5, 0.99))
    far = centre + 0.5
    kept = release_test(
        releases().release, Centres(near, centre, far), epsilon=1.0, delta=1e-5, draws=4000
    )
    assert kept.outcome == "not refuted"
    assert kept.control is not None
    assert kept.control.epsilon > 5
    halved = release_test(
        releases(5e-4).release, Centres(limit, centre, far), epsilon=1.0, delta=1e-5, draws=10_000
    )
    assert halved.outcome == "refuted"
    assert "refuted: the claim of epsilon 1 at delta 1e-05 allows a mu of 0.268" in str(halved)


def test_where_noise_hides_everything_there_is_no_verdict() -> None:
    centre = np.zeros((1, 4))
    hidden = release_test(
        releases(10.0).release,
        Centres(centre, centre, centre + 1e-3),
        epsilon=1.0,
        delta=1e-5,
        draws=1000,
    )
    assert hidden.outcome == "cannot tell"
    assert "cannot be told apart either" in hidden.reason
    alone = release_test(
        releases().release, Centres(centre, centre, None), epsilon=1.0, delta=1e-5, draws=1000
    )
    assert alone.outcome == "cannot tell"
