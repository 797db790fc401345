"""From distances to epsilon and delta: two Gaussians of one covariance. Pure.

N(c, s^2 I) and N(c', s^2 I) with mu = |c - c'| / s are (epsilon, delta)-indistinguishable, in both
directions, for exactly

    delta(epsilon; mu) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

(Balle and Wang 2018). It grows with mu and falls with epsilon. What an observer of several such
releases can tell is what one release at sqrt(sum mu^2) tells (Dong, Roth and Su 2022).
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv

LEAST_DELTA, LEAST_EPSILON = 1e-30, 1e-9  # of a promise: below, figures lose their digits
MOST_EPSILON = 100.0  # probabilities within a factor of e^100 of each other are any two
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_CLOSE = 0.5  # two Mills ratios nearer than this are subtracted by an integral
_ROOT = 1e-13  # relative, of what is solved for
_ROUNDS = 1000  # of the search for a root
_SLACK = 1e-11  # by which a root is moved to the weaker claim


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta at this epsilon, to about 12 digits."""
    if not (epsilon >= 0 and mu >= 0):
        raise ValueError(f"epsilon and mu must be >= 0, got {epsilon} and {mu}")
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    # With Mills' ratio M(x) = Phi(-x) / phi(x) both terms share the factor phi(p), and what is left
    # is M(p) - M(p + mu): no difference of two numbers that are nearly the same.
    middle = epsilon / mu
    p = middle - mu / 2
    if p < -8:  # M(p) overflows soon, and nothing cancels
        return 1.0 - _upper_tail(-p) - _density(p) * _mills(p + mu)
    if p > 38:  # delta is below 1e-314, where numbers have few digits
        return 0.0
    return float(_density(p) * _mills_difference(middle, mu))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    return float(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))


def _upper_tail(x: float) -> float:
    return _density(x) * _mills(x)


def _mills_difference(middle: float, width: float) -> float:
    """M(middle - width / 2) - M(middle + width / 2); M'(x) = x M(x) - 1."""
    if width >= _CLOSE:
        return _mills(middle - width / 2) - _mills(middle + width / 2)
    x = middle + width / 2 * _NODES
    slopes = 1 - x * np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    return float(width / 2 * (_WEIGHTS @ slopes))


@lru_cache(maxsize=256)
def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that epsilon and delta allow, rounded down."""
    check_promise(epsilon, delta)
    if epsilon == 0:
        return float(2 * math.sqrt(2) * erfinv(delta)) * (1 - _SLACK)
    high = 1.0
    while delta_of(epsilon, high) < delta:
        high *= 2
    low = high / 2
    while delta_of(epsilon, low) > delta:
        low /= 2
    root = _root(lambda mu: delta_of(epsilon, mu) - delta, low, high, xtol=low * _ROOT)
    return root * (1 - _SLACK)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon at this mu and delta, rounded up."""
    if not mu >= 0:
        raise ValueError(f"mu must be >= 0, got {mu}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta}")
    if math.isinf(mu):
        return math.inf
    if delta_of(0.0, mu) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # where Phi(-p) <= delta already
    root = _root(lambda e: delta_of(e, mu) - delta, 0.0, most, xtol=most * _ROOT)
    return root * (1 + _SLACK)


def _root(f: Callable[[float], float], low: float, high: float, xtol: float) -> float:
    return float(brentq(f, low, high, xtol=xtol, rtol=_ROOT, maxiter=_ROUNDS))


def joint_mu(each: Iterable[float]) -> float:
    """What several releases, each with noise of its own, tell together."""
    return math.sqrt(math.fsum(mu * mu for mu in each))


def check_promise(epsilon: float, delta: float) -> None:
    """Refuse what is no promise."""
    if not 0 <= epsilon <= MOST_EPSILON:
        raise ValueError(
            f"epsilon must be between 0 and {MOST_EPSILON:g}, beyond which nothing is promised; "
            f"got {epsilon}"
        )
    if 0 < epsilon < LEAST_EPSILON:
        raise ValueError(f"epsilon must be 0, or at least {LEAST_EPSILON:g}; got {epsilon}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, such as 1e-5, got {delta}")
    if delta < LEAST_DELTA:
        raise ValueError(f"delta must be at least {LEAST_DELTA:g}, such as 1e-5; got {delta}")
