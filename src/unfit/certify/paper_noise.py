"""What can be claimed of the noises of the paper, and what cannot. Pure.

FISHER publishes c + sigma H(c)^(-1/4) b. Its reference is the optimum w* with noise of its own,
sigma H(w*)^(-1/4) b: two Gaussians whose means and covariances both differ. With g = F(c), nu and z
as for the bound `factor` (see bounds), t = -log(1 - z), om = t / 2 and th = e^om - 1, for k
problems of d columns:

    means         mu   = (|H^(-3/4) g| + (t / z - 1) nu ridge^(-1/4)) / sigma
    covariances   eps1 = th (sqrt(k d x) + x) + k d (e^om - 1 - om) / 2,    delta1 = e^-x

The first is the accountant's (eps2, delta2). The second holds because H(w*) is within factors of
e^(+-t) of H(c), so that roots of them are within e^(+-om), and the logarithm of the ratio of the
two densities is a sum of squares, whose tail Laurent and Massart (2000) bound. Together

    (eps1 + eps2,  e^eps2 delta1 + e^eps1 delta2),    x chosen best.

This is a claim of noise with H **at the new centre**. The paper's noise, with H where the step
started, has none. INFLUENCE's noise is in its objective: mu = |u| / sigma with u the gradient that
is left, as published, where u is taken not to depend on the noise. DELTAGRAD claims nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unfit.certify.accountant import delta_of, epsilon_of
from unfit.certify.bounds import together
from unfit.core.factors import Factor

HEURISTIC = "heuristic noise, no (eps, delta)"
PROVED = "noise of FISHER's shape at the new centre"
GUO = "Guo 2020 as published; a regularity condition is not verified"
AUDITED = "audited only"
_CHOICES = 60  # of x
_ROUNDS = 60


@dataclass(frozen=True, kw_only=True)
class NoiseClaim:
    """epsilon at delta, or None where nothing is claimed; mu: of the means, where it is known."""

    label: str
    delta: float
    epsilon: float | None = None
    mu: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """ridge = l2 n, and R, at least the length of every remaining row, intercept included."""

    ridge: float
    radius: float


def fisher_claim(
    gradient: np.ndarray, factors: Sequence[Factor], of: Ridge, *, sigma: float, delta: float
) -> NoiseClaim:
    """Of c + sigma H(c)^(-1/4) b. gradient (k, d): F(c); factors: of H(c), one per problem."""
    if not sigma > 0:
        return NoiseClaim(label=HEURISTIC, delta=delta)
    means, stretch = [], 0.0
    for g, factor in zip(gradient, factors, strict=True):
        solved = factor.solve(g)
        nu = math.sqrt(max(float(g @ solved), 0.0))
        z = of.radius * nu / math.sqrt(of.ridge)
        if z >= 1:
            return NoiseClaim(label=HEURISTIC, delta=delta)
        t = -math.log1p(-z)
        shaped = _length(_three_quarters(factor, g))
        curved = (t / z - 1) * nu * of.ridge**-0.25 if z > 0 else 0.0
        means.append(shaped + curved)
        stretch = max(stretch, t)
    mu = together(means) / sigma
    epsilon = _best(mu, stretch / 2, gradient.size, delta)
    if not math.isfinite(epsilon):
        return NoiseClaim(label=HEURISTIC, delta=delta, mu=mu)
    return NoiseClaim(label=PROVED, delta=delta, epsilon=epsilon, mu=mu)


def _three_quarters(factor: Factor, g: np.ndarray) -> np.ndarray:
    """H^(-3/4) g."""
    for _ in range(3):
        g = factor.inverse_fourth_root(g)
    return g


def _length(v: np.ndarray) -> float:
    return math.sqrt(float(v @ v))


def covariance_epsilon(om: float, size: int, x: float) -> float:
    """eps1: the ratio of two densities of one mean exceeds e^eps1 with probability e^-x at most."""
    grown = math.expm1(om)
    return grown * (math.sqrt(size * x) + x) + size * (grown - om) / 2


def _best(mu: float, om: float, size: int, delta: float) -> float:
    """The smallest eps1 + eps2 over x, with e^eps2 delta1 + e^eps1 delta2 <= delta."""
    if om == 0:
        return epsilon_of(mu, delta)
    least = math.log(1 / delta)
    best = math.inf
    for x in least + np.geomspace(1e-3, 60.0, _CHOICES):
        eps1 = covariance_epsilon(om, size, float(x))
        if eps1 < best:
            best = min(best, eps1 + _mean_epsilon(mu, eps1, math.exp(-float(x)), delta))
    return best


def _mean_epsilon(mu: float, eps1: float, delta1: float, delta: float) -> float:
    """The smallest eps2 that leaves room for delta2; infinite where none does."""
    eps2 = 0.0
    for _ in range(_ROUNDS):
        left = (delta - math.exp(min(eps2, 700.0)) * delta1) * math.exp(-min(eps1, 700.0))
        if left <= 0:
            return math.inf
        if delta_of(eps2, mu) <= left:
            return eps2
        eps2 = epsilon_of(mu, left)
    return math.inf


def influence_claim(residual: float, *, sigma: float, delta: float) -> NoiseClaim:
    """Of a model trained with the linear term sigma b, b drawn once. residual: |F(w) + sigma b|."""
    if not sigma > 0:
        return NoiseClaim(label=HEURISTIC, delta=delta)
    mu = residual / sigma
    return NoiseClaim(label=GUO, delta=delta, epsilon=epsilon_of(mu, delta), mu=mu)


def deltagrad_claim(*, delta: float) -> NoiseClaim:
    """Of a replayed run that was not polished."""
    return NoiseClaim(label=AUDITED, delta=delta)
