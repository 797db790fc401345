"""Steps without a pass: the optimum is never farther away than foreseen."""

import numpy as np
import pytest

from unfit.core.factors import Inverse
from unfit.core.losses import LOGISTIC, LOSSES
from unfit.core.objective import Rows
from unfit.core.statistics import Statistics, gradient_of_rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings
from unfit.methods.few_rows import ENOUGH
from unfit.methods.foresight import WORTH_FROM, Foresight
from unfit.methods.minimum import minimize

L2 = 1e-3


def rows(n, p=6, classes=2, dtype="float64", seed=0, loss=LOGISTIC):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    codes = (X @ rng.standard_normal((p, classes)) + rng.gumbel(size=(n, classes))).argmax(axis=1)
    return Rows(X, codes.astype(np.int32), True, loss)


def optimum(method, data, start):
    """To rounding."""
    found = minimize(method.objective(data, None), 1e-15, start=start, max_steps=6)
    return found.weights


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_never_farther_than_foreseen(seed, classes, dtype):
    n, rng = 4000, np.random.default_rng(seed)
    data = CpuEngine(rows(n, classes=classes, dtype=dtype, seed=seed), classes)
    method = METHODS["fisher"](Settings(l2=L2, tol=1e-6), refine=True)
    W = method.train(data, rng).centre
    sums = method.statistics(data, W)
    guide = [Inverse.of(h) for h in sums.hessian_sum]
    known, gradient = Foresight.at(W, data.radius(), data.dtype), sums.gradient_sum
    for step in range(6):  # of one row each: the guide is never made anew
        gone = rng.choice(np.flatnonzero(data.remaining), 1)
        taken = data.take(gone)
        of_gone = gradient_of_rows(taken, W, method.penalty(data))
        going = Statistics.of_rows(taken, W, method.penalty(data))
        guide = [
            Inverse.of(one.hessian - h) for one, h in zip(guide, going.hessian_sum, strict=True)
        ]
        target = of_gone - gradient if step == 0 else of_gone
        ahead = known.step(W, target, guide)
        data.forget(gone)
        exact = optimum(method, data, ahead.weights)
        apart = np.linalg.norm(ahead.weights - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert apart.max() <= ahead.distance < 1
        assert ahead.distance_if_renewed <= ahead.distance
        W, known = ahead.weights, ahead.then


def test_a_step_too_long_to_tell_is_infinitely_far():
    known = Foresight.at(np.zeros((1, 3)), 8.0, np.dtype(np.float64))
    ahead = known.step(np.zeros((1, 3)), np.ones((1, 3)), [Inverse.of(np.eye(3))])
    np.testing.assert_allclose(ahead.weights, 1)
    assert ahead.distance == np.inf


def test_a_row_of_many_leaves_without_a_pass_and_ends_at_the_optimum():
    given = rows(WORTH_FROM, p=15)
    data = CpuEngine(given, 2)
    settings = Settings(l2=4.0, tol=1e-6)  # so rough a training must be corrected, too
    method, rng = METHODS["fisher"](settings, refine=True), np.random.default_rng(1)
    state = method.prepare(method.train(data, rng), data)
    passes = []
    for gone in ([5], [77, 78], [100_000], np.arange(1000, 1300)):
        read = data.rows_read
        state = method.unlearn(state, data, np.asarray(gone), rng)
        data.forget(np.asarray(gone))
        passes.append(round((data.rows_read - read) / len(data)))
        exact = optimum(method, data, state.centre)
        assert np.linalg.norm(state.centre - exact) <= ENOUGH * np.linalg.norm(exact)
    assert passes[:3] == [0, 0, 0]
    assert passes[3] >= 1


def test_a_measurement_begins_the_account_anew():
    known = Foresight.at(np.ones((1, 2)), 1.0, np.dtype(np.float64))
    guide = [Inverse.of(1e4 * np.eye(2))]
    then = known.step(np.ones((1, 2)), np.ones((1, 2)), guide).then
    assert then.undone[0] > 0
    assert then.measured(np.ones((1, 2)), 0.0).undone[0] == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_only_losses_that_bound_their_curvature_are_foreseen(loss):
    made = LOSSES[loss]()
    data = CpuEngine(rows(WORTH_FROM, p=2, loss=made), 2)
    method = METHODS["influence"](Settings(l2=0.1), refine=True)
    state = method.prepare(method.train(data, np.random.default_rng(0)), data)
    assert (state.foresight is not None) == made.self_concordant


def test_no_row_is_longer_than_the_radius():
    given = rows(5000, dtype="float32")
    data = CpuEngine(given, 2)
    longest = np.sqrt(given.squared_lengths().max())
    assert longest <= data.radius() <= 2.01 * longest
    far = np.argsort(given.squared_lengths())[-4500:]
    data.forget(far)
    assert np.sqrt(given.squared_lengths()[data.remaining].max()) <= data.radius() < longest
