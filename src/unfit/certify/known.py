"""What is known from before an erasure: sums at the old centre, which bound steps without a pass.

Only the rows that leave are looked at. May know methods, engines and core.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unfit.certify import bounds
from unfit.certify.lengths import Spread
from unfit.core.objective import Rows
from unfit.core.penalty import Ridge
from unfit.core.statistics import Statistics
from unfit.engines.base import Engine
from unfit.methods.base import State

_CURVED = 1.0  # reach above which a step is not worth bounding
_FEW = 32  # rows
_HOPELESS = 3.0  # times the room that a step may come to with nothing left undone


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """The rows that leave in float64 with their intercept, (m, d), and slopes and curvatures (m, k)
    at the old centre."""

    X: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray

    @classmethod
    def of(cls, rows: Rows, W: np.ndarray) -> "Leaving":
        m, p = rows.X.shape
        X = np.ones((m, rows.d))
        X[:, :p] = rows.X
        slopes, curvatures = rows.loss.slope_and_curvature(X.dot(W.T), rows.targets(len(W)))
        return cls(X=X, slopes=rows.weighted(slopes), curvatures=rows.weighted(curvatures))

    def gradient(self) -> np.ndarray:
        return np.asarray(self.slopes.T.dot(self.X))

    def product(self, step: np.ndarray) -> np.ndarray:
        return np.asarray((self.curvatures * self.X.dot(step.T)).T.dot(self.X))


@dataclass(kw_only=True)
class Known:
    """Sums over all rows at the old centre, and the positions of those that leave.

    problem: with the regulariser of the rows that remain, and rounding of sums over all."""

    statistics: Statistics
    problem: bounds.Problem
    spread: Spread | None
    data: Engine
    deleted: np.ndarray
    rows: Rows | None = None  # the same, if they were taken already

    @classmethod
    def of(
        cls,
        before: State,
        problem: bounds.Problem,
        spread: Spread | None,
        data: Engine,
        deleted: np.ndarray,
        *,
        rows: Rows | None = None,
    ) -> "Known | None":
        """None where no sums are known at the centre."""
        known = before.statistics
        if known is None:
            return None
        if known.weights is not before.centre and not np.array_equal(known.weights, before.centre):
            return None
        return cls(
            statistics=known,
            problem=problem,
            spread=spread,
            data=data,
            deleted=deleted,
            rows=rows,
        )

    @cached_property
    def leaving(self) -> Leaving:
        rows = self.data.take(self.deleted) if self.rows is None else self.rows
        return Leaving.of(rows, self.statistics.weights)

    def reach(self, step: np.ndarray) -> list[float]:
        """At least |x.dw| for every row, of each problem."""
        found = bounds.reaches(self.problem, step)
        if self.spread is None:
            return found
        return [min(pair) for pair in zip(found, self.spread.reach(step), strict=True)]

    def is_far(self, centre: np.ndarray) -> bool:
        """Whether a step to here is so long that the sums say nothing of where it ended."""
        return max(self.reach(centre - self.statistics.weights)) > _CURVED

    def bound(self, centre: np.ndarray, room: float) -> float:
        """After a step from the old centre to this one; infinite where it is not worth a look."""
        known, W = self.statistics, self.statistics.weights
        step = centre - W
        reach = self.reach(step)
        if max(reach) > _CURVED:
            return math.inf
        product = self._product(step)
        if len(self.deleted) > _FEW:  # whose products cost more than a look ahead
            at_best = bounds.by_step(self.problem, W, step, -product, product, reach)
            if at_best > _HOPELESS * room:
                return math.inf
        leaving, ridge = self.leaving, self._ridge
        product -= leaving.product(step) + ridge * step
        gradient = known.gradient_sum - leaving.gradient() - ridge * W
        return bounds.by_step(self.problem, W, step, gradient, product, reach)

    def bound_later(
        self, start: np.ndarray, step: np.ndarray, gradient: np.ndarray, room: float
    ) -> float:
        """After one more step from where F is known by a pass; see bounds.by_later_step."""
        moved = self.reach(start - self.statistics.weights)
        walk = bounds.Walk(before=moved, step=self.reach(step))
        if max(walk.before) + max(walk.step) > _CURVED:
            return math.inf
        product = self._product(step)
        at_best = bounds.by_later_step(self.problem, start, step, -product, product, walk)
        if at_best > _HOPELESS * room:
            return math.inf
        product -= self._of_leaving(step)
        return bounds.by_later_step(self.problem, start, step, gradient, product, walk)

    @cached_property
    def _ridge(self) -> Ridge:
        """The part of the regulariser that leaves with the rows."""
        return self.statistics.penalty.leaving(self.data.weight_of(self.deleted), self.problem.d)

    def _product(self, step: np.ndarray) -> np.ndarray:
        """The Hessian of all rows times a step (k, d)."""
        pairs = zip(self.statistics.hessian_sum, step, strict=True)
        return np.array([hessian @ dw for hessian, dw in pairs])

    def _of_leaving(self, step: np.ndarray) -> np.ndarray:
        """That of the rows that leave, with their share of the regulariser."""
        return self.leaving.product(step) + self._ridge * step
