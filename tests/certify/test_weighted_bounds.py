"""Certified distances of weighted rows and constant penalties are never below the truth."""

from collections import Counter

import numpy as np
import pytest

import unfit
from unfit.certify import bounds
from unfit.certify.known import Leaving
from unfit.core.objective import Rows, hessian_sum, value_gradient_sum
from unfit.core.penalty import Penalty, with_ridge
from unfit.errors import Unavailable


def test_rows_that_leave_count_as_often_as_they_weigh() -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((20, 3)), rng.integers(0, 3, 20).astype(np.int32)
    times = rng.integers(0, 4, 20)
    weighted = Rows(X, codes, True, sample_weight=times.astype(float))
    repeated = Rows(X, codes, True).take(np.arange(20).repeat(times))
    W, step = rng.standard_normal((2, 3, 4))
    one, other = Leaving.of(weighted, W), Leaving.of(repeated, W)
    np.testing.assert_allclose(one.gradient(), other.gradient())
    np.testing.assert_allclose(one.product(step), other.product(step))


def optimum(rows: Rows, penalty: Penalty, start: np.ndarray) -> np.ndarray:
    """By plain Newton steps in float64, from weights that are near."""
    W = start.copy()
    ridge = penalty.on(rows.total_weight, rows.d)
    for _ in range(30):
        gradient = value_gradient_sum(rows, W)[1] + ridge * W
        hessians = with_ridge(hessian_sum(rows, W), ridge)
        steps = [np.linalg.solve(h, g) for h, g in zip(hessians, gradient, strict=True)]
        W = W - np.array(steps)
    return W


def deletions(seed: int) -> list[tuple[float, float, str]]:
    """Of one random problem and three requests: the distance claimed, the true one, the bound."""
    rng = np.random.default_rng(seed)
    n, p, classes = 300, int(rng.integers(1, 6)), int(rng.integers(2, 4))
    X = rng.standard_normal((n, p)) * 10 ** rng.uniform(-1, 0.5)
    y = rng.integers(0, classes, n)
    weights = 10 ** rng.uniform(-2, 2, n)
    l2 = 10 ** rng.uniform(-3, -1)
    constant = bool(rng.integers(2))
    chosen = {"C": 1 / (l2 * weights.sum())} if constant else {"l2": l2}
    penalty = Penalty(0.0, l2 * weights.sum()) if constant else Penalty(l2)
    clf = unfit.LogisticRegression(epsilon=1.0, noise=1e-3, dtype="float64", **chosen)
    clf.fit(X, y, weights)
    found = []
    for count in (1, 3, 40):
        clf.prepare().unlearn(rng.choice(np.flatnonzero(clf.remaining_), count, replace=False))
        left = clf._data.take(np.flatnonzero(clf.remaining_))
        exact = optimum(left, penalty, clf._state.centre)
        apart = float(np.linalg.norm(clf._state.centre - exact))
        assert clf.certificate_ is not None
        found.append((clf.certificate_.distance, apart, clf.certificate_.bound))
    return found


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 400), marks=pytest.mark.slow)])
def test_no_bound_is_below_the_truth(seeds: range) -> None:
    kinds: Counter[str] = Counter()
    for seed in seeds:
        for claimed, apart, bound in deletions(seed):
            assert apart <= claimed + 1e-13, seed
            kinds[bound] += 1
    assert set(kinds) == {"step", "gradient", "factor"}


@pytest.mark.parametrize("weight", [1e-30, 1e-3, 1e30])
def test_the_scale_of_weights_changes_no_certificate(weight: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = X[:, 0] + 0.3 * rng.standard_normal(400) > 0
    clf = unfit.LogisticRegression(epsilon=1.0, noise=1e-3, l2=1e-3, dtype="float64")
    clf.fit(X, y, np.full(400, weight)).unlearn([0])
    plain = unfit.LogisticRegression(l2=1e-3, tol=1e-13, dtype="float64").fit(X[1:], y[1:])
    apart = np.linalg.norm(clf._state.centre - np.append(plain.coef_, plain.intercept_))
    assert clf.certificate_ is not None
    assert apart <= clf.certificate_.distance <= 1e-4


def test_with_next_to_no_penalty_nothing_is_certified() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    clf = unfit.LogisticRegression(epsilon=1.0, noise=1e90, l2=1e-94, dtype="float64")
    with pytest.raises(Unavailable, match="remain is 1e-122, .* too small for sums in float64"):
        clf.fit(X, X[:, 0] > 0, np.full(100, 1e-30))


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-160, 1.0])
def test_lengths_hold_where_squares_do_not(scale: float) -> None:
    problem = bounds.Problem(
        n=0,
        total_weight=0.0,
        summed_ridge=0.0,
        d=2,
        ridge=1.0,
        radius=1.0,
        max_curvature=0.25,
        max_slope=1.0,
        slope_at_zero=0.5,
    )
    v = np.array([[3.0, 4.0]]) * scale
    assert bounds.by_gradient(problem, np.zeros((1, 2)), v) == pytest.approx(
        5 * scale, rel=1e-3, abs=0
    )
    assert bounds.reaches(problem, v) == [pytest.approx(5 * scale, rel=1e-3, abs=0)]
