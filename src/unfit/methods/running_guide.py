"""One guide for request after request, which learns from every pass over the rows.

    w <- w + P gradient(w; leaving)           what the rows that leave have pulled: no pass
    w <- w - P gradient(w; remaining)         one pass, and what it sees is corrected

P begins as about the inverse Hessian, from a sample of the rows, in float32 where that has the
digits. What a step s leaves of the gradient g that it answers tells how P is wrong there:
H s = g - what is left, for the rows that remain now, and that secant goes into P (core.secants). So
it follows the Hessian as rows leave, and a sample of one row a column may be enough to begin with.

The length of what a step leaves is a share of that of what it answers. Between passes it is
expected: the share that the last pass showed, CAREFUL times as much; more by as much as has been
answered since, for a Hessian changes with the rows that leave and with the weights that move; and
more where a step is longer, for what it answers, than those before: there the sample may have seen
too little curvature. While that is allowed a request takes no pass at all, and else one, as a rule.
Passes beyond that, and all while steps leave too much, are those that a better guide would have
saved; once they would have paid for one from twice as many rows, that is due.

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
CAREFUL = 1.75  # times what a pass has shown
_FADES = 0.8  # of a ratio that was seen, at the next pass at least
_LEADS = 0.7  # steps must shrink the gradient at least so much
_FAR = 4.0  # times what was answered before a pass, beyond which that one says little
_MOST_PASSES = 8  # for one request
_BETTER = 2  # times as many rows for each column
_WORTH = 0.1  # of what is allowed, from which a gradient that was seen is corrected


class Lost(TooFar):
    """A guide does not lead. passes: that were taken to find that out."""

    def __init__(self, passes: int) -> None:
        super().__init__()
        self.passes = passes


Gradient = Callable[[np.ndarray], np.ndarray]  # of the rows that remain, (k, d): one pass


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """The largest length of a step, for a gradient of length 1: of requests, and of corrections,
    which are longer, as what is left lies where curvature is small. 0: none was seen."""

    of_request: float = 0.0
    of_correction: float = 0.0

    def faded(self, before: "_Stretch") -> "_Stretch":
        return _Stretch(
            of_request=max(self.of_request, _FADES * before.of_request),
            of_correction=max(self.of_correction, _FADES * before.of_correction),
        )


@dataclass(frozen=True, kw_only=True)
class _SincePass:
    """left (k, d): the gradient that the last pass saw and no step has answered; None where there
    was no pass. Since then: steps and the gradients they answered, as one, and the length of these
    gradients, each for itself; weighted: the same, with steps that are longer than usual counting
    for more, and infinity where nothing is known of what is usual."""

    left: np.ndarray | None
    step: np.ndarray
    gradient: np.ndarray
    length: float = 0.0
    weighted: float = 0.0
    stretch: _Stretch = field(default_factory=_Stretch)

    @classmethod
    def pass_that_saw(cls, left: np.ndarray | None, like: np.ndarray) -> "_SincePass":
        return cls(left=left, step=np.zeros_like(like), gradient=np.zeros_like(like))

    def with_request(self, step: np.ndarray, gradient: np.ndarray, usual: _Stretch) -> "_SincePass":
        stretch = _stretch_of(step, gradient)
        most = max(self.stretch.of_request, stretch)
        longer = _times_as_long(stretch, usual.of_request)
        return self._and_then(step, gradient, longer, replace(self.stretch, of_request=most))

    def with_correction(self, step: np.ndarray, seen: np.ndarray, usual: _Stretch) -> "_SincePass":
        stretch = _stretch_of(step, seen)
        most = max(self.stretch.of_correction, stretch)
        longer = _times_as_long(stretch, usual.of_correction)
        return self._and_then(step, -seen, longer, replace(self.stretch, of_correction=most))

    def _and_then(
        self, step: np.ndarray, gradient: np.ndarray, longer: float, stretch: _Stretch
    ) -> "_SincePass":
        length = float(np.linalg.norm(gradient))
        return _SincePass(
            left=self.left,
            step=self.step + step,
            gradient=self.gradient + gradient,
            length=self.length + length,
            weighted=self.weighted + longer * length,
            stretch=stretch,
        )


def _stretch_of(step: np.ndarray, gradient: np.ndarray) -> float:
    length = float(np.linalg.norm(gradient))
    return float(np.linalg.norm(step)) / length if length > 0 else 0.0


def _times_as_long(stretch: float, usual: float) -> float:
    """At least 1."""
    return max(1.0, stretch / usual) if usual > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class RunningGuide:
    """inverses: of each problem, (d, d), from so many rows per_column, as they were made. since:
    the last pass; None before the first. share: of what a step answers, that it leaves at most, as
    passes after requests have shown it; None before the first. stretch: of steps that passes have
    followed. answered: the length of all that was answered before the last pass. beyond: passes
    that a better guide would have saved. price: passes that cost as much as one.
    """

    inverses: Sequence[np.ndarray]
    per_column: int
    price: float
    secants: Secants = field(default_factory=Secants)
    since: _SincePass | None = None
    share: float | None = None
    stretch: _Stretch = field(default_factory=_Stretch)
    answered: float = 0.0
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
        """A new guide, from more rows if there are more: this one did not lead."""
        all_rows = math.ceil(objective.n / objective.data.d)
        return self.of_sample(objective, weights, min(all_rows, _BETTER * self.per_column))

    def unseen(self) -> "RunningGuide":
        """For weights that were come by in another way: what is left of the gradient there is not
        known."""
        return replace(self, since=None)

    def after_solve(self, passes: int) -> "RunningGuide":
        """After a request that did not follow it: what it learned is given up. passes: that a
        better guide would have saved."""
        return RunningGuide(
            inverses=self.inverses,
            per_column=self.per_column,
            price=self.price,
            beyond=self.beyond + passes,
        )

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
        Lost where the guide leads no more."""
        known, since = self, self.since or _SincePass.pass_that_saw(None, start)
        step = known.times(of_leaving)
        weights, since = start + step, since.with_request(step, of_leaving, self.stretch)
        passes, before = 0, math.inf
        while not known._expected(since) <= allowed:
            seen = gradient(weights)
            length = float(np.linalg.norm(seen))
            passes += 1
            known = known._having_seen(since, seen)
            if length <= (_WORTH if known._leads else 1.0) * allowed:
                since = _SincePass.pass_that_saw(seen, start)
                break
            if passes == _MOST_PASSES or not length <= _LEADS * before:
                raise Lost(passes)
            before, step = length, -known.times(seen)
            weights = weights + step
            since = _SincePass.pass_that_saw(np.zeros_like(seen), start)
            since = since.with_correction(step, seen, known.stretch)
        if not np.isfinite(weights).all():
            raise Lost(passes)
        needed = 1 if known.share is None or known._leads else 0
        beyond = known.beyond + max(0, passes - needed)
        return weights, replace(known, since=since, beyond=beyond)

    @property
    def _leads(self) -> bool:
        """Whether its steps are known to leave little enough."""
        return self.share is not None and self.share <= _LEADS

    def _expected(self, since: _SincePass) -> float:
        """The length of the gradient that is left."""
        if since.left is None or self.share is None or not self._leads:
            return math.inf
        if since.length > _FAR * self.answered:
            return math.inf
        grown = 1.0 + since.length / self.answered
        return float(np.linalg.norm(since.left)) + self.share * grown * since.weighted

    def _having_seen(self, since: _SincePass, seen: np.ndarray) -> "RunningGuide":
        """With what a pass says of the steps before it."""
        known = replace(
            self, answered=self.answered + since.length, stretch=since.stretch.faded(self.stretch)
        )
        if since.left is None or not since.length > 0:
            return known
        wrong = seen - since.left
        known = replace(known, secants=self.secants.with_pair(since.step, since.gradient + wrong))
        if not since.stretch.of_request:  # what a correction leaves says little of other gradients
            return known
        share = CAREFUL * float(np.linalg.norm(wrong)) / since.length
        return replace(known, share=max(share, _FADES * (self.share or 0.0)))


def price_of_guide(sizes: Sizes, per_column: int) -> float:
    """Passes that cost as much as a guide from so many rows a column, an inverse costing three
    times the flops of a factor."""
    inverses = sizes.k * sizes.d**3 * 2 / 3
    return (sizes.guide(per_column) + inverses) / max(1.0, sizes.product)
