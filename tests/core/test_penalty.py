"""Penalties per row and constant, with and without the intercept, in every way to a Hessian."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from test_objective import problem
from test_weighted_rows import weighted

from unfit.core.factors import Inverse, Spectrum
from unfit.core.fixed_point import NARROW, FixedPoint
from unfit.core.objective import hessian_sum, value_gradient_sum
from unfit.core.penalty import Penalty, penalty_value, with_ridge
from unfit.core.statistics import Statistics, factors_without, gradient_of_rows

PENALTIES = [
    Penalty(per_row, constant, intercept)
    for per_row, constant in ((1e-2, 0.0), (0.0, 0.7), (1e-3, 0.2))
    for intercept in (True, False)
]
penalties = st.sampled_from(PENALTIES)


@given(penalty=penalties, n=st.floats(1, 1e6), m=st.floats(0, 1), d=st.integers(2, 6))
def test_what_leaves_with_rows_is_the_difference_of_two_penalties(penalty, n, m, d):
    difference = penalty.diagonal(n, d) - penalty.diagonal(n - m * n, d)
    leaving = np.broadcast_to(penalty.leaving(m * n, d), d)
    np.testing.assert_allclose(leaving, difference, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(np.broadcast_to(penalty.on(n, d), d), penalty.diagonal(n, d))
    assert penalty.diagonal(n, d)[0] == penalty.ridge(n)
    assert penalty.diagonal(n, d)[-1] == (penalty.ridge(n) if penalty.intercept else 0)
    assert penalty.per_row_of(n) * n == pytest.approx(penalty.ridge(n))


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_gradient_and_hessian_are_derivatives_of_the_whole_objective(penalty):
    rows, _, W = weighted(1, n=40)
    found = Statistics.of_rows(rows, W, penalty)

    def value(w):
        ridge = penalty.on(rows.total_weight, rows.d)
        return value_gradient_sum(rows, w[None])[0][0] + penalty_value(w[None], ridge)[0]

    def gradient(w):
        return Statistics.of_rows(rows, w[None], penalty).gradient_sum[0]

    numeric = approx_fprime(W[0], value, 1e-7)
    np.testing.assert_allclose(found.gradient_sum[0], numeric, rtol=1e-4, atol=1e-4)
    numeric = approx_fprime(W[0], gradient, 1e-7)
    np.testing.assert_allclose(found.hessian_sum[0], numeric, rtol=1e-4, atol=1e-4)


@given(seed=st.integers(0, 200), share=st.floats(0.02, 0.9), penalty=penalties)
def test_what_is_taken_off_leaves_the_constant_where_it_was(seed, share, penalty):
    rows, _, W = weighted(seed, n=50, n_classes=3)
    leaving = np.random.default_rng(seed).random(50) < share
    whole, gone, left = (
        Statistics.of_rows(some, W, penalty)
        for some in (rows, rows.take(leaving), rows.take(~leaving))
    )
    for one, other in ((whole.minus(gone), left), (left.plus(gone), whole)):
        assert (one.n, one.total_weight) == (other.n, other.total_weight)
        np.testing.assert_allclose(one.gradient_sum, other.gradient_sum, atol=1e-9)
        np.testing.assert_allclose(one.hessian_sum, other.hessian_sum, atol=1e-9)
    of_leaving = gradient_of_rows(rows.take(leaving), W, penalty)
    np.testing.assert_allclose(whole.gradient_sum - of_leaving, left.gradient_sum, atol=1e-9)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("way", ["factorize", "woodbury", "spectrum", "iterate"])
@given(seed=st.integers(0, 200), m=st.integers(1, 12))
def test_every_way_gives_the_hessian_of_what_remains(way, penalty, seed, m):
    rows, _, W = weighted(seed, n=200, p=60)
    statistics = Statistics.of_rows(rows, W, penalty).with_factors(way == "spectrum")
    kind = Spectrum if way == "spectrum" and penalty.uniform else Inverse
    assert isinstance(statistics.factors[0], kind)
    going = np.random.default_rng(seed).choice(200, 5 * m if way == "iterate" else m, replace=False)
    way = "woodbury" if way == "spectrum" else way
    (found,) = factors_without(statistics, rows.take(going), way)
    left = rows.take(np.delete(np.arange(200), going))
    H = Statistics.of_rows(left, W, penalty).hessian_sum[0]
    rhs = np.random.default_rng(seed + 1).standard_normal(61)
    expected = np.linalg.solve(H, rhs)
    assert np.linalg.norm(found.solve(rhs) - expected) <= 1e-8 * np.linalg.norm(expected)
    values, vectors = np.linalg.eigh(H)
    root = vectors @ (values**-0.25 * (vectors.T @ rhs))
    close = 1e-7 * np.linalg.norm(root)
    assert np.linalg.norm(found.inverse_fourth_root(rhs) - root) <= close


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("p", [20, NARROW + 4])
def test_a_fixed_point_follows_weighted_rows_and_any_penalty(penalty, p):
    rows, _, W = weighted(4, n=900, p=p)
    W = W / np.sqrt(p)
    known = Statistics.of_rows(rows, W, penalty).with_factors(roots=False)
    point = FixedPoint.of(known)
    gone = np.arange(12)
    for part in (gone[:5], gone[5:]):
        point = point.without(rows.take(part))
    left = Statistics.of_rows(rows.take(np.arange(12, 900)), W, penalty)
    np.testing.assert_allclose(point.now, left.gradient_sum, atol=1e-9)
    # With many columns the point leaves the shift out, but for that of a mean row.
    beyond = rows.take(gone).total_weight - known.total_weight / known.n
    shift = 0.0 if point.narrow else penalty.leaving(beyond, rows.d)
    H = with_ridge(left.hessian_sum.copy(), shift)[0]
    expected = np.linalg.solve(H, left.gradient_sum[0])
    step = point.solve(remaining=1.0, deleted=0.0)[0]
    assert np.linalg.norm(step - expected) <= 1e-8 * np.linalg.norm(expected)


def test_a_ridge_is_added_to_each_diagonal():
    rows, W = problem(n_classes=3)
    hessians = hessian_sum(rows, W)
    ridge = np.arange(6.0)
    np.testing.assert_array_equal(
        with_ridge(hessians.copy(), ridge), hessians + np.diag(ridge)[None]
    )
