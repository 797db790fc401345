"""Newton by products against Newton with Hessians and scikit-learn, counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from test_newton import solve
from test_objective import problem

from unfit.core.conjugate_gradients import Offer
from unfit.core.factors import Cholesky
from unfit.core.inexact_newton import minimize
from unfit.core.objective import Rows, hessian_sum, value_gradient_products


class Objective:
    """The regularised objective of some rows, its calls counted."""

    def __init__(self, rows, l2):
        self.rows, self.ridge = rows, l2 * len(rows)
        self.k = 1 if rows.codes.max() < 2 else int(rows.codes.max()) + 1
        self.evaluations = self.products = 0

    def __call__(self, W):
        self.evaluations += 1
        value, gradient, products = value_gradient_products(self.rows, W)

        def regularised(problems, V):
            self.products += 1
            return products(problems, V) + self.ridge * V

        value = value + 0.5 * self.ridge * (W * W).sum(axis=1)
        return value, gradient + self.ridge * W, regularised

    def factors(self, W):
        eye = self.ridge * np.eye(self.rows.d)
        return [Cholesky.of(H + eye) for H in hessian_sum(self.rows, W)]

    def minimum(self, start=None, tolerance=1e-9, **settings):
        start = np.zeros((self.k, self.rows.d)) if start is None else start
        return minimize(self, start, tolerance, **settings)


def wide_rows(n=2000, p=60, classes=2, dtype=np.float32, seed=0):
    """Columns of falling size, like images'; norms about 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) / np.arange(1, p + 1)
    codes = np.argmax(X[:, :classes] + 0.2 * rng.standard_normal((n, classes)), axis=1)
    return Rows(X.astype(dtype), codes.astype(np.int32), True)


@pytest.mark.parametrize("l2", [1e-4, 1e-2])
def test_the_minimum_is_scikit_learns(l2):
    rows, _ = problem(n=300, p=8, intercept=False)
    found = Objective(rows, l2).minimum()
    theirs = LogisticRegression(C=1 / (l2 * 300), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(rows.X, rows.codes)
    np.testing.assert_allclose(found.weights, theirs.coef_, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 300), far=st.floats(0, 30), n_classes=st.sampled_from([2, 4]))
def test_converges_from_far_away(seed, far, n_classes):
    rows, W = problem(seed, n=60, p=5, n_classes=n_classes)
    found = Objective(rows, 1e-2).minimum(far * W)
    assert found.converged
    assert (found.residual <= 1e-9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_minimum_is_that_of_newton_with_hessians(classes, dtype):
    rows = wide_rows(classes=classes)
    found = Objective(rows, 1e-4).minimum(tolerance=1e-8, dtype=dtype)
    goal = solve(rows, 1e-4, tolerance=1e-8)
    assert found.converged
    np.testing.assert_allclose(found.weights, goal.weights, rtol=1e-5, atol=1e-6)


def test_what_it_took_is_counted():
    objective = Objective(wide_rows(classes=3), 1e-4)
    found = objective.minimum(tolerance=1e-5)
    assert found.products == objective.products
    assert found.passes == objective.products + objective.evaluations
    assert found.hessians == 0
    assert 0 < found.steps < objective.evaluations


def test_steps_are_not_solved_further_than_the_curvature_allows():
    """Forcing terms take fewer products than solving every step to 1e-6."""
    objective = Objective(wide_rows(), 1e-5)
    loose = objective.minimum(tolerance=2e-5)
    W, tight = np.zeros((1, objective.rows.d)), 0
    for _ in range(loose.steps):
        step = objective.minimum(W, 0.0, max_steps=1, first=1e-6)
        W, tight = step.weights, tight + step.products
    assert loose.products < 0.7 * tight


def test_a_problem_that_is_done_is_not_asked_for_again():
    rows = wide_rows(classes=3)
    objective = Objective(rows, 1e-4)
    goal = objective.minimum(tolerance=1e-7).weights
    start = goal + 0.0
    start[1] = 0
    asked = set()

    def watched(W):
        value, gradient, products = objective(W)

        def noted(problems, V):
            asked.update(problems.tolist())
            return products(problems, V)

        return value, gradient, noted

    found = minimize(watched, start, 1e-5)
    assert found.converged
    assert asked == {1}
    np.testing.assert_array_equal(found.weights[[0, 2]], goal[[0, 2]])


def test_a_guide_saves_products_and_changes_nothing_else():
    objective = Objective(wide_rows(classes=3), 1e-6)
    plain = objective.minimum(tolerance=1e-7)
    start = plain.weights * 0.9
    without = objective.minimum(start, tolerance=1e-7)
    guided = objective.minimum(start, tolerance=1e-7, guide=objective.factors(plain.weights))
    assert guided.converged
    assert guided.products < 0.5 * without.products
    np.testing.assert_allclose(guided.weights, without.weights, rtol=1e-4, atol=1e-5)


def test_a_guide_that_misleads_does_not_spoil_the_minimum():
    objective = Objective(wide_rows(), 1e-4)
    wrong = [Cholesky.of(np.diag(np.geomspace(1, 1e6, objective.rows.d)))]
    found = objective.minimum(tolerance=1e-7, guide=wrong)
    assert found.converged
    goal = objective.minimum(tolerance=1e-7).weights
    np.testing.assert_allclose(found.weights, goal, rtol=1e-4, atol=1e-5)


def test_an_offer_is_taken_where_products_are_many_and_only_there():
    for l2, expected in ((1e-8, 1), (1e-1, 0)):
        objective = Objective(wide_rows(p=100), l2)
        calls = []

        def make(W, objective=objective, calls=calls):
            calls.append(W)
            return objective.factors(W)

        offered = objective.minimum(tolerance=1e-4, offer=Offer(make=make, products=30))
        plain = objective.minimum(tolerance=1e-4)
        assert offered.converged
        assert len(calls) == expected
        assert offered.products < plain.products or not expected


def test_at_least_so_many_steps():
    objective = Objective(wide_rows(), 1e-4)
    goal = objective.minimum(tolerance=1e-6).weights
    found = objective.minimum(goal, tolerance=1.0, min_steps=1)
    assert found.steps == 1
    assert found.residual[0] < 1e-6
    assert objective.minimum(goal, tolerance=1.0).steps == 0


def test_at_most_so_many_steps():
    found = Objective(wide_rows(), 1e-4).minimum(tolerance=1e-9, max_steps=2)
    assert found.steps == 2
    assert not found.converged


def test_an_impossible_tolerance_ends():
    rows, _ = problem(n=100)
    found = Objective(rows, 1e-3).minimum(tolerance=0.0)
    assert (found.residual < 1e-10).all()


def test_float32_products_lead_to_a_float64_residual():
    objective = Objective(wide_rows(), 1e-4)
    found = objective.minimum(tolerance=1e-10 * 2000, dtype=np.float32)
    assert found.converged
    _, gradient, _ = objective(found.weights)
    assert np.linalg.norm(gradient) <= 1e-10 * 2000
