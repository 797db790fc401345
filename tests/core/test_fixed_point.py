"""Steps from one point, against the same step worked out from all remaining rows."""

import numpy as np
import pytest

from unfit.core import fixed_point
from unfit.core.factors import TooFar
from unfit.core.fixed_point import FixedPoint
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics

L2 = 1e-3


def problem(d: int, k: int, intercept: bool) -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng(d + 10 * k)
    X = rng.standard_normal((900, d)) / np.sqrt(d)
    codes = rng.integers(0, max(2, k), 900)
    return Rows(X, codes, intercept), 0.3 * rng.standard_normal((k, d + intercept))


def taken(rows: Rows, places: np.ndarray) -> Rows:
    return Rows(rows.X[places], rows.codes[places], rows.intercept, rows.loss)


@pytest.mark.parametrize("d", [12, 300])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_step_is_that_of_the_sums_over_what_remains(d: int, k: int, intercept: bool) -> None:
    rows, W = problem(d, k, intercept)
    point = FixedPoint.of(Statistics.of_rows(rows, W, Penalty(L2)).with_factors(roots=False))
    assert point is not None
    gone = np.zeros(900, bool)
    for some in ([3], [5, 8, 13], list(range(100, 120))):
        point = point.without(taken(rows, np.array(some)))
        gone[some] = True
        left = Statistics.of_rows(taken(rows, np.flatnonzero(~gone)), W, Penalty(L2))
        were = Statistics.of_rows(taken(rows, np.flatnonzero(gone)), W, Penalty(L2))
        np.testing.assert_allclose(point.now, left.gradient_sum, rtol=1e-9, atol=1e-11)
        # The shift of the ridge is left out where there are many columns, but for that of one row.
        shift = 0.0 if point.narrow else L2 * (int(gone.sum()) - 1)
        hessian = left.hessian_sum + shift * np.eye(W.shape[1])
        for remaining, deleted in ((-1.0, 0.0), (0.0, 1.0)):
            target = remaining * left.gradient_sum + deleted * were.gradient_sum
            exact = np.array([np.linalg.solve(h, v) for h, v in zip(hessian, target, strict=True)])
            step = point.solve(remaining=remaining, deleted=deleted)
            np.testing.assert_allclose(step, exact, rtol=1e-7, atol=1e-10)
        v = np.random.default_rng(0).standard_normal(W.shape)
        exact = np.array([np.linalg.solve(h, one) for h, one in zip(hessian, v, strict=True)])
        np.testing.assert_allclose(point.solve_for(v), exact, rtol=1e-7, atol=1e-10)


def test_too_many_rows_are_too_far() -> None:
    rows, W = problem(300, 1, False)
    point = FixedPoint.of(Statistics.of_rows(rows, W, Penalty(L2)).with_factors(roots=False))
    assert point is not None
    with pytest.raises(TooFar):
        point.without(taken(rows, np.arange(int(fixed_point._AT_ONCE * 300) + 1)))


def test_without_inverses_there_is_no_point() -> None:
    rows, W = problem(300, 1, False)
    assert FixedPoint.of(Statistics.of_rows(rows, W, Penalty(L2))) is None
