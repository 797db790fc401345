"""Later mini-batches of wide rows: the same steps as with new Hessians, without one."""

import numpy as np
import pytest

import reference
from unfit.methods import METHODS, Settings
from watched import HessiansOnly, N, Watched, wide

GONE = np.random.default_rng(3).permutation(N)[:240]


def rng():
    return np.random.default_rng(0)


def unlearned(data, name, prepared=True, **settings):
    """Weights after the request, and the Hessians that it took."""
    method = METHODS[name](Settings(**settings))
    state = method.train(data, rng())
    if prepared:
        state = method.prepare(state, data)
    before = data.hessians
    after = method.unlearn(state, data, GONE, rng())
    return state, after, data.hessians - before


def precise(classes=2, engine=Watched):
    """Float64 rows; one problem needs more columns than three do for products to be cheaper."""
    return wide(classes, np.float64, engine, columns=600 if classes == 2 else 300)


@pytest.mark.parametrize(("name", "classes"), [("fisher", 2), ("influence", 3)])
def test_eight_batches_equal_the_dense_formula(name, classes):
    data = precise(classes)
    state, after, hessians = unlearned(data, name, deletion_batch_size=30)
    assert hessians == 0
    dense = reference.with_ones(data.rows.X, True)
    for c in range(data.k):
        t = data.codes == (1 if classes == 2 else c)
        goal = reference.one_step(name, state.weights[c], dense, t, GONE, 1e-4, 30)
        error = np.linalg.norm(after.weights[c] - goal) / np.linalg.norm(goal)
        assert error <= 1e-8


@pytest.mark.parametrize("name", ["fisher", "influence"])
def test_float32_rows_agree_with_hessians_as_far_as_these_are_known(name):
    _, by_products, _ = unlearned(wide(3), name, deletion_batch_size=30)
    _, by_hessians, hessians = unlearned(wide(3, engine=HessiansOnly), name, deletion_batch_size=30)
    assert hessians == 7  # one for every batch but the first
    gap = np.linalg.norm(by_products.weights - by_hessians.weights)
    assert gap <= 2e-6 * np.linalg.norm(by_hessians.weights)


def test_without_preparation_the_first_batch_makes_the_only_hessian():
    data = precise()
    _, cold, hessians = unlearned(data, "fisher", prepared=False, deletion_batch_size=30)
    _, warm, _ = unlearned(data, "fisher", deletion_batch_size=30)
    assert hessians == 1
    np.testing.assert_allclose(cold.weights, warm.weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("classes", "per_batch"), [(2, False), (3, True)])
def test_the_noise_is_that_of_hessians(classes, per_batch):
    settings = {"sigma": 0.3, "deletion_batch_size": 80, "noise_per_batch": per_batch}
    data = precise(classes)
    _, by_products, hessians = unlearned(data, "fisher", **settings)
    _, by_hessians, _ = unlearned(precise(classes, HessiansOnly), "fisher", **settings)
    assert hessians == 0
    np.testing.assert_allclose(by_products.weights, by_hessians.weights, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_products.centre, by_hessians.centre, rtol=1e-6, atol=1e-8)


def test_refined_batches_end_where_plain_ones_do():
    data = precise()
    settings = Settings(deletion_batch_size=80)
    plain, refined = (METHODS["fisher"](settings, refine=refine) for refine in (False, True))
    state = plain.prepare(plain.train(data, rng()), data)
    goal = plain.unlearn(state, data, GONE, rng()).weights
    before = data.hessians
    found = refined.unlearn(state, data, GONE, rng()).weights
    assert data.hessians == before
    np.testing.assert_allclose(found, goal, rtol=1e-7, atol=1e-9)


def test_few_columns_take_a_new_hessian_each_time():
    data = wide(columns=8)
    _, _, hessians = unlearned(data, "fisher", deletion_batch_size=80)
    assert hessians == 2
