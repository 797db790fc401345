"""What a noisy method publishes after forgetting is retraining plus noise, time after time."""

from dataclasses import replace

import numpy as np
import pytest

from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings, State

SEEDS = 300
NOISY = Settings(sigma=10.0, l2=1e-3, epochs=5, batch_size=64)
PUBLISHING = ["fisher", "deltagrad", "newton", "retrain"]  # with noise on what is published


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8)) / np.sqrt(8)
    codes = (X @ rng.standard_normal(8) + 0.3 * rng.standard_normal(500) > 0).astype(np.int32)
    return Rows(X, codes, True)


def engine(rows):
    return CpuEngine(Rows(rows.X, rows.codes, rows.intercept), 2)


def spread(models):
    """Root mean square distance from the mean model."""
    return np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean())


def unlearned(rows, method, requests, seeds=SEEDS):
    """Trained, then asked to forget one request after another, with randomness of its own."""
    models = []
    for seed in range(seeds):
        data, rng = engine(rows), np.random.default_rng([seed, 1])
        state = method.train(data, rng)
        for deleted in requests:
            state = method.unlearn(state, data, deleted, rng)
            data.forget(deleted)
        models.append(state.weights)
    return np.array(models)


def retrained(rows, method, deleted):
    data = engine(rows)
    data.forget(deleted)
    return np.array(
        [method.train(data, np.random.default_rng([seed, 3])).weights for seed in range(SEEDS)]
    )


@pytest.mark.parametrize("name", PUBLISHING)
@pytest.mark.parametrize("times", [1, 2])
def test_the_spread_after_forgetting_is_that_of_retraining(rows, name, times):
    # Relative error of a spread of 300 draws in 9 dimensions: about 1 / sqrt(2 * 300 * 9) = 1.4 %.
    method = METHODS[name](NOISY)
    deleted = np.arange(50)
    one = unlearned(rows, method, np.split(deleted, times))
    other = retrained(rows, method, deleted)
    assert spread(one) / spread(other) == pytest.approx(1.0, abs=0.1)
    # and neither is off: the difference of two means of 300 models is noise, too
    distance = np.linalg.norm(one.mean(axis=0) - other.mean(axis=0))
    assert distance < 2 * spread(other) * np.sqrt(2 / SEEDS)


def test_batches_of_a_request_add_noise_once(rows):
    deleted = np.arange(50)
    spreads = [
        spread(
            unlearned(rows, METHODS["fisher"](replace(NOISY, deletion_batch_size=size)), [deleted])
        )
        for size in (None, 10)
    ]
    assert spreads[1] / spreads[0] == pytest.approx(1.0, abs=0.1)


def test_the_published_manner_adds_noise_in_every_batch(rows):
    published = replace(NOISY, deletion_batch_size=10, noise_per_batch=True)
    deleted = np.arange(50)
    stepped_on = unlearned(rows, METHODS["fisher"](published), [deleted])
    once = unlearned(
        rows, METHODS["fisher"](replace(published, deletion_batch_size=None)), [deleted]
    )
    assert spread(stepped_on) > 2 * spread(once)  # a Newton step from weights so far off
    fisher = METHODS["fisher"](published)
    data, rng = engine(rows), np.random.default_rng(3)
    state = fisher.train(data, rng)
    # Across requests the centre is what goes on, here as everywhere.
    after = fisher.unlearn(state, data, deleted[:10], rng)
    quiet = METHODS["fisher"](replace(published, sigma=0.0))
    start = State("fisher", state.centre, state.n)
    expected = quiet.unlearn(start, data, deleted[:10], rng).weights
    np.testing.assert_allclose(after.centre, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PUBLISHING)
def test_noise_leaves_the_centre_alone(rows, name):
    """The centre is what the method computes without noise, and the same after a round by disk."""
    noisy, quiet = METHODS[name](NOISY), METHODS[name](replace(NOISY, sigma=0.0))
    data, plain = engine(rows), engine(rows)
    state = noisy.prepare(noisy.train(data, np.random.default_rng(5)), data)
    goal = quiet.prepare(quiet.train(plain, np.random.default_rng(5)), plain)
    for deleted in (np.arange(7), np.arange(20, 24)):
        np.testing.assert_allclose(state.centre, goal.centre, rtol=1e-7, atol=1e-9)
        assert np.linalg.norm(state.weights - state.centre) > 1
        kept = State.from_arrays(name, {k: np.array(v) for k, v in state.to_arrays().items()})
        np.testing.assert_array_equal(kept.centre, state.centre)
        assert kept.statistics is None or np.array_equal(kept.statistics.weights, state.centre)
        state = noisy.unlearn(kept, data, deleted, np.random.default_rng(6))
        goal = quiet.unlearn(goal, plain, deleted, np.random.default_rng(6))
        data.forget(deleted)
        plain.forget(deleted)


@pytest.mark.parametrize("name", PUBLISHING)
def test_a_centre_that_was_not_kept_is_found_again(rows, name):
    method, data = METHODS[name](NOISY), engine(rows)
    state = method.prepare(method.train(data, np.random.default_rng(7)), data)
    arrays = {k: np.array(v) for k, v in state.to_arrays().items() if k != "centre"}
    old = State.from_arrays(name, arrays)
    found = method.recentred(old, data)
    np.testing.assert_allclose(found.centre, state.centre, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found.weights, state.weights)
    assert found.statistics is None  # they were made at the noisy weights
    assert method.recentred(state, data) is state


def test_a_state_does_not_show_its_secrets(rows):
    method, data = METHODS["fisher"](NOISY), engine(rows)
    state = method.train(data, np.random.default_rng(8))
    assert "centre" not in repr(state)
    assert "linear_term" not in repr(
        METHODS["influence"](NOISY).train(data, np.random.default_rng(9))
    )
