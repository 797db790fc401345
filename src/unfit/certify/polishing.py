"""Steps towards the optimum until a bound fits, with as few new factors as that takes.

A gradient is one pass over the rows; a Hessian costs as much as many of them. So the inverse from
before the erasure comes first, then a factor of the present Hessian, and each is used again as
long as the steps it gives are few enough. Where products are cheaper than a Hessian, conjugate
gradients take the place of the factor. Steps need no exact factor, because what is claimed rests on
the gradient alone: for float32 rows Hessians are summed in float32. May know methods, engines and
core.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from unfit.certify import bounds
from unfit.certify.known import Known
from unfit.core.conjugate_gradients import Products
from unfit.core.factors import Cholesky, Factor, Inverse
from unfit.core.kernels.vectors import symmetric_times
from unfit.engines.base import Engine
from unfit.methods.base import Settings
from unfit.methods.minimum import minimize
from unfit.methods.retrain import Retrain

Kind = Literal["step", "gradient", "factor"]
Solver = Callable[[np.ndarray], np.ndarray]  # of one problem
_STEPS = 60
_FAR = 0.5  # R |step| above which Newton's steps need a line search
_VERY_FAR = 5.0  # the same of R |F| / ridge, which is several times as much
_AT_BEST = 0.02  # what a step with a guide leaves at best
_LEADS = 0.5  # a step must shrink the bound at least so much to be followed by one like it
_REUSED = 20  # steps with one factor at most,
_REUSED_BY_PRODUCTS = 2  # and where conjugate gradients are as cheap,
_COLUMNS_A_STEP = 16  # and one for so many columns: a Hessian of few columns is cheap
_WORTH_A_TRY = 8  # of these, from which a guide is tried however far the weights are
_FILLED = 0.8  # of the room, which is what is minimised to: rounding needs the rest


@dataclass(frozen=True)
class Polished:
    """A centre that is near enough, how near, and what that took."""

    centre: np.ndarray
    distance: float
    bound: Kind
    steps: int


@dataclass(frozen=True, kw_only=True)
class Polishing:
    """Of one model. room: how far from the optimum is near enough. known: sums from before the
    erasure, where they are; share: of the rows, that leaves."""

    problem: bounds.Problem
    data: Engine
    mask: np.ndarray  # of the rows that remain
    room: float
    known: Known | None = None
    share: float = 0.0

    def run(self, centre: np.ndarray, guide: Sequence[Inverse] | None) -> Polished | None:
        """None where rounding is in the way. guide: inverses that are about right, if there are."""
        solvers: Sequence[Solver] | None = None
        if guide is not None:
            solvers = [one.solve for one in guide]
        fresh, before = False, math.inf
        tried = guide is not None and self._reused >= _WORTH_A_TRY
        if not tried and self.known is not None and self.known.is_far(centre):
            centre, distance = self._minimised(centre, guide, near=False)
            if distance <= self.room:
                return Polished(centre, distance, "gradient", 1)
        for steps in range(_STEPS):
            gradient = self._gradient(centre)
            distance = stated(bounds.by_gradient(self.problem, centre, gradient))
            if distance <= self.room:
                return Polished(centre, distance, "gradient", steps)
            if bounds.by_gradient(self.problem, centre, np.zeros_like(gradient)) > self.room:
                break
            if solvers is None or not self._leads(before, distance):
                if self._by_products or self.problem.radius * distance > _VERY_FAR:
                    centre, distance = self._minimised(centre, guide)
                    if distance <= self.room:
                        return Polished(centre, distance, "gradient", steps + 1)
                    solvers, before = None, math.inf
                    continue
                factors = self._factors(centre)
                found = self._by_factor(centre, gradient, factors)
                if found <= self.room:
                    return Polished(centre, found, "factor", steps)
                solvers, fresh = [factor.solve for factor in factors], True
            before = distance
            step = -_solved(solvers, gradient)
            if fresh and self.problem.radius * float(np.linalg.norm(step, axis=1).max()) > _FAR:
                centre, solvers, before = self._minimised(centre)[0], None, math.inf
                continue
            if self.known is not None:
                found = stated(self.known.bound_later(centre, step, gradient, self.room))
                if found <= self.room:
                    return Polished(centre + step, found, "step", steps + 1)
            centre = centre + step
        return None

    def _gradient(self, centre: np.ndarray) -> np.ndarray:
        found = self.data.measured_gradient_sum(centre, self.mask)
        return np.asarray(found + self.problem.ridge * centre)

    def _leads(self, before: float, distance: float) -> bool:
        """Whether steps like the last one soon lead near enough."""
        share = distance / before if math.isfinite(before) else max(_AT_BEST, self.share)
        if share > _LEADS:
            return False
        left = math.log(distance / self.room) / -math.log(share)
        return left <= self._reused

    @property
    def _reused(self) -> int:
        """Steps that cost about what a new factor does, or conjugate gradients."""
        if self._by_products:
            return _REUSED_BY_PRODUCTS
        return max(2, min(_REUSED, self.problem.d // _COLUMNS_A_STEP))

    def _factors(self, centre: np.ndarray) -> Sequence[Factor]:
        with _in_own_precision(self.data):
            return self.data.factors(centre, self.mask, self.problem.ridge)

    def _by_factor(
        self, centre: np.ndarray, gradient: np.ndarray, factors: Sequence[Factor]
    ) -> float:
        """Infinite where the Hessian is not float64's, or the bound does not hold for the loss."""
        hessians = [factor.hessian for factor in factors if isinstance(factor, Cholesky)]
        exact = self.data.dtype == np.float64 and self.data.loss.self_concordant
        if not exact or len(hessians) < len(factors):
            return math.inf
        solved = _solved([factor.solve for factor in factors], gradient)
        product = np.array([h @ x for h, x in zip(hessians, solved, strict=True)])
        return stated(bounds.by_factor(self.problem, centre, gradient, solved, product))

    @cached_property
    def _exact(self) -> Retrain:
        """A retraining of these rows that ends within the room."""
        l2 = self.problem.ridge / self.problem.total_weight
        return Retrain(Settings(l2=l2, tol=_FILLED * self.room * l2 / math.sqrt(self.data.k)))

    @cached_property
    def _by_products(self) -> bool:
        return self._exact.objective(self.data, self.mask).by_products

    def _minimised(
        self, centre: np.ndarray, guide: Sequence[Inverse] | None = None, *, near: bool = True
    ) -> tuple[np.ndarray, float]:
        """Newton's method with a line search, for weights that are far away; and the bound."""
        roughly = None if guide is None or not self._by_products else _roughly(guide)
        objective, tol = self._exact.objective(self.data, self.mask), self._exact.settings.tol
        with _in_own_precision(self.data):
            found = minimize(objective, tol, start=centre, near=near, guide=roughly)
        if self.data.carries_sums:
            gradient = self._gradient(found.weights)
            return found.weights, stated(bounds.by_gradient(self.problem, found.weights, gradient))
        residual = [float(length) for length in found.residual]
        return found.weights, stated(bounds.by_residual(self.problem, found.weights, residual))


def _solved(solvers: Sequence[Solver], gradient: np.ndarray) -> np.ndarray:
    return np.array([solve(g) for solve, g in zip(solvers, gradient, strict=True)])


def _roughly(guide: Sequence[Inverse]) -> Products:
    """A guide for conjugate gradients in float32, at half the traffic."""
    return lambda problems, vectors: np.array(
        [symmetric_times(guide[c].rough, v) for c, v in zip(problems, vectors, strict=True)]
    )


@contextmanager
def _in_own_precision(data: Engine) -> Iterator[None]:
    """Hessians in the precision of the rows, which is enough for a step."""
    before, data.precise = data.precise, data.dtype == np.float64
    try:
        yield
    finally:
        data.precise = before


def stated(distance: float) -> float:
    """A distance as it is kept and shown: two digits, rounded up. More of them would be an equation
    about the rows that left, on record when they are gone."""
    if not (math.isfinite(distance) and distance > 0):
        return distance
    unit = 10.0 ** (math.floor(math.log10(distance)) - 1)
    units = math.ceil(distance / unit)
    said = float(f"{units * unit:.1e}")
    return said if said >= distance else float(f"{(units + 1) * unit:.1e}")
