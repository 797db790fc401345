"""NEWTON and RETRAIN by products: exact, and without a Hessian where one would be dearer."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import unfit
from unfit.core import inexact_newton
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.methods import METHODS, Settings
from unfit.methods.minimum import Objective, minimize
from watched import N, Watched, wide


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_optimum_of_many_columns_takes_no_hessian(classes):
    data = wide(classes)
    method = METHODS["retrain"](Settings(tol=1e-10))
    found = method.minimum(data)
    assert found.converged
    assert found.hessians == data.hessians == 0
    assert found.products > 0
    for c in range(data.k):
        theirs = LogisticRegression(C=1 / (1e-4 * N), tol=1e-12, solver="newton-cholesky")
        X = np.column_stack([data.rows.X.astype(np.float64), np.ones(N)])
        theirs.set_params(fit_intercept=False).fit(X, data.codes == (1 if classes == 2 else c))
        np.testing.assert_allclose(found.weights[c], theirs.coef_[0], atol=2e-5)


def test_retraining_many_columns_takes_no_hessian_and_few_passes():
    data = wide()
    method = METHODS["retrain"](Settings())
    state = method.train(data, rng())
    before = data.rows_read
    after = method.unlearn(state, data, np.arange(30), rng())
    assert data.hessians == 0
    assert data.rows_read - before <= 40 * N
    mask = data.without(np.arange(30))
    gradient = data.gradient_sum(after.weights, mask) + 1e-4 * (N - 30) * after.weights
    assert np.linalg.norm(gradient) <= 1e-8 * (N - 30)


def test_few_columns_take_hessians():
    X = np.random.default_rng(0).standard_normal((500, 6)).astype(np.float32)
    data = Watched(Rows(X, (X[:, 0] > 0).astype(np.int32), True), 2)
    assert METHODS["retrain"](Settings()).minimum(data).hessians == data.hessians > 0


@pytest.mark.parametrize("classes", [2, 3])
def test_newton_goes_on_from_the_inverse_at_hand(classes):
    """Prepared once, three requests of few rows each take few passes and no new Hessian."""
    data = wide(classes)
    method = METHODS["newton"](Settings())
    state = method.prepare(method.train(data, rng()), data)
    made, unguided = data.hessians, METHODS["retrain"](Settings(tol=1e-12))
    for gone in np.split(np.arange(60), 3):
        mask = data.without(gone)
        plain = unguided.minimum(data, mask, start=state.centre)
        before = data.rows_read
        state = method.unlearn(state, data, gone, rng())
        passes = (data.rows_read - before) / N
        data.forget(gone)
        assert passes < 0.5 * plain.passes
        np.testing.assert_allclose(state.weights, plain.weights, rtol=1e-6, atol=1e-8)
        state = method.prepare(state, data)
    assert data.hessians == made


def test_an_inverse_is_not_kept_when_many_rows_leave():
    data = wide()
    method = METHODS["newton"](Settings())
    state = method.prepare(method.train(data, rng()), data)
    after = method.unlearn(state, data, np.arange(1000), rng())
    assert after.stale_inverse is None
    goal = METHODS["retrain"](Settings(tol=1e-12)).minimum(data, data.without(np.arange(1000)))
    np.testing.assert_allclose(after.weights, goal.weights, rtol=1e-6, atol=1e-8)


def test_the_number_of_steps_and_the_residual_can_be_set():
    data = wide()
    gone = np.arange(200)
    ways = {"one": {"steps": 1}, "two": {"steps": 2}, "loose": {"residual": 1e-3}, "all": {}}
    left = {}
    for name, options in ways.items():
        settings = Settings(options=tuple(options.items()))
        method = METHODS["newton"](settings)
        state = method.prepare(method.train(data, rng()), data)
        W = method.unlearn(state, data, gone, rng()).weights
        gradient = data.gradient_sum(W, data.without(gone)) + 1e-4 * (N - 200) * W
        left[name] = np.linalg.norm(gradient) / (N - 200)
    assert left["all"] <= 1e-12 < left["two"] < left["one"]
    assert 1e-8 < left["loose"] <= 1e-3


@pytest.mark.parametrize(("l2", "hard"), [(1e-6, True), (1e-2, False)])
def test_a_sample_never_doubles_the_work_and_easy_fits_take_none(l2, hard):
    objective = Objective(data=wide(), mask=None, penalty=Penalty(l2))
    found = minimize(objective, 1e-6)
    start = np.zeros_like(found.weights)
    plain = inexact_newton.minimize(objective.value_gradient_products, start, 1e-6 * N)
    assert found.converged
    if hard:  # more products than a sample costs, so that one was taken
        assert plain.products > objective.sizes.products_per_guide()
        assert found.products < 2 * plain.products
    else:  # fewer products are needed than a sample costs
        assert found.products == plain.products < objective.sizes.products_per_guide()


def test_the_estimator_takes_the_method_and_its_options():
    data = wide()
    clf = unfit.LogisticRegression("newton", options={"steps": 2}, random_state=0)
    clf.fit(data.rows.X, data.codes).unlearn([1, 2, 3])
    whole = unfit.LogisticRegression("newton", random_state=0)
    whole.fit(data.rows.X, data.codes).unlearn([1, 2, 3])
    np.testing.assert_allclose(clf.coef_, whole.coef_, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="option 'steps' of method 'newton'"):
        unfit.LogisticRegression("newton", options={"steps": -1}).fit(data.rows.X, data.codes)


def test_certificates_and_audits_take_a_method_with_options():
    """What they compare with is RETRAIN, which has none of them."""
    data = wide(columns=20)
    clf = unfit.LogisticRegression(
        "newton", options={"steps": 3}, epsilon=1.0, delta=1e-5, noise=1e-2, l2=1e-2
    )
    clf.fit(data.rows.X, data.codes).unlearn([1, 2, 3])
    assert clf.certificate_.epsilon == 1.0
    assert clf.audit().verdict != "not forgotten"


def test_a_guide_of_other_rows_does_no_harm():
    """Inverses that belong to another problem are found out, and the optimum is the same."""
    data = wide()
    method = METHODS["newton"](Settings())
    state = method.prepare(method.train(data, rng()), data)
    assert state.statistics is not None
    wrong = [replace(f, rough=f.rough[::-1, ::-1].copy()) for f in state.statistics.factors]
    misled = replace(state, statistics=replace(state.statistics, factors=wrong))
    gone = np.arange(1000)
    found = method.unlearn(misled, data, gone, rng())
    goal = METHODS["retrain"](Settings(tol=1e-12)).minimum(data, data.without(gone))
    np.testing.assert_allclose(found.weights, goal.weights, rtol=1e-6, atol=1e-8)
