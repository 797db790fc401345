"""The noise has the mean, the covariance and the independence that the methods promise."""

from dataclasses import replace

import numpy as np
import pytest

import reference
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings

DRAWS, SIGMA = 4000, 0.3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4)) / 2
    return CpuEngine(Rows(X, (X[:, 0] > 0).astype(np.int32), True), 2)


def assert_law(samples, centre, covariance):
    """Mean and covariance within five standard errors, entry by entry."""
    n, _d = samples.shape
    variance = np.diag(covariance)
    error = samples.mean(axis=0) - centre
    assert (np.abs(error) <= 5 * np.sqrt(variance / n)).all()
    found = np.cov(samples.T)
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert (np.abs(found - covariance) <= 5 * spread).all()


def inverse_square_root(F):
    values, vectors = np.linalg.eigh(F)
    return vectors @ np.diag(values**-0.5) @ vectors.T


@pytest.mark.parametrize("path", ["cold", "downdate", "spectrum"])
def test_fisher_unlearning(data, path):
    method = METHODS["fisher"](Settings(sigma=SIGMA, l2=1e-2))
    quiet = METHODS["fisher"](Settings(l2=1e-2))
    deleted = np.array([3]) if path == "spectrum" else np.arange(10)
    state = method.train(data, np.random.default_rng(1))
    if path != "cold":
        state = method.prepare(state, data)
    if path == "downdate":
        state = replace(state, statistics=replace(state.statistics, factors=None))
    rng = np.random.default_rng(2)
    samples = np.array([method.unlearn(state, data, deleted, rng).weights[0] for _ in range(DRAWS)])
    centre = quiet.unlearn(state, data, deleted, rng).weights[0]
    X = reference.with_ones(data.rows.X[data.without(deleted)], True)
    F = reference.hessian(state.centre[0], X, 1e-2)
    assert_law(samples, centre, SIGMA**2 * inverse_square_root(F))


@pytest.mark.slow  # thousands of trainings; the contract compares the spread of fewer
def test_fisher_training(data):
    method = METHODS["fisher"](Settings(sigma=SIGMA, l2=1e-2))
    rng = np.random.default_rng(3)
    optimum = method.optimum(data, rng)
    samples = np.array([method.train(data, rng).weights[0] for _ in range(DRAWS)])
    F = reference.hessian(optimum[0], reference.with_ones(data.rows.X, True), 1e-2)
    assert_law(samples, optimum[0], SIGMA**2 * inverse_square_root(F))


@pytest.mark.parametrize("name", ["deltagrad", "retrain"])
def test_output_noise_is_white(data, name):
    settings = Settings(sigma=SIGMA, l2=1e-2, epochs=2, batch_size=30)
    method, quiet = METHODS[name](settings), METHODS[name](replace(settings, sigma=0.0))
    state = quiet.train(data, np.random.default_rng(4))
    deleted, rng = np.arange(6), np.random.default_rng(5)
    samples = np.array([method.perturbed(state.weights, rng)[0] for _ in range(DRAWS)])
    assert_law(samples, state.weights[0], SIGMA**2 * np.eye(5))
    unlearned = [method.unlearn(state, data, deleted, rng).weights[0] for _ in range(300)]
    centre = quiet.unlearn(state, data, deleted, rng).weights[0]
    assert_law(np.array(unlearned), centre, SIGMA**2 * np.eye(5))


def test_influence_minimises_the_objective_with_a_linear_term(data):
    method = METHODS["influence"](Settings(sigma=SIGMA, l2=1e-2))
    linear_terms = []
    for seed in range(300):
        state = method.train(data, np.random.default_rng(seed))
        gradient = data.gradient_sum(state.weights) + 1e-2 * 120 * state.weights
        np.testing.assert_allclose(gradient, -state.linear_term, atol=1e-5)
        linear_terms.append(state.linear_term[0])
    assert_law(np.array(linear_terms), np.zeros(5), SIGMA**2 * np.eye(5))


def test_every_batch_and_class_has_noise_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    data = CpuEngine(Rows(X, rng.integers(0, 3, 150).astype(np.int32), True), 3)
    method = METHODS["retrain"](Settings(sigma=1.0, l2=1e-2))
    zero = np.zeros((3, 4))
    draws = np.array([method.perturbed(zero, rng).ravel() for _ in range(DRAWS)])
    correlation = np.corrcoef(draws.T) - np.eye(12)
    assert np.abs(correlation).max() < 5 / np.sqrt(DRAWS)
    follow = np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]
    assert abs(follow) < 5 / np.sqrt(DRAWS)
    fisher = METHODS["fisher"](Settings(sigma=1.0, l2=1e-2, deletion_batch_size=1))
    state = fisher.train(data, rng)
    one = fisher.unlearn(state, data, np.array([0]), np.random.default_rng(9)).weights
    both = fisher.unlearn(state, data, np.array([0, 1]), np.random.default_rng(9)).weights
    assert not np.allclose(one, both)
