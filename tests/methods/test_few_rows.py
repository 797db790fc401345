"""Few rows that leave, with `refine`: the weights of a retraining, whatever guide led there."""

from dataclasses import replace

import numpy as np
import pytest

import reference
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings, State
from unfit.methods.few_rows import ENOUGH, FEW_OF_ALL

N, D, L2 = 3000, 40, 1e-3


@pytest.fixture(params=[2, 3], ids=["binary", "three classes"], scope="module")
def problem(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    X[:, -5:] = rng.random((N, 5)) < 0.01  # rare columns, which a single row can move far
    codes = (X @ rng.standard_normal((D, request.param))).argmax(axis=1).astype(np.int32)
    return X.astype(np.float32), codes, request.param


def made(problem, name="fisher", **options):
    X, codes, n_classes = problem
    data = CpuEngine(Rows(X, codes, True), n_classes)
    method = METHODS[name](Settings(l2=L2), **{"refine": True, **options})
    return data, method, method.prepare(method.train(data, np.random.default_rng(1)), data)


def optimum(problem, remaining: np.ndarray, start: np.ndarray) -> np.ndarray:
    """By Newton's method, in float64, from the formulae."""
    X, codes, n_classes = problem
    dense = reference.with_ones(X.astype(np.float64), True)[remaining]
    found = []
    for c in range(1 if n_classes == 2 else n_classes):
        t = reference.targets(codes, c, 1 if n_classes == 2 else n_classes)[remaining]
        w = start[c]
        for _ in range(6):
            H = reference.hessian(w, dense, L2)
            w = w - np.linalg.solve(H, reference.gradient(w, dense, t, L2))
        found.append(w)
    return np.array(found)


def distance(weights: np.ndarray, exact: np.ndarray) -> float:
    gap = np.linalg.norm(weights - exact, axis=1) / np.linalg.norm(exact, axis=1)
    return float(gap.max())


def requests(count: int, size: int) -> list[np.ndarray]:
    order = np.random.default_rng(2).permutation(N)
    return [np.sort(order[i * size : (i + 1) * size]) for i in range(count)]


@pytest.mark.parametrize("name", ["fisher", "influence"])
@pytest.mark.parametrize("size", [1, 5, 25])
def test_every_request_ends_at_the_optimum_of_what_remains(problem, name, size):
    data, method, state = made(problem, name)
    for rows in requests(12, size):
        state = method.unlearn(state, data, rows, np.random.default_rng(3))
        data.forget(rows)
        exact = optimum(problem, data.remaining, state.weights)
        assert distance(state.weights, exact) <= ENOUGH
        assert state.distance is not None
        assert state.distance <= ENOUGH


def test_the_weights_do_not_depend_on_the_guide(problem):
    """Prepared before each request, with the inverse from before, and with none at all."""
    found = []
    for kind in ("prepared", "stale", "none"):
        data, method, state = made(problem)
        for rows in requests(10, 4):
            state = method.unlearn(state, data, rows, np.random.default_rng(3))
            data.forget(rows)
            if kind == "prepared":
                state = method.prepare(state, data)
            elif kind == "none":
                state = State.from_arrays(method.name, state.to_arrays())
        found.append(state.weights)
    for other in found[1:]:
        assert distance(other, found[0]) <= 2 * ENOUGH


def test_a_guide_that_does_not_lead_is_made_anew(problem):
    data, method, state = made(problem)
    wrong = [replace(f, inverse=1e-3 * np.eye(data.d)) for f in state.statistics.factors]
    lost = replace(state, statistics=None, stale_inverse=wrong)
    rows = np.arange(4)
    found = method.unlearn(lost, data, rows, np.random.default_rng(3))
    exact = optimum(problem, data.without(rows), found.weights)
    assert distance(found.weights, exact) <= ENOUGH
    assert found.stale_inverse is None  # it is not followed again


def test_a_single_row_needs_one_pass():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, D)).astype(np.float32)
    codes = (X[:, 0] + rng.standard_normal(20_000) > 0).astype(np.int32)
    data, method, state = made((X, codes, 2))
    passes = []
    for rows in requests(20, 1):
        data.rows_read = 0
        state = method.unlearn(state, data, rows, np.random.default_rng(3))
        passes.append(data.rows_read / (data.n_remaining - 1))
        data.forget(rows)
    assert np.median(passes) == 1


def test_what_is_polished_by_others_needs_no_pass(problem):
    data, method, state = made(problem, polished=True)
    data.rows_read = 0
    rows = np.arange(3)
    after = method.unlearn(state, data, rows, np.random.default_rng(3))
    assert data.rows_read == 0
    exact = optimum(problem, data.without(rows), after.weights)
    before = distance(state.weights, exact)
    assert distance(after.weights, exact) <= 0.02 * before


def test_how_many_are_few_is_a_matter_of_counts(problem):
    """One row more is one step from where the weights were, as published."""
    data, method, state = made(problem)
    few = int(FEW_OF_ALL * N / (1 + FEW_OF_ALL))
    for m, followed in ((few, True), (few + 1, False)):
        after = method.unlearn(state, data, np.arange(m), np.random.default_rng(3))
        assert (after.distance is not None) == followed
