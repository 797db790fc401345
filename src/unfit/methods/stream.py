"""A stream of requests, answered without new sums for as long as the old ones lead.

The first request after a training or a `prepare` is answered from the sums that are kept. The next
ones are

1. steps from the same point, without a pass over the rows (core.fixed_point). What such a step
   leaves of the gradient is about ratio x energy, and the ratio changes slowly along a stream: by
   no more than the root of the energy. It is measured, by one pass, when the energy has doubled or
   the expected residual is over the tolerance, and the pass serves to correct the step.
2. where the point is too far away: steps from where the weights are, each a pass and a product with
   the old inverse, until the residual is within the tolerance. An inverse from before the weights
   moved shrinks it tenfold and more each time.

Where neither leads, nor new sums do, or there are none (sparse rows, more columns than rows), the
method minimises from where the weights are, to the same tolerance (methods.onestep).

Passes are counted. When all that were made since the sums are known would have paid for new ones,
new ones are due: so the whole costs at most twice what it would have cost to know the future. Rows
that have left are held in memory meanwhile, and are in no file.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from unfit.core.factors import TooFar
from unfit.core.fixed_point import ROUGH, FixedPoint
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics, gradient_of_rows
from unfit.engines.base import Engine
from unfit.methods.few_rows import price_of_sums

_GROWTH = 2.0  # of the energy, until the ratio is measured
_WORTH = 0.1  # of the tolerance, from which a measured residual is corrected
_SHRINKS = 0.1  # what a correction leaves of the residual, while that was not seen
_LEADS = 0.5  # an old inverse must shrink the residual at least so much
_MOST_PASSES = 8  # for one request
NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Direction:
    """Which gradients a method steps along: H^-1 (remaining g' + deleted g)."""

    remaining: float
    deleted: float


@dataclass(frozen=True)
class Departure:
    """Rows that leave. weights: where they are now; tol: allowed of the gradient, for each row."""

    data: Engine
    leaving: np.ndarray
    weights: np.ndarray
    along: Direction
    tol: float

    @cached_property
    def total_weight(self) -> float:
        """Of the rows that remain after it: their number where they have no sample weights."""
        return self.data.total_weight() - self.data.weight_of(self.leaving)

    @property
    def allowed(self) -> float:
        """Of the gradient that is left."""
        return self.tol * self.total_weight

    def gradient(self, weights: np.ndarray, penalty: Penalty) -> np.ndarray:
        """Of what remains: one pass."""
        ridge = penalty.on(self.total_weight, weights.shape[1])
        mask = self.data.without(self.leaving)
        return np.asarray(self.data.gradient_sum(weights, mask) + ridge * weights)


@dataclass(frozen=True)
class _Step:
    """A step from a point, and the gradient it answers, both (k, d); energy = step.H step."""

    step: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, point: FixedPoint, along: Direction) -> "_Step":
        target = along.remaining * point.now + along.deleted * (point.before - point.now)
        return cls(point.solve(remaining=along.remaining, deleted=along.deleted), target)

    @property
    def energy(self) -> float:
        return abs(float(np.sum(self.step * self.target)))

    def beyond(self, other: "_Step | None") -> float:
        """The energy by which the curvature has changed unseen since another step was corrected.

        What the curvature does is a square: of (a + b)^2 a correction at a leaves 2 a b + b^2.
        """
        if other is None:
            return self.energy
        b = _Step(self.step - other.step, self.target - other.target).energy
        return b + 2 * math.sqrt(b * other.energy)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is known at the point; without statistics, only that requests have come before.

    waiting: rows that have left and are not yet taken off the point. first: energy of the first
    request's step. ratio: the last residual for an energy that was measured, at the energy
    `measured`; None before. correction (k, d): what measurements have added to the step, the last
    one when it was `corrected`. shrinks: what a correction leaves of the residual for a step of
    energy 1, as it was last seen; it grows as the length of the step. passed: the point is too far
    away, and only its inverse serves. passes: over the rows, since the sums are known.
    """

    statistics: Statistics | None = None
    waiting: np.ndarray = field(default_factory=lambda: NOBODY)
    point: FixedPoint | None = None
    first: float = 0.0
    ratio: float | None = None
    measured: float = 0.0
    correction: np.ndarray | float = 0.0
    corrected: _Step | None = None
    shrinks: float | None = None
    passed: bool = False
    passes: int = 0

    @property
    def leads(self) -> bool:
        """Whether there are sums, and new ones would not have paid."""
        if self.statistics is None:
            return False
        d = int(self.statistics.weights.shape[1])
        return self.passes < price_of_sums(d, self.statistics.n)

    def answered(self, request: Departure) -> "tuple[np.ndarray, Stream]":
        """The weights after a request, and the stream that goes on from there. TooFar where
        nothing known leads there."""
        if not self.leads:
            raise TooFar
        if not self.passed:
            try:
                return self._from_point(request)
            except TooFar:
                pass
        return self._from_here(request)

    def _new_point(self, request: Departure) -> FixedPoint | None:
        """At the statistics; in float64 where float32's rounding would be seen."""
        if self.statistics is None:
            return None
        rows = request.data.take(np.concatenate([self.waiting, request.leaving]))
        at, penalty = self.statistics.weights, self.statistics.penalty
        pull = float(np.linalg.norm(gradient_of_rows(rows, at, penalty)))
        rough = request.allowed >= ROUGH * pull
        return FixedPoint.of(self.statistics, precise=not rough)

    # --- steps from the point ------------------------------------------------------------------

    def _from_point(self, request: Departure) -> "tuple[np.ndarray, Stream]":
        known = self._opened(request)
        assert known.point is not None
        point = known.point.without(request.data.take(request.leaving))
        step = _Step.of(point, request.along)
        after = replace(known, point=point)
        if after._expected(step) > request.allowed:
            return after._measured(request, step)
        return point.weights + step.step + known.correction, after

    def _opened(self, request: Departure) -> "Stream":
        """With a point, from which those who wait are taken off."""
        if self.point is not None:
            return self
        if request.data.erased[self.waiting].any():
            raise TooFar
        point = self._new_point(request)
        if point is None:
            raise TooFar
        if len(self.waiting):
            point = point.without(request.data.take(self.waiting))
        first = _Step.of(point, request.along).energy
        if np.linalg.norm(point.before) > request.allowed:
            first = 0.0  # no optimum: how wrong a step from there is must be seen at once
        return replace(self, point=point, waiting=NOBODY, first=first)

    def _expected(self, step: _Step) -> float:
        """Of the gradient, after a step; infinite where it must be measured."""
        if self.ratio is None:
            return math.inf if step.energy > _GROWTH * self.first else 0.0
        more = step.beyond(self.corrected)
        growth = math.sqrt(max(1.0, more / max(self.measured, 1e-300)))
        return self.ratio * growth * more

    def _measured(self, request: Departure, step: _Step) -> "tuple[np.ndarray, Stream]":
        """One pass: the residual, which is corrected unless it is nothing. More passes where the
        point is so far away that one correction may not do."""
        assert self.point is not None
        start, length = self.point.weights + step.step + self.correction, math.sqrt(step.energy)
        shrinks = _SHRINKS if self.shrinks is None else self.shrinks * length
        found = _descended(self.point, request, start, shrinks)
        seen = max(step.beyond(self.corrected), 1e-300)
        after = replace(
            self, ratio=found.residual / seen, measured=seen, passes=self.passes + found.passes
        )
        if found.shrinks is not None:
            after = replace(after, shrinks=found.shrinks / max(length, 1e-300))
        if found.weights is not start:
            correction = self.correction + (found.weights - start)
            after = replace(after, correction=correction, corrected=step)
        return found.weights, after

    # --- steps from where the weights are ------------------------------------------------------

    def _from_here(self, request: Departure) -> "tuple[np.ndarray, Stream]":
        point = self.point or self._new_point(replace(request, leaving=NOBODY))
        if point is None:
            raise TooFar
        rows = request.data.take(request.leaving)
        start = request.weights + point.pull_of(rows, request.weights)
        found = _descended(point, request, start, shrinks=1.0)
        passes = self.passes + found.passes
        return found.weights, replace(self, point=point, waiting=NOBODY, passed=True, passes=passes)


@dataclass(frozen=True, kw_only=True)
class _Descent:
    """Where corrections have led: weights (k, d), the very ones of the start where none was made.

    residual: of the start. shrinks: what the last correction but one left of it, if there were two.
    """

    weights: np.ndarray
    passes: int
    residual: float
    shrinks: float | None


def _descended(
    point: FixedPoint, request: Departure, start: np.ndarray, shrinks: float
) -> _Descent:
    """Corrections by the inverse at the point, each after a pass, until the residual is within what
    is allowed; shrinks: what one leaves of it, as far as is known. TooFar where they do not lead.
    """
    weights, first, before, seen = start, math.inf, math.inf, None
    for passes in range(1, _MOST_PASSES + 1):
        gradient = request.gradient(weights, point.statistics.penalty)
        residual = float(np.linalg.norm(gradient))
        if residual > _LEADS * before:
            break
        if passes == 1:
            first = residual
        else:
            seen = shrinks = residual / before
        enough = residual <= _WORTH * request.allowed
        if not enough:
            weights = weights - point.solve_for(gradient)
        if enough or residual * shrinks <= request.allowed:
            return _Descent(weights=weights, passes=passes, residual=first, shrinks=seen)
        before = residual
    raise TooFar
