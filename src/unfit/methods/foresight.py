"""A step so short that no pass over the rows is needed to know where it ended.

A step s from weights w, by a guide P = H^-1 that was made at the weights o, changes no margin by
more than t = R |s|, and since o none has changed by more than t_o = R |w - o|; R is at least the
length of every row. The curvature of a self-concordant loss changes by factors within exp(+-t) on
the way, so the gradient that the step leaves is within (exp(t_o + t) - 1) H s, and the optimum is

    |w + s - w*|  <=  exp(2 (t_o + t)) (exp(t_o + t) - 1 + rough) sqrt(s.H s) sqrt(|P|)

away, beside what P leaves of the linear system. rough: what H itself is off by, where it was summed
in float32. What is left undone adds up from request to request, until a pass measures it. One row
in millions moves the weights by a millionth, and the bound is a millionth of that. May know core.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unfit.core.factors import Inverse

WORTH_FROM = 1 << 18  # rows: with fewer of them, a row moves weights too far to do without a pass
ROUGH = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}  # of a Hessian, relative
_FAR = 0.1  # change of a margin from which the bound is not worth a look


@dataclass(frozen=True, kw_only=True)
class Foresight:
    """radius: at least the length of every row. origin (k, d): the weights at which the guide was
    made. undone (k,): how far the weights may be from the optimum. rough: relative error of H."""

    radius: float
    origin: np.ndarray
    undone: np.ndarray
    rough: float

    @classmethod
    def at(cls, weights: np.ndarray, radius: float, dtype: np.dtype) -> "Foresight":
        """Where sums are known, and nothing is left undone that they do not show."""
        undone = np.zeros(len(weights))
        return cls(radius=radius, origin=weights, undone=undone, rough=ROUGH[dtype])

    def step(self, start: np.ndarray, target: np.ndarray, guide: Sequence[Inverse]) -> "Foreseen":
        """H^-1 target away from the start, (k, d)."""
        ends, undone, renewed = [], [], []
        for c, (w, rhs, inverse) in enumerate(zip(start, target, guide, strict=True)):
            step = inverse.solve(rhs)
            step = step + inverse.solve(rhs - inverse.product(step))
            unsolved = float(np.linalg.norm(inverse.solve(rhs - inverse.product(step))))
            moved = float(np.linalg.norm(w - self.origin[c]))
            ends.append(w + step)
            undone.append(self.undone[c] + unsolved + self._curved(step, moved, inverse))
            renewed.append(unsolved + self._curved(step, 0.0, inverse))
        weights = np.array(ends)
        return Foreseen(
            weights=weights,
            distance=_share(undone, weights),
            distance_if_renewed=_share(renewed, weights),
            then=replace(self, undone=np.array(undone)),
        )

    def _curved(self, step: np.ndarray, moved: float, inverse: Inverse) -> float:
        """What the change of the curvature leaves undone, from the origin to the end of a step."""
        reach = self.radius * (moved + float(np.linalg.norm(step)))
        if reach > _FAR:
            return float("inf")
        energy = max(0.0, float(step @ inverse.product(step)))
        largest = min(np.linalg.norm(inverse.inverse), np.abs(inverse.inverse).sum(axis=0).max())
        change = np.exp(2 * reach) * (np.expm1(reach) + self.rough)
        return float(change * np.sqrt(energy * largest))

    def measured(self, weights: np.ndarray, share: float) -> "Foresight":
        """After passes that have brought the weights so near to the optimum."""
        return replace(self, undone=share * np.linalg.norm(weights, axis=1))


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """weights (k, d) after a step. distance: from the optimum at most, as a share of their length,
    in the worst problem; infinite where the step is too long to tell. distance_if_renewed: the same
    if the guide had been made where the step began. then: for the next step."""

    weights: np.ndarray
    distance: float
    distance_if_renewed: float
    then: Foresight


def _share(undone: Sequence[float], weights: np.ndarray) -> float:
    lengths = np.maximum(np.linalg.norm(weights, axis=1), np.finfo(np.float64).tiny)
    return float((np.array(undone) / lengths).max())
