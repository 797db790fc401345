"""Few rows leave: a step by a guide, and corrections until the weights are those of a retraining.

The rows that leave pull weights near an optimum by H'^-1 g, with their gradient g; no other row is
needed for that. A pass over the rows that remain then says what is left of the gradient, and the
guide says how far that is:

    c_0 = P g(w; leaving)        c_i = -P gradient(w_i; remaining)        w_(i+1) = w_i + c_i

Each correction is shorter than the one before by about the same factor, so that the next one is
foreseen without its pass: |c_i|^2 / |c_(i-1)|, of which ten times as much is allowed for. When that
is ENOUGH, the last one is taken, and that is usually the first. The guide P is an inverse Hessian
from before; where it does not lead, a new one is made. Where the weights end depends on the rows
that remain and on nothing else, to ENOUGH: neither on the guide nor on the process that made it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unfit.core.factors import TooFar

FEW_OF_ALL = 0.01  # rows that leave, of all, up to which a guide is followed to the optimum
ENOUGH = 1e-9  # of the length of the weights, for a correction that is not made any more
_CAREFUL = 10.0  # times what is foreseen: one direction may be led worse than another
_LEADS = 0.3  # a correction must be shorter than the one before by this at least
_MOST_PASSES = 12
_PASSES_PER_COLUMN = 1 / 12  # that cost as much as a new Hessian: n d^2 operations, or 4 n d bytes

Gradient = Callable[[np.ndarray], np.ndarray]  # of the rows that remain, (k, d): one pass
Solvers = Sequence[Callable[[np.ndarray], np.ndarray]]  # of each problem: P times a vector


def price_of_sums(d: int, n: int) -> float:
    """Passes over n rows of d columns that cost as much as new sums with their inverse."""
    return _PASSES_PER_COLUMN * d * (1 + d / n)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """weights (k, d). distance: from the optimum, as a share of their length, as foreseen. passes:
    over the rows that remain. led: whether the guide did it."""

    weights: np.ndarray
    distance: float
    passes: int
    led: bool


@dataclass(kw_only=True)
class Correction:
    """fresh: makes a guide at given weights, for when the one at hand does not lead."""

    gradient: Gradient
    guide: Solvers
    fresh: Callable[[np.ndarray], Solvers]
    led: bool = field(default=True, init=False)

    def run(self, start: np.ndarray, of_leaving: np.ndarray) -> Followed:
        """From weights near an optimum. of_leaving: the gradient of the rows that leave. TooFar
        where the guide leads nowhere, and a new one does not either."""
        step = solved(self.guide, of_leaving)
        weights, first = start + step, True
        before = _lengths(step), _lengths(of_leaving)
        for passes in range(1, _MOST_PASSES + 1):
            gradient = self.gradient(weights)
            more = -solved(self.guide, gradient)
            size, enough = _lengths(more), ENOUGH * _lengths(weights)
            # Both: a guide that is too short makes short corrections and leaves the gradient.
            now = size, _lengths(gradient)
            ratio = np.maximum(
                *(a / np.maximum(b, _TINY) for a, b in zip(now, before, strict=True))
            )
            if not np.isfinite(ratio).all():
                raise TooFar
            if not first and np.any((ratio > _LEADS) & (size > enough)):
                self._renew(weights)
                first = True
                continue
            weights = weights + more
            left = size * np.minimum(1.0, _CAREFUL * ratio)
            if np.all(left <= enough):
                share = float((left / np.maximum(_lengths(weights), _TINY)).max())
                return Followed(weights=weights, distance=share, passes=passes, led=self.led)
            before, first = now, False
        raise TooFar

    def _renew(self, weights: np.ndarray) -> None:
        """A new guide, once: where Newton's own steps do not lead, nothing here does."""
        if not self.led:
            raise TooFar
        self.guide, self.led = self.fresh(weights), False


_TINY = float(np.finfo(np.float64).tiny)


def solved(guide: Solvers, rhs: np.ndarray) -> np.ndarray:
    """P rhs, (k, d)."""
    return np.array([times(v) for times, v in zip(guide, rhs, strict=True)])


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(vectors, axis=1))
