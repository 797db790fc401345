"""One guide for request after request, which learns from every pass over the rows.

    w <- w + P gradient(w; leaving)           what the rows that leave have pulled: no pass
    w <- w - P gradient(w; remaining)         one pass, and what it sees is corrected

P begins as about the inverse Hessian, from a sample of the rows, in float32 where that has
the digits. What a step leaves of
the gradient g that it answers tells how P is wrong there: H s = g - what is left, for the rows that
remain now, and that secant goes into P (core.secants). So it follows the Hessian as rows leave, and
a sample of one row a column is enough to begin with.

The length of what is left is shrinks x that of what was answered. Along a stream that ratio changes
slowly, and so what is left after a step is expected: that ratio, as it was seen at the last pass,
and CAREFUL times as much. While that is allowed a request takes no pass at all, and else one, as a
rule. Passes beyond the first of a request are those that a better guide would have saved; once they
would have paid for one from twice as many rows, that is due.

In memory alone: guide and secants hold something of rows that have left since. Knows core and
methods.minimum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unfit.core.factors import TooFar, rough_inverse
from unfit.core.kernels.vectors import symmetric_times
from unfit.core.newton_cost import Sizes
from unfit.core.secants import Secants
from unfit.methods.minimum import Objective

FEW_OF_ALL = 0.1  # rows of one request, of all, beyond which a guide is for conjugate gradients
CAREFUL = 1.75
_FADES = 0.8  # of a ratio that was seen, at the next pass at least
_LEADS = 0.7  # a correction must shrink the gradient at least so much
_MOST_PASSES = 8  # for one request
_BETTER = 2  # times as many rows for each column
_WORTH = 0.1  # of what is allowed, from which a gradient that was seen is corrected

Gradient = Callable[[np.ndarray], np.ndarray]  # of the rows that remain, (k, d): one pass


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """What steps have answered since the last pass: the steps and the gradients, as one, and the
    length of the gradients, each for itself."""

    step: np.ndarray
    gradient: np.ndarray
    length: float

    @classmethod
    def nothing_of(cls, length: float, like: np.ndarray) -> "_Answered":
        return cls(step=np.zeros_like(like), gradient=np.zeros_like(like), length=length)

    def and_then(self, step: np.ndarray, gradient: np.ndarray) -> "_Answered":
        return _Answered(
            step=self.step + step,
            gradient=self.gradient + gradient,
            length=self.length + float(np.linalg.norm(gradient)),
        )


@dataclass(frozen=True, kw_only=True)
class RunningGuide:
    """inverses: of each problem, (d, d), from so many rows per_column, as they were made. answered:
    since the last pass; None before the first. shrinks: what is expected of a gradient after a
    step, for one of length 1; None before it was seen. beyond: passes after the first of each
    request, and those of solves that followed it no more. price: passes that cost as much as a
    better guide.
    """

    inverses: Sequence[np.ndarray]
    per_column: int
    price: float
    secants: Secants = field(default_factory=Secants)
    answered: _Answered | None = None
    shrinks: float | None = None
    beyond: int = 0

    @classmethod
    def of_sample(
        cls, objective: Objective, weights: np.ndarray, per_column: int
    ) -> "RunningGuide":
        """From so many rows for each column, evenly spread."""
        hessians = objective.sampled_hessians(weights, per_column)
        price = price_of_guide(objective.sizes, _BETTER * per_column)
        inverses = [rough_inverse(h) for h in hessians]
        return cls(inverses=inverses, per_column=per_column, price=price)

    @property
    def due(self) -> bool:
        """Whether a better guide would have paid."""
        return self.beyond >= self.price

    def better(self, objective: Objective, weights: np.ndarray) -> "RunningGuide":
        """A new guide, from more rows: this one did not lead."""
        return self.of_sample(objective, weights, _BETTER * self.per_column)

    def unseen(self) -> "RunningGuide":
        """For weights that were come by in another way: what is left of the gradient there is not
        known."""
        return replace(self, answered=None)

    def after_solve(self, passes: int) -> "RunningGuide":
        """After a request that it could not follow: what it learned is given up, and the passes of
        the solve that was needed instead count as those that a new guide would have saved."""
        return replace(self.unseen(), secants=Secants(), shrinks=None, beyond=self.beyond + passes)

    def made(self, problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """A guide for conjugate gradients: the inverses as they were made, for named problems."""
        pairs = zip(problems, vectors, strict=True)
        return np.array([symmetric_times(self.inverses[c], v) for c, v in pairs])

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """P times a vector of each problem, (k, d)."""
        everyone = np.arange(len(vectors))
        return self.secants.solve(lambda left: self.made(everyone, left), vectors)

    def followed(
        self, start: np.ndarray, of_leaving: np.ndarray, gradient: Gradient, allowed: float
    ) -> "tuple[np.ndarray, RunningGuide]":
        """The weights after a request, with a gradient of at most the allowed length, as it is
        expected or seen. of_leaving (k, d): the gradient of the rows that leave, at the start.
        TooFar where the guide leads no more."""
        known, answered = self, self.answered or _Answered.nothing_of(math.inf, start)
        step = known.times(of_leaving)
        weights, answered = start + step, answered.and_then(step, of_leaving)
        passes, before = 0, math.inf
        while not known._expected(answered) <= allowed:
            seen = gradient(weights)
            length = float(np.linalg.norm(seen))
            passes += 1
            if passes == _MOST_PASSES or not length <= _LEADS * before:
                raise TooFar
            known, before = known._having_seen(answered, seen, length), length
            if length <= _WORTH * allowed:  # as if a step had left it
                answered = _Answered.nothing_of(length / (known.shrinks or 1.0), start)
                answered = replace(answered, gradient=-seen)
                break
            step = -known.times(seen)
            weights = weights + step
            answered = _Answered(step=step, gradient=-seen, length=length)
        beyond = known.beyond + max(0, passes - 1)
        return weights, replace(known, answered=answered, beyond=beyond)

    def _expected(self, answered: _Answered) -> float:
        """The length of the gradient that is left."""
        return answered.length * (math.inf if self.shrinks is None else self.shrinks)

    def _having_seen(self, answered: _Answered, left: np.ndarray, length: float) -> "RunningGuide":
        """With what a pass says of the steps before it."""
        if not math.isfinite(answered.length):
            return self
        shrinks = max(CAREFUL * length / answered.length, _FADES * (self.shrinks or 0.0))
        secants = self.secants.with_pair(answered.step, answered.gradient + left)
        return replace(self, shrinks=shrinks, secants=secants)


def price_of_guide(sizes: Sizes, per_column: int) -> float:
    """Passes that cost as much as a guide from so many rows a column, an inverse costing three
    times the flops of a factor."""
    inverses = sizes.k * sizes.d**3 * 2 / 3
    return (sizes.guide(per_column) + inverses) / max(1.0, sizes.product)
