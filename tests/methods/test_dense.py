"""FISHER and INFLUENCE against the dense formulae, on every path and for every batch size."""

from dataclasses import replace

import numpy as np
import pytest

import reference
import unfit
from unfit.core.objective import Rows
from unfit.core.statistics import cheapest
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings
from unfit.methods.few_rows import FEW_OF_ALL

M = 32


@pytest.fixture(params=[2, 4], ids=["binary", "four classes"], scope="module")
def problem(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 150)) / np.sqrt(150)
    codes = (X @ rng.standard_normal((150, request.param))).argmax(axis=1).astype(np.int32)
    return X, codes, request.param


def call_it_wide(monkeypatch):
    monkeypatch.setattr("unfit.core.statistics.WIDE", 1)
    monkeypatch.setattr("unfit.core.statistics.FEW_ROWS", 1)


@pytest.mark.parametrize("solver", ["newton", "sgd"])
@pytest.mark.parametrize("batch", [None, M // 2, M // 8, 7])
@pytest.mark.parametrize(
    "path", ["woodbury", "iterate", "factorize", "refined", "stale_inverse", "cold"]
)
@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_equals_the_dense_formula(problem, name, path, batch, solver, monkeypatch):
    if path == "iterate":
        call_it_wide(monkeypatch)
    refine = path in ("refined", "stale_inverse")
    if refine and batch is not None and batch <= FEW_OF_ALL * 900 and solver == "newton":
        pytest.skip("few rows are followed to the optimum: see test_few_rows")
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    deleted = np.sort(np.random.default_rng(1).choice(900, M, replace=False))
    method = METHODS[name](
        Settings(deletion_batch_size=batch, solver=solver, epochs=5, batch_size=100),
        refine=refine,
    )
    state = method.train(data, np.random.default_rng(2))
    if path != "cold":
        state = method.prepare(state, data)
    if path == "factorize":
        state = replace(state, statistics=replace(state.statistics, factors=None))
    if path == "stale_inverse":  # an inverse from before the weights moved
        moved = state.weights + 1e-3 * np.random.default_rng(4).standard_normal(data.d)
        state = replace(
            state, weights=moved, statistics=None, stale_inverse=state.statistics.factors
        )
    after = method.unlearn(state, data, deleted, np.random.default_rng(3))
    dense = reference.with_ones(X, True)
    for c in range(data.k):
        t = reference.targets(codes, c, data.k)
        w = reference.one_step(name, state.weights[c], dense, t, deleted, 1e-4, batch or M)
        assert np.linalg.norm(after.weights[c] - w) <= 1e-8 * np.linalg.norm(w)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("share", [0.3, 0.65])
@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_much_of_a_class_leaves_as_in_the_dense_formula(problem, name, share, kind, monkeypatch):
    call_it_wide(monkeypatch)
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    data.forget(np.arange(40))
    there = 40 + np.flatnonzero(codes[40:] == kind)
    deleted = np.concatenate([there[: round(share * len(there))], [77]])
    deleted = np.unique(deleted)
    method = METHODS[name](Settings(deletion_batch_size=len(deleted)))
    state = method.prepare(method.train(data, np.random.default_rng(2)), data)
    assert (state.statistics.class_split is not None) == (n_classes == 2)
    if n_classes == 2:
        assert cheapest(state.statistics, len(deleted)) == "class split"
        monkeypatch.setattr(data, "hessian_sum", None)  # nobody falls back to a pass over all rows
    after = method.unlearn(state, data, deleted, np.random.default_rng(3))
    dense, gone = reference.with_ones(X, True)[40:], deleted - 40
    for c in range(data.k):
        t = reference.targets(codes, c, data.k)[40:]
        w = reference.one_step(name, state.weights[c], dense, t, gone, 1e-4, len(gone))
        assert np.linalg.norm(after.weights[c] - w) <= 1e-8 * np.linalg.norm(w)


@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_most_of_both_classes_leave_as_in_the_dense_formula(problem, name, monkeypatch):
    call_it_wide(monkeypatch)
    monkeypatch.setattr("unfit.core.statistics.MANY_ROWS_OF_ALL", 1.0)
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    deleted = np.sort(np.random.default_rng(1).choice(900, 450, replace=False))
    method = METHODS[name](Settings(deletion_batch_size=450))
    state = method.prepare(method.train(data, np.random.default_rng(2)), data)
    after = method.unlearn(state, data, deleted, np.random.default_rng(3))
    dense = reference.with_ones(X, True)
    for c in range(data.k):
        t = reference.targets(codes, c, data.k)
        w = reference.one_step(name, state.weights[c], dense, t, deleted, 1e-4, 450)
        assert np.linalg.norm(after.weights[c] - w) <= 1e-8 * np.linalg.norm(w)


def test_what_is_never_used_is_not_made(problem, monkeypatch):
    call_it_wide(monkeypatch)
    X, codes, n_classes = problem
    made = {}
    for batch, refine, sigma, order in (
        (100, False, 0.0, "C"),
        (None, False, 0.0, "C"),
        (100, True, 0.0, "C"),
        (100, False, 1.0, "C"),
        (100, False, 0.0, "F"),
    ):
        data = CpuEngine(Rows(np.asarray(X, order=order), codes, True), n_classes)
        settings = Settings(deletion_batch_size=batch, sigma=sigma)
        method = METHODS["fisher"](settings, refine=refine)
        state = method.prepare(method.train(data, np.random.default_rng(2)), data)
        made[batch, refine, sigma, order] = state.statistics.class_split is not None
    wanted = (100, False, 0.0, "C")
    assert made == {case: case == wanted and n_classes == 2 for case in made}


def test_two_requests_in_sequence(problem):
    """The first is one step. The next follows the stream: no further off than a step from there."""
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    method = METHODS["fisher"](Settings())
    state = method.prepare(method.train(data, np.random.default_rng(0)), data)
    dense = reference.with_ones(X, True)

    def gradient(W, present):
        of = [reference.targets(codes, c, data.k)[present] for c in range(data.k)]
        pairs = zip(W, of, strict=True)
        return np.array([reference.gradient(w, dense[present], t, 1e-4) for w, t in pairs])

    for leaving in (np.arange(5, 25), np.arange(100, 160)):
        before, present = state.weights, data.without(leaving)
        hessians = [reference.hessian(w, dense[present], 1e-4) for w in before]
        steps = map(np.linalg.solve, hessians, gradient(before, present))
        stepped = before - np.array(list(steps))
        state = method.unlearn(state, data, leaving, np.random.default_rng(1))
        if leaving[0] == 5:
            np.testing.assert_allclose(state.weights, stepped, rtol=1e-8, atol=1e-10)
        left = np.linalg.norm(gradient(state.weights, present))
        assert left <= 1.001 * np.linalg.norm(gradient(stepped, present))
        data.forget(leaving)


def test_influence_with_sums_is_right_where_means_are_not():
    # The printed formula is off by (n - m) / m; with sums the step lands next to retraining.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10)) / np.sqrt(10)
    codes = (X[:, 0] + 0.5 * rng.standard_normal(2000) > 0).astype(np.int32)
    data = CpuEngine(Rows(X, codes, True), 2)
    method = METHODS["influence"](Settings(l2=1e-2))
    state = method.train(data, rng)
    deleted = np.arange(100)
    after = method.unlearn(state, data, deleted, rng).weights
    goal = method.optimum(data, rng, mask=data.without(deleted))
    assert np.linalg.norm(after - goal) < 0.05 * np.linalg.norm(state.weights - goal)


def test_retrain_never_ignores_a_row():
    # One row of 300,000 weighs less than the tolerance; the model must move all the same.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 3)).astype(np.float32)
    data = CpuEngine(Rows(X, (X[:, 0] > 0).astype(np.int32), True), 2)
    method = METHODS["retrain"](Settings(tol=1e-6))
    state = method.train(data, rng)
    after = method.unlearn(state, data, np.array([5]), rng)
    assert not np.array_equal(after.weights, state.weights)


@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_a_guide_that_does_not_lead_is_not_followed(problem, name):
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    method = METHODS[name](Settings(), refine=True)
    state = method.prepare(method.train(data, np.random.default_rng(2)), data)
    elsewhere = [replace(f, inverse=np.eye(data.d)) for f in state.statistics.factors]
    deleted = np.arange(0, 900, 45)
    cold = replace(state, statistics=None)
    expected = method.unlearn(cold, data, deleted, np.random.default_rng(3)).weights
    lost = replace(cold, stale_inverse=elsewhere)
    found = method.unlearn(lost, data, deleted, np.random.default_rng(3)).weights
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_refined_weights_do_not_depend_on_the_path(problem, name):
    """Float32 rows, one request after another: with statistics or with the inverse from before."""
    X, codes, n_classes = problem
    method = METHODS[name](Settings(), refine=True)
    found = []
    for prepares in (True, False):
        data = CpuEngine(Rows(X.astype(np.float32), codes, True), n_classes)
        state = method.prepare(method.train(data, np.random.default_rng(2)), data)
        for start in range(0, 120, 12):
            rows = np.arange(start, start + 12)
            state = method.unlearn(state, data, rows, np.random.default_rng(3))
            data.forget(rows)
            if prepares:
                state = method.prepare(state, data)
        found.append(state.weights)
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_refined_steps_on_float32_rows_are_those_on_the_same_rows_in_float64(problem, name):
    X, codes, n_classes = problem
    X = X.astype(np.float32)
    method = METHODS[name](Settings(), refine=True)
    single = CpuEngine(Rows(X, codes, True), n_classes)
    double = CpuEngine(Rows(X.astype(np.float64), codes, True), n_classes)
    state = method.train(double, np.random.default_rng(2))
    deleted = np.arange(0, 900, 9)
    found, expected = (
        method.unlearn(method.prepare(state, data), data, deleted, np.random.default_rng(3))
        for data in (single, double)
    )
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        *((name, length) for name in ("fisher", "influence") for length in (10, 1e2, 1e3)),
        ("fisher", 1e5),
    ],
)
def test_a_row_that_has_nearly_all_of_the_curvature_is_unlearned(name, length):
    rng = np.random.default_rng(0)
    X, y = 0.1 * rng.standard_normal((2000, 40)), rng.integers(0, 2, 2000)
    X[5] = length * rng.standard_normal(40)
    model = unfit.RidgeClassifier(name, dtype="float64").fit(X, y).unlearn([5])
    left = unfit.RidgeClassifier(name, dtype="float64").fit(np.delete(X, 5, 0), np.delete(y, 5))
    assert np.abs(model.coef_ - left.coef_).max() <= 1e-8 * np.abs(left.coef_).max()
