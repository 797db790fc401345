"""A stream of requests, answered without new sums for as long as the old ones lead.

The first request after a training or a `prepare` is answered from the sums that are kept. The next
ones are

1. steps from the same point, without a pass over the rows (core.fixed_point). What such a step
   leaves of the gradient is about ratio x energy, and the ratio hardly changes along a stream. It
   is measured, by one pass, when the energy has doubled or the expected residual is over the
   tolerance; the step is corrected if the residual is.
2. where the point is too far away: steps from where the weights are, each a pass and a product with
   the old inverse, until the residual is within the tolerance. An inverse from before the weights
   moved shrinks it tenfold and more each time.

Passes are counted. When all that were made since the sums are known would have paid for new ones,
new ones are due: so the whole costs at most twice what it would have cost to know the future. Rows
that have left are held in memory meanwhile, and are in no file.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from unfit.core.factors import TooFar
from unfit.core.fixed_point import FixedPoint
from unfit.core.statistics import Statistics
from unfit.engines.base import Engine

_GROWTH = 2.0  # of the energy, until the ratio is measured
_CAREFUL = 4.0  # times what is expected
_REACH = 30.0  # times the tolerance: beyond that, the point is too far away
_LEADS = 0.5  # an old inverse must shrink the residual at least so much
_MOST_PASSES = 8  # for one request
PASSES_PER_COLUMN = 1 / 25  # that cost as much as a new Hessian: n d^2 operations, or 4 n d bytes
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

    @property
    def n(self) -> int:
        """Rows that remain after it."""
        return self.data.n_remaining - len(self.leaving)

    def gradient(self, weights: np.ndarray, l2: float) -> np.ndarray:
        """Of what remains: one pass."""
        mask = self.data.without(self.leaving)
        return np.asarray(self.data.gradient_sum(weights, mask) + l2 * self.n * weights)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is known at the point; without statistics, only that requests have come before.

    waiting: rows that have left and are not yet taken off the point. first: energy of the first
    request's step. ratio: the largest residual for an energy that was measured; None before.
    correction (k, d): what measurements have added to the step, the last one at the energy
    `corrected`. passed: the point is too far away, and only its inverse serves. passes: over the
    rows, since the sums are known.
    """

    statistics: Statistics | None = None
    waiting: np.ndarray = field(default_factory=lambda: NOBODY)
    point: FixedPoint | None = None
    first: float = 0.0
    ratio: float | None = None
    correction: np.ndarray | float = 0.0
    corrected: float = 0.0
    passed: bool = False
    passes: int = 0

    @property
    def leads(self) -> bool:
        """Whether there are sums, and new ones would not have paid."""
        if self.statistics is None:
            return False
        d = int(self.statistics.weights.shape[1])
        return self.passes < PASSES_PER_COLUMN * d * (1 + d / self.statistics.n)

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

    def _new_point(self) -> FixedPoint | None:
        return None if self.statistics is None else FixedPoint.of(self.statistics)

    # --- steps from the point ------------------------------------------------------------------

    def _from_point(self, request: Departure) -> "tuple[np.ndarray, Stream]":
        known = self._opened(request)
        assert known.point is not None
        point = known.point.without(request.data.take(request.leaving))
        step, energy = _stepped(point, request.along)
        after = replace(known, point=point)
        if after._expected(energy) > request.tol * request.n:
            return after._measured(request, step, energy)
        return point.weights + step + known.correction, after

    def _opened(self, request: Departure) -> "Stream":
        """With a point, from which those who wait are taken off."""
        if self.point is not None:
            return self
        point = self._new_point()
        if point is None or request.data.erased[self.waiting].any():
            raise TooFar
        if len(self.waiting):
            point = point.without(request.data.take(self.waiting))
        _, first = _stepped(point, request.along)
        return replace(self, point=point, waiting=NOBODY, first=first)

    def _expected(self, energy: float) -> float:
        """Of the gradient, after a step of this energy; infinite where it must be measured."""
        if self.ratio is None:
            return math.inf if energy > _GROWTH * self.first else 0.0
        return _CAREFUL * self.ratio * self._uncorrected(energy)

    def _uncorrected(self, energy: float) -> float:
        """The part of an energy that the last correction does not cover.

        What the curvature does is a square: of (a + b)^2 a correction at a leaves 2 a b + b^2.
        """
        more = max(0.0, energy - self.corrected)
        return more + 2 * math.sqrt(more * self.corrected)

    def _measured(
        self, request: Departure, step: np.ndarray, energy: float
    ) -> "tuple[np.ndarray, Stream]":
        """One pass: the residual, and a correction if it is over the tolerance."""
        point, allowed = self.point, request.tol * request.n
        assert point is not None
        weights = point.weights + step + self.correction
        gradient = request.gradient(weights, point.statistics.l2)
        residual = float(np.linalg.norm(gradient))
        if residual > _REACH * allowed:
            raise TooFar
        ratio = max(self.ratio or 0.0, residual / max(self._uncorrected(energy), 1e-300))
        after = replace(self, ratio=ratio, passes=self.passes + 1)
        if residual <= allowed:
            return weights, after
        more = -point.solve_for(gradient)
        correction = self.correction + more
        return weights + more, replace(after, correction=correction, corrected=energy)

    # --- steps from where the weights are ------------------------------------------------------

    def _from_here(self, request: Departure) -> "tuple[np.ndarray, Stream]":
        point = self.point or self._new_point()
        if point is None:
            raise TooFar
        l2, allowed = point.statistics.l2, request.tol * request.n
        rows = request.data.take(request.leaving)
        weights = request.weights + point.pull_of(rows, request.weights)
        before, passes = math.inf, self.passes
        for _ in range(_MOST_PASSES):
            gradient = request.gradient(weights, l2)
            residual, passes = float(np.linalg.norm(gradient)), passes + 1
            if residual > _LEADS * before:
                break
            if residual <= allowed:
                return weights, self._gone_on(point, passes)
            weights = weights - point.solve_for(gradient)
            if math.isfinite(before) and residual * residual / before <= allowed:
                return weights, self._gone_on(point, passes)  # the next one would be that small
            before = residual
        raise TooFar

    def _gone_on(self, point: FixedPoint, passes: int) -> "Stream":
        return replace(self, point=point, waiting=NOBODY, passed=True, passes=passes)


def _stepped(point: FixedPoint, along: Direction) -> tuple[np.ndarray, float]:
    """The step from the point and its energy, step.H' step."""
    step = point.solve(remaining=along.remaining, deleted=along.deleted)
    target = along.remaining * point.now + along.deleted * (point.before - point.now)
    return step, abs(float(np.sum(step * target)))
