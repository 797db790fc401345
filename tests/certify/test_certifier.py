"""Polishing: each rung of the ladder ends where it should."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from problems import Small, distance, optimum

import unfit
from unfit import LogisticRegression
from unfit.certify.certifier import Certifier, Promise
from unfit.certify.lengths import RowLengths, Spread
from unfit.certify.polishing import stated
from unfit.core.losses import LOSSES, Logistic, Loss, SquaredError, SquaredHinge
from unfit.errors import Unavailable
from unfit.methods.base import State

NOBODY = np.zeros(0, np.int64)


@pytest.fixture
def small() -> Small:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) / 3
    codes = (X[:, 0] + 0.3 * rng.standard_normal(400) > 0).astype(np.int32)
    return Small(X, codes, 2, 1e-2, np.arange(40))


def certifier(small: Small) -> Certifier:
    radius = RowLengths.of(small.engine()).radius
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


@pytest.mark.parametrize(
    ("distance", "said"), [(1.234e-5, 1.3e-5), (9.96e-3, 1e-2), (math.inf, math.inf)]
)
def test_distances_are_stated_in_two_digits_rounded_up(distance: float, said: float) -> None:
    assert stated(distance) == pytest.approx(said, rel=1e-12)
    assert stated(distance) >= distance


def test_the_radius_is_rounded_and_follows_the_rows(small: Small) -> None:
    """What it is after a deletion is what the remaining rows give, and nobody's own length."""
    lengths = np.sqrt((small.X**2).sum(axis=1) + 1)
    data = small.engine()
    found = RowLengths.of(data)
    assert lengths.max() <= found.radius <= lengths.max() * 2 ** (1 / 8) * (1 + 1e-8)
    order = np.argsort(-lengths)
    looked = 0
    for count in range(1, 200, 7):
        gone = order[:count]
        mask = np.ones(400, np.bool_)
        mask[gone] = False
        followed = found.without(data.take(gone))
        looked += followed is None
        assert followed in (None, RowLengths.of(data, mask))
    assert looked > 0


def test_a_pickle_tells_nothing_of_the_longest_row_once_it_is_gone(small: Small) -> None:
    X, y = small.X.copy(), small.codes
    X[7] *= 100 / np.linalg.norm(X[7])
    clf = unfit.LogisticRegression(epsilon=1.0, l2=1e-2, dtype="float64").fit(X, y)
    assert clf._releases.certifier.radius > 90
    clf.unlearn([7])
    again = unfit.LogisticRegression(epsilon=1.0, l2=1e-2, dtype="float64")
    again.fit(np.delete(X, 7, axis=0), np.delete(y, 7))
    assert clf._releases.lengths == again._releases.lengths
    assert clf._releases.certifier == again._releases.certifier


def test_the_spread_of_rows_goes_when_rows_go(small: Small) -> None:
    """It is measured with the sums, of the rows that remain then, and is in no pickle."""
    clf = unfit.LogisticRegression(epsilon=1.0, l2=1e-2, dtype="float64").fit(small.X, small.codes)
    fresh = clf._releases.spread
    assert fresh is not None
    assert pickle.loads(pickle.dumps(clf))._releases.spread is None
    clf.unlearn([3, 4])
    assert clf._releases.spread is None
    clf.prepare()
    X, codes = (np.delete(values, [3, 4], axis=0) for values in (small.X, small.codes))
    again = Small(X, codes, 2, 1e-2, NOBODY)
    np.testing.assert_allclose(clf._releases.spread.middle, Spread.of(again.engine()).middle)
    assert clf._releases.spread.radius == pytest.approx(Spread.of(again.engine()).radius)
    assert not np.array_equal(clf._releases.spread.middle, fresh.middle)


def test_no_two_releases_are_alike_and_a_release_is_about_its_centre(small: Small) -> None:
    made, centre = certifier(small), np.zeros((1, 6))
    drawn = np.array([made.release(centre) for _ in range(500)])
    assert len(np.unique(drawn[:, 0, 0])) > 350  # of a grid of a few thousand places
    assert np.abs(drawn.mean(axis=0)).max() < 3e-4
    assert drawn.std() == pytest.approx(1e-3, rel=0.06)


@pytest.mark.parametrize("classes", [2, 3])
def test_wide_rows_far_away_are_polished_by_products_alone(classes: int) -> None:
    """Most of a class leaves: what FISHER's step leaves undone needs no Hessian, and ends within
    the distance that is stated."""
    rng = np.random.default_rng(classes)
    X = rng.standard_normal((700, 300)).astype(np.float32)
    y = (X[:, :classes] + 0.3 * rng.standard_normal((700, classes))).argmax(axis=1)
    model = LogisticRegression("fisher", l2=1e-3, epsilon=1.0, delta=1e-5, noise=1e-3).fit(X, y)
    data, deleted = model._data, np.flatnonzero(y == 1)[:180]
    asked = []
    data.factors = lambda *given: asked.append(given)  # type: ignore[method-assign]
    model.unlearn(deleted)
    del data.factors
    certificate = model.certificate_
    assert certificate is not None
    assert not asked
    assert certificate.bound == "gradient"
    assert certificate.steps == 1
    exact = LogisticRegression("retrain", l2=1e-3, tol=1e-13)
    exact.fit(np.delete(X, deleted, axis=0), np.delete(y, deleted))
    off = float(np.linalg.norm(model._state.centre - exact._state.centre))
    assert off <= certificate.distance <= Promise(1.0, 1e-5, 1e-3).mu * 1e-3


@pytest.mark.parametrize("noise", [0.0, -1.0, 1e-310, 1e308, np.inf, np.nan])
def test_noise_that_no_release_can_have_is_refused(noise: float) -> None:
    with pytest.raises(ValueError, match="noise must be a number between 1e-100 and 1e.100"):
        Promise(1.0, 1e-5, noise)


class Steep(Logistic):
    name = "steep"
    max_slope = 0.5


class Curved(Logistic):
    name = "curved"
    max_curvature = 0.2


class Kinked(SquaredHinge):
    name = "kinked"
    self_concordant = True


class Concave(SquaredError):
    name = "concave"

    @staticmethod
    def slope(margin: Any, target: Any) -> Any:
        return -margin

    @staticmethod
    def curvature(margin: Any, target: Any) -> Any:
        return 0.0 * margin - 1.0


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Steep, "loss 'steep': its slope is larger than max_slope"),
        (Curved, "loss 'curved': its curvature is larger than max_curvature"),
        (Kinked, "loss 'kinked': its curvature changes faster than that of a self_concordant loss"),
        (Concave, "loss 'concave': it is not convex"),
    ],
)
def test_a_loss_that_breaks_what_it_declares_is_refused(loss: type[Loss], words: str) -> None:
    class Classifier(LogisticRegression):
        pass

    Classifier.loss = loss()
    X = np.random.default_rng(0).standard_normal((50, 2))
    with pytest.raises(Unavailable, match=words):
        Classifier(epsilon=1.0, dtype="float64", method="retrain").fit(X, X[:, 0] > 0)
