"""Claims of the paper's noises hold, and are not made where they do not."""

import math

import numpy as np
import pytest
from problems import Small, optimum
from scipy.linalg import fractional_matrix_power

from unfit.certify.accountant import epsilon_of
from unfit.certify.paper_noise import (
    AUDITED,
    GUO,
    HEURISTIC,
    PROVED,
    Ridge,
    covariance_epsilon,
    deltagrad_claim,
    fisher_claim,
    influence_claim,
)
from unfit.core.factors import Cholesky

DRAWS = 200_000


def small(seed: int, classes: int = 2) -> Small:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 3)) / 2
    scores = X @ rng.standard_normal((3, classes)) + 0.5 * rng.standard_normal((400, classes))
    codes = scores.argmax(axis=1).astype(np.int32)
    codes[:classes] = np.arange(classes)
    return Small(X, codes, classes, 1e-2, np.arange(10, 30))


def at(problem: Small, W: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """F and H of the remaining rows."""
    data, mask = problem.engine(), problem.mask
    ridge = problem.l2 * int(mask.sum())
    hessians = data.hessian_sum(W, mask) + ridge * np.eye(data.d)
    return data.gradient_sum(W, mask) + ridge * W, list(hessians)


def divergence(
    first: tuple[np.ndarray, list[np.ndarray]],
    second: tuple[np.ndarray, list[np.ndarray]],
    sigma: float,
    epsilon: float,
) -> tuple[float, float]:
    """E max(0, 1 - e^(epsilon - loss)) of two releases by sampling the first, and its error."""
    rng = np.random.default_rng(0)
    loss = np.zeros(DRAWS)
    for a, H, b, G in zip(*first, *second, strict=True):
        noise = rng.standard_normal((DRAWS, len(a)))
        moved = sigma * noise @ fractional_matrix_power(H, -0.25) + a - b
        back = moved @ fractional_matrix_power(G, 0.25) / sigma
        log_det = np.linalg.slogdet(H)[1] / 4 - np.linalg.slogdet(G)[1] / 4
        loss += ((back**2).sum(axis=1) - (noise**2).sum(axis=1)) / 2 + log_det
    excess = np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))
    return float(excess.mean()), float(excess.std() / math.sqrt(DRAWS))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("off", [0.0, 2e-3, 2e-2])
@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_fishers_claim_is_not_below_the_divergence(classes: int, off: float, sigma: float) -> None:
    delta = 1e-2
    problem = small(1, classes)
    best = optimum(problem, problem.mask).astype(np.float64)
    rng = np.random.default_rng(2)
    centre = best + off * rng.standard_normal(best.shape)
    gradient, hessians = at(problem, centre)
    radius = float(np.sqrt((problem.X**2).sum(axis=1).max() + 1))
    n = int(problem.mask.sum())
    of = Ridge(ridge=problem.l2 * n, radius=radius)
    factors = [Cholesky.of(h) for h in hessians]
    claim = fisher_claim(gradient, factors, of, sigma=sigma, delta=delta)
    if claim.epsilon is None:
        assert off == 2e-2
        assert claim.label == HEURISTIC
        return
    assert claim.label == PROVED
    here, there = (list(centre), hessians), (list(best), at(problem, best)[1])
    for first, second in ((here, there), (there, here)):
        found, error = divergence(first, second, sigma, claim.epsilon)
        assert found - 5 * error <= delta


def test_fishers_claim_at_the_optimum_is_that_of_the_means() -> None:
    problem = small(3)
    best = optimum(problem, problem.mask).astype(np.float64)
    gradient, hessians = at(problem, best)
    of = Ridge(ridge=1.0, radius=3.0)
    factors = [Cholesky.of(h) for h in hessians]
    claim = fisher_claim(gradient, factors, of, sigma=1.0, delta=1e-5)
    assert claim.epsilon == pytest.approx(0.0, abs=1e-6)


def test_the_shape_of_the_mean_part() -> None:
    """|H^(-3/4) g| by a matrix power."""
    problem = small(4)
    best = optimum(problem, problem.mask).astype(np.float64)
    gradient, hessians = at(problem, best + 1e-6)
    n = int(problem.mask.sum())
    of = Ridge(ridge=problem.l2 * n, radius=2.0)
    claim = fisher_claim(gradient, [Cholesky.of(h) for h in hessians], of, sigma=2.0, delta=1e-5)
    shaped = fractional_matrix_power(hessians[0], -0.75) @ gradient[0]
    assert claim.mu == pytest.approx(np.linalg.norm(shaped) / 2.0, rel=1e-3)
    assert claim.epsilon >= epsilon_of(claim.mu, 1e-5)


def test_nothing_is_claimed_far_from_the_optimum_or_without_noise() -> None:
    problem = small(5)
    gradient, hessians = at(problem, np.full((1, 4), 3.0))
    factors, of = [Cholesky.of(h) for h in hessians], Ridge(ridge=3.8, radius=3.0)
    for sigma in (0.0, 1.0):
        claim = fisher_claim(gradient, factors, of, sigma=sigma, delta=1e-5)
        assert (claim.label, claim.epsilon) == (HEURISTIC, None)
    assert influence_claim(1.0, sigma=0.0, delta=1e-5).label == HEURISTIC


def test_the_covariance_part_covers_the_tail_of_the_worst_spectrum() -> None:
    """All eigenvalues at either end of what is allowed: sampled, at x = log 1000."""
    rng = np.random.default_rng(6)
    for om, size in ((0.05, 4), (0.3, 10)):
        squares = rng.standard_normal((DRAWS, size)) ** 2
        for p in (math.exp(om), math.exp(-om)):
            loss = ((p - 1) * squares - math.log(p)).sum(axis=1) / 2
            share = float((loss > covariance_epsilon(om, size, math.log(1000))).mean())
            assert share <= 1e-3


def test_influence_and_deltagrad_say_what_they_rest_on() -> None:
    claim = influence_claim(0.25, sigma=1.0, delta=1e-5)
    assert claim.label == GUO
    assert claim.epsilon == epsilon_of(0.25, 1e-5)
    audited = deltagrad_claim(delta=1e-5)
    assert (audited.label, audited.epsilon) == (AUDITED, None)
