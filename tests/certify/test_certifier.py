"""Polishing: each rung of the ladder ends where it should."""

import numpy as np
import pytest
from problems import Small, distance, optimum

from unfit.certify.certifier import Certifier, Promise, longest_row
from unfit.core.losses import LOSSES
from unfit.methods.base import State

NOBODY = np.zeros(0, np.int64)


@pytest.fixture
def small() -> Small:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) / 3
    codes = (X[:, 0] + 0.3 * rng.standard_normal(400) > 0).astype(np.int32)
    return Small(X, codes, 2, 1e-2, np.arange(40))


def certifier(small: Small) -> Certifier:
    radius = longest_row(small.engine())
    return Certifier(promise=Promise(1.0, 1e-5, 1e-3), l2=small.l2, radius=radius)


@pytest.mark.parametrize(("off", "most"), [(1e-9, 0), (2e-3, 1), (0.05, 2), (30.0, 4)])
def test_weights_that_are_off_are_brought_near_in_few_steps(
    small: Small, off: float, most: int
) -> None:
    """From next to the optimum, from where one Newton step does, and from far away."""
    best = optimum(small, np.ones(400, np.bool_))
    start = best.astype(np.float64) + off / np.sqrt(6)
    made = certifier(small)
    found = made.polish(None, State("fisher", start, 400), small.engine(), NOBODY)
    assert found.steps <= most
    assert (found.steps == 0) == (off < made.room)
    assert distance(found.centre, best) <= found.distance <= made.room


def test_a_loss_without_self_concordance_is_bounded_by_its_gradient(small: Small) -> None:
    hinge = Small(small.X, small.codes, 2, small.l2, small.deleted, LOSSES["squared-hinge"]())
    start = State("fisher", np.zeros((1, 6)), 360)
    data = hinge.engine()
    found = certifier(hinge).polish(start, start, data, hinge.deleted)
    assert found.bound == "gradient"
    mask = hinge.mask
    gradient = data.gradient_sum(found.centre, mask) + hinge.l2 * 360 * found.centre
    assert np.linalg.norm(gradient) / (hinge.l2 * 360) <= found.distance


def test_the_longest_row_counts_the_intercept(small: Small) -> None:
    longest = np.sqrt((small.X**2).sum(axis=1).max() + 1)
    assert longest <= longest_row(small.engine()) <= longest * (1 + 1e-9)


def test_no_two_releases_are_alike_and_a_release_is_about_its_centre(small: Small) -> None:
    made, centre = certifier(small), np.zeros((1, 6))
    drawn = np.array([made.release(centre) for _ in range(500)])
    assert len(np.unique(drawn[:, 0, 0])) > 450  # of a grid of a few thousand places
    assert np.abs(drawn.mean(axis=0)).max() < 3e-4
    assert drawn.std() == pytest.approx(1e-3, rel=0.06)
