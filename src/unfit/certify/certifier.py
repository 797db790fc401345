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

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unfit.certify import bounds
from unfit.certify.accountant import check_promise, mu_of
from unfit.certify.known import Known
from unfit.certify.lengths import Spread
from unfit.certify.polishing import Polished, Polishing, stated
from unfit.core.losses import Loss
from unfit.core.noise import secret_normal
from unfit.core.objective import Rows
from unfit.engines.base import Engine
from unfit.errors import Unavailable
from unfit.methods.base import State

GRID = 1024  # steps of the grid that releases are rounded to, in one standard deviation
_MARGINS = 20  # up to which a loss is checked
_MORE = 1 + 1e-9
LEAST_NOISE, MOST_NOISE = 1e-100, 1e100  # releases on the grid are then float64 numbers
TOLERANCE = 1e-11  # of certified training and of its reference, |F| per row


@dataclass(frozen=True)
class Promise:
    """What is promised of every release: epsilon and delta, with this noise on each weight."""

    epsilon: float
    delta: float
    noise: float

    def __post_init__(self) -> None:
        check_promise(self.epsilon, self.delta)
        if not LEAST_NOISE <= self.noise <= MOST_NOISE:
            raise ValueError(
                f"noise must be a number between {LEAST_NOISE:g} and {MOST_NOISE:g}, such as 1e-3; "
                f"got {self.noise:g}"
            )

    @property
    def mu(self) -> float:
        """The largest mu that keeps the promise."""
        return mu_of(self.epsilon, self.delta)

    @property
    def reach(self) -> float:
        """How far from a retraining's the weights may be, before noise."""
        return self.mu * self.noise


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
                f"epsilon and delta allow {self.promise.reach:.2g}; raise noise, "
                "epsilon or l2, or lower C"
            )

    @property
    def room(self) -> float:
        """How far the centre may be from the optimum."""
        return self.promise.reach - self.tol / self.l2

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
        longest: float = 0.0,
    ) -> Polished:
        """The centre of a state, moved until it is near enough to the optimum without `deleted`.

        before: the state that unlearning started from, for what is known there. spread: of rows
        among which the remaining ones are, where it was measured. rows: the deleted ones, if they
        were taken already; longest: at least the length of every one of them, if it is over the
        radius.
        """
        centre, known = after.centre, None
        if before is not None and data.loss.self_concordant:
            problem = self._problem(data, deleted, longest)
            known = Known.of(before, problem, spread, data, deleted, rows=rows)
        if known is not None:
            distance = stated(known.bound(centre, self.room))
            if distance <= self.room:
                return Polished(centre, distance, "step", 0)
        polishing = Polishing(
            problem=self._problem(data, deleted),
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

    def _problem(
        self, data: Engine, deleted: np.ndarray, longest: float | None = None
    ) -> bounds.Problem:
        """Of the rows that remain. longest: at least the length of the deleted rows, where sums are
        those over all less those over the deleted, of which both are rounded."""
        m, remaining = len(deleted), data.weight_without(deleted)
        n, summed, radius = data.n_remaining - m, remaining, self.radius
        if longest is not None:
            n, summed = n + 2 * m, summed + 2 * data.weight_of(deleted)
            radius = max(radius, longest)
        if not self.l2 * remaining >= bounds.LEAST_RIDGE:
            raise Unavailable(
                f"nothing can be certified: the penalty of the rows that remain is "
                f"{self.l2 * remaining:.2g}, l2 times the sum of their sample weights, which is "
                "too small for sums in float64; raise l2, lower C, or multiply all sample weights "
                "by one number"
            )
        return bounds.Problem(
            n=n,
            total_weight=summed,
            summed_ridge=self.l2 * summed,
            d=data.d,
            ridge=self.l2 * remaining,
            radius=radius,
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
        noisy = centre + self.promise.noise * secret_normal(shape)
        return np.asarray(np.rint(noisy / step) * step)


@lru_cache(maxsize=16)
def _slope_at_zero(loss: Loss) -> float:
    """The largest, of a loss whose formulae are checked against what its class says of them."""
    _check(loss)
    return max(abs(float(loss.slope(0.0, target))) for target in (0.0, 1.0))


def _check(loss: Loss) -> None:
    """Every bound rests on what a loss declares: refuse one that is seen to break it."""
    margin = np.linspace(-_MARGINS, _MARGINS, 2 * _MARGINS * 100 + 1)
    for target in (0.0, 1.0):
        slope, curvature = loss.slope_and_curvature(margin, np.full_like(margin, target))
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.abs(np.diff(np.log(curvature))) - np.diff(margin)
        faults = {
            "its slope is larger than max_slope": np.abs(slope).max() > loss.max_slope * _MORE,
            "its curvature is larger than max_curvature": curvature.max()
            > loss.max_curvature * _MORE,
            "it is not convex": curvature.min() < 0 or (np.diff(slope) < -1e-12).any(),
            "its curvature changes faster than that of a self_concordant loss": loss.self_concordant
            and not (grown <= 1e-6).all(),
        }
        for wrong, found in faults.items():
            if found:
                raise Unavailable(f"nothing can be certified with the loss '{loss.name}': {wrong}")
