"""Weights that can carry a claim: polished until they are near enough to the optimum.

The claim: what is released cannot be told from a retraining on the remaining rows that is released
in the same way, up to epsilon and delta. If |c - w*| <= a for the centre c, and a retraining stops
at |F| <= tol n, then mu = (a + tol / l2) / noise, and the accountant says which epsilon and delta
that allows. So a has room up to mu_max noise - tol / l2, and polishing goes on until it fits:

    1. after a step from kept sums, the bound `step`: no pass over the rows
    2. one pass: the bound `gradient`
    3. steps, each followed by a pass: see polishing

Which of them ends it depends on the rows, never on noise. May know methods, engines and core.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unfit.certify import bounds
from unfit.certify.accountant import check_promise, mu_of
from unfit.certify.known import Known
from unfit.certify.lengths import Spread
from unfit.certify.polishing import Polished, Polishing, stated
from unfit.core.losses import Loss
from unfit.core.noise import secret_generator, standard_normal
from unfit.core.objective import Rows
from unfit.engines.base import Engine
from unfit.errors import Unavailable
from unfit.methods.base import State

GRID = 1024  # steps of the grid that releases are rounded to, in one standard deviation
TOLERANCE = 1e-11  # of certified training and of its reference, |F| per row


@dataclass(frozen=True)
class Promise:
    """What is promised of every release: epsilon and delta, with this noise on each weight."""

    epsilon: float
    delta: float
    noise: float

    def __post_init__(self) -> None:
        check_promise(self.epsilon, self.delta)
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise ValueError(f"noise must be a number above 0, such as 1e-3, got {self.noise}")

    @property
    def mu(self) -> float:
        """The largest mu that keeps the promise."""
        return mu_of(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True)
class Certifier:
    """Certifies the releases of one model. radius: at least the length of every row. l2: the ridge
    for each row that remains or, where rows have sample weights, for each unit of these."""

    promise: Promise
    l2: float
    radius: float
    tol: float = TOLERANCE

    def __post_init__(self) -> None:
        if not self.room > 0:
            raise ValueError(
                f"noise {self.promise.noise:g} leaves no room for a certificate: a retraining to "
                f"tol={self.tol:g} alone may be tol / l2 = {self.tol / self.l2:.2g} off, and "
                f"epsilon and delta allow {self.promise.mu * self.promise.noise:.2g}; raise noise, "
                "epsilon or l2, or lower C"
            )

    @property
    def room(self) -> float:
        """How far the centre may be from the optimum."""
        return self.promise.mu * self.promise.noise - self.tol / self.l2

    def mu_at(self, distance: float) -> float:
        """mu of a release whose centre is so far from the optimum at most."""
        return (distance + self.tol / self.l2) / self.promise.noise

    def polish(
        self,
        before: State | None,
        after: State,
        data: Engine,
        deleted: np.ndarray,
        spread: Spread | None = None,
        *,
        rows: Rows | None = None,
    ) -> Polished:
        """The centre of a state, moved until it is near enough to the optimum without `deleted`.

        before: the state that unlearning started from, for what is known there. spread: of rows
        among which the remaining ones are, where it was measured. rows: the deleted ones, if they
        were taken already.
        """
        centre, known = after.centre, None
        if before is not None and data.loss.self_concordant:
            problem = self._problem(data, deleted, with_deleted=True)
            known = Known.of(before, problem, spread, data, deleted, rows=rows)
        if known is not None:
            distance = stated(known.bound(centre, self.room))
            if distance <= self.room:
                return Polished(centre, distance, "step", 0)
        polishing = Polishing(
            problem=self._problem(data, deleted, with_deleted=False),
            data=data,
            mask=data.without(deleted),
            room=self.room,
            known=known,
            share=len(deleted) / (after.n + len(deleted)),
        )
        found = polishing.run(centre, None if before is None else before.inverses)
        if found is None:
            raise Unavailable(
                f"the weights cannot be brought within {self.room:.1e} of the optimum, which "
                f"epsilon, delta and noise ask for: the rounding of sums over {after.n:,} rows is "
                "in the way; raise noise or l2, or lower C"
            )
        return found

    def _problem(self, data: Engine, deleted: np.ndarray, *, with_deleted: bool) -> bounds.Problem:
        """Of the rows that remain; with_deleted: sums over all less sums over the deleted, and
        both are rounded."""
        total, leaving, m = data.total_weight(), data.weight_of(deleted), len(deleted)
        remaining = total - leaving
        return bounds.Problem(
            n=data.n_remaining + (m if with_deleted else -m),
            total_weight=total + leaving if with_deleted else remaining,
            d=data.d,
            ridge=self.l2 * remaining,
            radius=self.radius,
            max_curvature=data.loss.max_curvature,
            max_slope=data.loss.max_slope,
            slope_at_zero=_slope_at_zero(data.loss),
        )

    def release(self, centre: np.ndarray, count: int | None = None) -> np.ndarray:
        """The centre with fresh noise, which is kept nowhere, rounded to a grid; or so many of
        them at once.

        Rounding is done to whatever is released, so it tells nothing; it takes away the lowest
        digits of floating-point noise, which can be told from real numbers'.
        """
        step = self.promise.noise / GRID
        shape = centre.shape if count is None else (count, *centre.shape)
        noisy = centre + self.promise.noise * standard_normal(secret_generator(), shape)
        return np.asarray(np.round(noisy / step) * step)


@lru_cache(maxsize=16)
def _slope_at_zero(loss: Loss) -> float:
    return max(abs(float(loss.slope(0.0, target))) for target in (0.0, 1.0))
