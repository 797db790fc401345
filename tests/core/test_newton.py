"""Newton against scikit-learn, and its promise about the residual."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from test_objective import problem

from unfit.core.newton import minimize
from unfit.core.objective import hessian_sum, value_gradient_sum


def solve(rows, l2, start=None, tolerance=1e-9):
    k = 1 if rows.codes.max() < 2 else rows.codes.max() + 1
    ridge = l2 * len(rows)

    def value_gradient(W):
        value, gradient = value_gradient_sum(rows, W)
        return value + 0.5 * ridge * (W * W).sum(axis=1), gradient + ridge * W

    def hessian(W):
        return hessian_sum(rows, W) + ridge * np.eye(rows.d)

    start = np.zeros((k, rows.d)) if start is None else start
    return minimize(value_gradient, hessian, start, tolerance)


@pytest.mark.parametrize("l2", [1e-4, 1e-2])
def test_the_minimum_is_scikit_learns(l2):
    rows, _ = problem(n=300, p=8, intercept=False)
    found = solve(rows, l2)
    theirs = LogisticRegression(C=1 / (l2 * 300), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(rows.X, rows.codes)
    np.testing.assert_allclose(found.weights, theirs.coef_, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 300), far=st.floats(0, 30), n_classes=st.sampled_from([2, 4]))
def test_converges_from_far_away(seed, far, n_classes):
    rows, W = problem(seed, n=60, p=5, n_classes=n_classes)
    found = solve(rows, 1e-2, start=far * W)
    assert found.converged
    assert (found.residual <= 1e-9).all()


def test_an_impossible_tolerance_ends():
    rows, _ = problem(n=100)
    found = solve(rows, 1e-3, tolerance=0.0)
    assert (found.residual < 1e-10).all()
