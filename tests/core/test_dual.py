"""Hessians of fewer rows than columns, against the dense ones."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

import reference
import unfit
from unfit.core.dual import Gram
from unfit.core.losses import SquaredHinge
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings
from unfit.methods.onestep import STREAM_TOLERANCE


def problem(n=60, p=300, classes=2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    codes = (X @ rng.standard_normal((p, classes))).argmax(axis=1).astype(np.int32)
    return X, codes


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 40),
    p=st.integers(1, 60),
    ridge=st.sampled_from([1e-6, 1e-2, 1.0, 1e3]),
    seed=st.integers(0, 99),
    intercept=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_solves_and_roots_are_those_of_the_dense_hessian(n, p, ridge, seed, intercept, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, p))
    if n > 3:
        X[1] = X[0]  # a Gram matrix that is singular
    rows = Rows(X, np.zeros(n, np.int32), intercept)
    mask = rng.random(n) < 0.8
    mask[0] = True
    w = rng.standard_normal((1, rows.d)) / scale
    (factor,) = Gram.of(rows, np.ones(n, np.bool_)).factors(w, mask, ridge)
    dense = reference.with_ones(X[mask], intercept)
    chance = 1 / (1 + np.exp(-dense @ w[0]))
    H = dense.T @ ((chance * (1 - chance))[:, None] * dense) + ridge * np.eye(rows.d)
    b = rng.standard_normal(rows.d)
    np.testing.assert_allclose(factor.product(b), H @ b, rtol=1e-9, atol=1e-9 * np.abs(H @ b).max())
    x = factor.solve(b)
    assert np.linalg.norm(H @ x - b) <= 1e-9 * np.linalg.norm(b)
    values, vectors = eigh(H)
    root = vectors @ (values.clip(ridge) ** -0.25 * (vectors.T @ b))
    assert np.linalg.norm(factor.inverse_fourth_root(b) - root) <= 1e-7 * np.linalg.norm(root)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 40),
    p=st.integers(1, 60),
    ridge=st.sampled_from([1e-4, 1e-2, 1.0, 1e3]),
    seed=st.integers(0, 99),
    weighted=st.booleans(),
)
def test_a_free_intercept_is_that_of_the_dense_hessian(n, p, ridge, seed, weighted):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 3.0, n)
    rows = Rows(
        rng.standard_normal((n, p)),
        np.zeros(n, np.int32),
        True,
        sample_weight=weights if weighted else None,
    )
    mask = rng.random(n) < 0.8
    mask[0] = True
    w = rng.standard_normal((1, p + 1))
    diagonal = Penalty(0.0, ridge, intercept=False).diagonal(1, p + 1)
    (factor,) = Gram.of(rows, np.ones(n, np.bool_)).factors(w, mask, diagonal)
    dense = reference.with_ones(rows.X[mask], True)
    chance = 1 / (1 + np.exp(-dense @ w[0]))
    curvature = chance * (1 - chance) * (weights[mask] if weighted else 1)
    H = dense.T @ (curvature[:, None] * dense) + np.diag(diagonal)
    b = rng.standard_normal(p + 1)
    np.testing.assert_allclose(factor.product(b), H @ b, rtol=1e-9, atol=1e-9)
    x = factor.solve(b)
    assert np.linalg.norm(H @ x - b) <= 1e-9 * np.linalg.norm(b)
    values, vectors = eigh(H)
    root = vectors @ (values**-0.25 * (vectors.T @ b))
    assert np.linalg.norm(factor.inverse_fourth_root(b) - root) <= 1e-6 * np.linalg.norm(root)


def test_an_intercept_that_nothing_holds_is_an_error_with_a_remedy():
    X = np.full((3, 4), 10.0)
    rows = Rows(X, np.ones(3, np.int32), True, SquaredHinge())
    mask, w = np.ones(3, np.bool_), np.ones((1, 5))  # all margins are beyond the hinge
    diagonal = Penalty(0.0, 1.0, intercept=False).diagonal(1, 5)
    (factor,) = Gram.of(rows, mask).factors(w, mask, diagonal)
    with pytest.raises(np.linalg.LinAlgError, match="nothing holds the intercept; penalise it"):
        factor.solve(np.ones(5))


def test_no_square_of_columns_is_made_for_a_free_intercept():
    X, codes = problem(n=60, p=3000)
    clf = unfit.LogisticRegression(C=1.0, penalize_intercept=False).fit(X, codes)
    tracemalloc.start()
    clf.fit(X, codes).unlearn([1, 2, 3])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3001**2 * 4


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["fisher", "influence"])
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("refine", [False, True])
def test_forgetting_equals_the_dense_formula(classes, name, batch, refine):
    X, codes = problem(classes=classes)
    data = CpuEngine(Rows(X, codes, True), classes)
    assert data.wide()
    data.hessian_sum = None  # nobody makes one
    method = METHODS[name](Settings(deletion_batch_size=batch), refine=refine)
    state = method.prepare(method.train(data, np.random.default_rng(2)), data)
    deleted = np.arange(3, 13)
    after = method.unlearn(state, data, deleted, np.random.default_rng(3))
    dense = reference.with_ones(X, True)
    for c in range(data.k):
        t = reference.targets(codes, c, data.k)
        w = reference.one_step(name, state.weights[c], dense, t, deleted, 1e-4, batch or 10)
        assert np.linalg.norm(after.weights[c] - w) <= 1e-8 * np.linalg.norm(w)
    data.forget(deleted)
    again = method.unlearn(after, data, np.array([30]), np.random.default_rng(4))
    for c in range(data.k):
        left = data.remaining
        t = reference.targets(codes, c, data.k)[left]
        at = int(np.flatnonzero(np.flatnonzero(left) == 30)[0])
        if batch is None and not refine:  # a stream, followed to the optimum
            rest = np.delete(np.arange(left.sum()), at)
            slope = reference.gradient(again.weights[c], dense[left][rest], t[rest], 1e-4)
            assert np.linalg.norm(slope) <= STREAM_TOLERANCE * method.settings.tol * len(rest)
            continue
        w = reference.one_step(name, after.weights[c], dense[left], t, np.array([at]), 1e-4, 1)
        assert np.linalg.norm(again.weights[c] - w) <= 1e-8 * np.linalg.norm(w)


def test_training_is_that_of_a_dense_solver():
    X, codes = problem(n=80, p=400)
    wide = CpuEngine(Rows(X, codes, True), 2)
    found = METHODS["retrain"](Settings()).optimum(wide, np.random.default_rng(0))
    gradient = wide.gradient_sum(found) + 1e-4 * 80 * found
    assert np.linalg.norm(gradient) <= 1e-8 * 80
    dense = CpuEngine(Rows(X, codes, True), 2)
    dense.wide = lambda mask=None: False
    expected = METHODS["retrain"](Settings()).optimum(dense, np.random.default_rng(0))
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def test_noise_has_the_covariance_of_the_dense_hessian():
    X, codes = problem(n=20, p=260)
    data, dense = CpuEngine(Rows(X, codes, True), 2), CpuEngine(Rows(X, codes, True), 2)
    dense.wide = lambda mask=None: False
    fisher = METHODS["fisher"](Settings(sigma=2.0))
    one, other = (fisher.train(d, np.random.default_rng(5)) for d in (data, dense))
    noise = [state.weights - state.centre for state in (one, other)]
    assert np.linalg.norm(noise[0] - noise[1]) <= 1e-5 * np.linalg.norm(noise[1])


@pytest.mark.parametrize("method", METHODS)
def test_wide_rows_never_need_a_square_of_columns(method):
    """40 x 6,000: a Hessian would take 288 MB."""
    X, codes = problem(n=40, p=6_000, dtype=np.float32)
    clf = unfit.LogisticRegression(method, epochs=2, sigma=0.5, random_state=0)
    tracemalloc.start()
    clf.fit(X, codes).unlearn([3, 17]).prepare().unlearn([5])
    assert clf.audit(draws=1).n_deleted == 3
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_a_model_that_becomes_wide_goes_on():
    """More rows than columns at first, fewer later: the same weights as fitting the rest."""
    X, codes = problem(n=320, p=299)
    settings_ = {"l2": 1e-2, "dtype": "float64", "tol": 1e-12}
    clf = unfit.LogisticRegression("retrain", **settings_).fit(X, codes)
    assert not clf._data.wide()
    for start in range(0, 90, 30):
        clf.unlearn(np.arange(start, start + 30))
    assert clf._data.wide()
    fresh = unfit.LogisticRegression("retrain", **settings_).fit(X[90:], codes[90:])
    np.testing.assert_allclose(clf.coef_, fresh.coef_, rtol=1e-6, atol=1e-8)
