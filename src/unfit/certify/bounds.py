"""How far weights can be from the optimum of the remaining rows. Pure.

F(w) is the gradient of the objective over the remaining rows, ridge its strong convexity, H
its derivative, w* its zero, R at least the length of every row (intercept included). Bounds are of
|c - w*| for weights c, from cheap to tight:

    step      after a step dw from weights where gradient and Hessian sums are known: no pass
    gradient  |F(c)| / ridge: one pass, any convex loss
    factor    with H(c) at hand: nearly the distance itself

step and factor hold for the logistic loss: its curvature changes along e by factors within
exp(+-|x.e|), so that, with t = R |c - w*|, the mean Hessian between c and w* is at least
(1 - exp(-t)) / t times H(c), row by row and whatever their sample weights. For factor,
F(c) = (mean Hessian) (c - w*) and nu = |H(c)^(-1/2) F(c)| give 1 - exp(-t) <= z, where
z = R nu / sqrt(ridge), and with it

    |c - w*| <= (nu / sqrt(ridge)) (-log(1 - z) / z),   and without bound where z >= 1.

For step, F(c) = u + X^T r with u what the linearised gradient leaves and r what the curvature adds,
and |(X^T K X + ridge)^-1 X^T K^(1/2)| <= 1 / (2 sqrt(ridge)) whatever K is, which gives

    |c - w*| <= |u| / ridge + b sqrt(1 + t),    b = |K^(-1/2) r| / (2 sqrt(ridge)) where t = 0.

Each problem of one-vs-rest has a bound of its own; together they are one vector, so lengths add up
as squares do. Sums are float64's; what they are off by at most is part of every bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNIT = 2.0**-53
LEAST_RIDGE = 2.0**-400  # below it, what gets lost below the smallest number could matter
FAR = 20.0  # a reach from which `step` says nothing


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What every bound depends on. n: rows that were summed; total_weight: of their sample weights,
    n where they have none; summed_ridge: the penalty that was summed with them; radius: R, of all
    of them; d: columns; ridge: the penalty of the rows that remain, which may be fewer. Of the
    loss: its largest curvature and slope, and its largest slope at a margin of 0."""

    n: int
    total_weight: float
    summed_ridge: float
    d: int
    ridge: float
    radius: float
    max_curvature: float
    max_slope: float
    slope_at_zero: float

    def rounding(self, length: float) -> float:
        """By how much a computed gradient sum can be off, at weights of this length.

        Margins are off by gamma_d R |w|, slopes by that times the largest curvature and by their
        own rounding (4 units, and one for the sample weight), the sum over rows by gamma_n of what
        is summed.
        """
        margin = _gamma(self.d) * self.radius * length
        slope = self.slope_at_zero + self.max_curvature * self.radius * length
        slope = min(slope, self.max_slope)
        each = self.max_curvature * margin + (5 * UNIT + _gamma(self.n)) * slope
        return self.total_weight * self.radius * each + 2 * UNIT * self.summed_ridge * length

    def product_rounding(self, length: float) -> float:
        """By how much the Hessian sum times a vector of this length can be off."""
        most = self.total_weight * self.max_curvature * self.radius**2 + self.summed_ridge
        return (_gamma(self.n) + 2 * _gamma(self.d) + 8 * UNIT) * most * length


def _gamma(count: int) -> float:
    """The relative error of a sum of so many products, in the worst case."""
    return count * UNIT / (1 - count * UNIT)


def together(each: Sequence[float]) -> float:
    """The length of one vector that several are parts of."""
    return math.hypot(*each)


def by_gradient(problem: Problem, weights: np.ndarray, gradient: np.ndarray) -> float:
    """|F(c)| / ridge; weights and gradient are (k, d)."""
    return by_residual(problem, weights, [_length(g) for g in gradient])


def by_residual(problem: Problem, weights: np.ndarray, residual: Sequence[float]) -> float:
    """The same from the lengths of the gradients, one per problem."""
    pairs = zip(weights, residual, strict=True)
    return together([(r + problem.rounding(_length(w))) / problem.ridge for w, r in pairs])


def by_factor(
    problem: Problem,
    weights: np.ndarray,
    gradient: np.ndarray,
    solved: np.ndarray,
    product: np.ndarray,
) -> float:
    """|H^-1 F| and what the curvature can change on the way.

    solved: H(c)^-1 F(c), (k, d), as well as it could be solved; product: H(c) times that.
    """
    found = []
    for w, g, x, hx in zip(weights, gradient, solved, product, strict=True):
        error = problem.rounding(_length(w)) + problem.product_rounding(_length(x))
        error += _length(g - hx)
        nu = math.sqrt(max(float(g @ x), 0.0)) + error / math.sqrt(problem.ridge)
        more = _growth(problem, nu)
        scale = nu / math.sqrt(problem.ridge)
        found.append(_length(x) + error / problem.ridge + (more - 1) * scale)
    return together(found)


def by_step(
    problem: Problem,
    start: np.ndarray,
    step: np.ndarray,
    gradient: np.ndarray,
    product: np.ndarray,
    reach: Sequence[float] | None = None,
) -> float:
    """Without a pass: what a step (k, d) from `start` leaves undone.

    gradient: F at the start; product: H at the start times the step. reach: of each problem, at
    least |x.dw| for every row; R |dw| where it is not given. Whatever the step was, what it leaves
    of the linearised gradient, F + H dw, counts in full; what the curvature adds on the way is at
    most (exp(t) - 1 - t) / t, t the reach, of the step's length in the metric of the rows' part of
    H, and exp(t / 2) times that in the metric where it ends.
    """
    reach = reaches(problem, step) if reach is None else reach
    found = []
    for w, dw, g, hdw, t in zip(start, step, gradient, product, reach, strict=True):
        if t > FAR:
            return math.inf
        undone, along = _of_step(problem, w, dw, g, hdw)
        found.append(_fixed_point(problem, undone, math.exp(t / 2) * _beyond_linear(t) * along))
    return together(found)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How far margins can have moved, per problem: from the known sums to where a step starts, and
    along the step."""

    before: Sequence[float]
    step: Sequence[float]


def by_later_step(
    problem: Problem,
    start: np.ndarray,
    step: np.ndarray,
    gradient: np.ndarray,
    product: np.ndarray,
    walk: Walk,
) -> float:
    """The same after a step from a point where F is known, and H only at an earlier one.

    product: the earlier H times the step. The curvature differs from the earlier one by factors of
    exp(t) at most all along the step, t all that margins can have moved since.
    """
    found = []
    moved = [sum(pair) for pair in zip(walk.before, walk.step, strict=True)]
    for w, dw, g, hdw, t in zip(start, step, gradient, product, moved, strict=True):
        if t > FAR:
            return math.inf
        undone, along = _of_step(problem, w, dw, g, hdw)
        found.append(_fixed_point(problem, undone, math.exp(t / 2) * math.expm1(t) * along))
    return together(found)


def _of_step(
    problem: Problem, w: np.ndarray, dw: np.ndarray, g: np.ndarray, hdw: np.ndarray
) -> tuple[float, float]:
    """What a step leaves of the linearised gradient, and its length in the metric of the rows' part
    of H; both with rounding."""
    length = _length(dw)
    off = problem.product_rounding(length)
    undone = _length(g + hdw) + problem.rounding(_length(w)) + off
    along = float(dw @ hdw) - problem.ridge * length**2 + off * length
    return undone, math.sqrt(max(along, 0.0))


def reaches(problem: Problem, step: np.ndarray) -> list[float]:
    """R |dw| of each problem: no row's margin changes by more."""
    return [problem.radius * _length(dw) for dw in step]


def _fixed_point(problem: Problem, undone: float, curved: float) -> float:
    """The largest x with x <= a + b sqrt(1 + R x)."""
    a, b = undone / problem.ridge, curved / (2 * math.sqrt(problem.ridge))
    more = b * b * problem.radius / 2
    return a + more + math.sqrt(b * b * (1 + a * problem.radius) + more * more)


def _growth(problem: Problem, nu: float) -> float:
    """-log(1 - z) / z, at least 1; infinite from z = 1."""
    z = problem.radius * nu / math.sqrt(problem.ridge)
    if z >= 1:
        return math.inf
    return 1.0 + z / 2 if z < 1e-9 else -math.log1p(-z) / z


def _beyond_linear(t: float) -> float:
    """(exp(t) - 1 - t) / t."""
    if t < 0.05:
        return t / 2 * (1 + t / 3 * (1 + t / 4 * (1 + t / 5 * (1 + t / 6 * (1 + t / 7)))))
    return (math.expm1(t) - t) / t


def _length(v: np.ndarray) -> float:
    """The length of a vector, also where its square is below the smallest number."""
    square = float(v @ v)
    return math.sqrt(square) if square > 1e-280 else math.hypot(*v)
