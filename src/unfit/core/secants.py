"""An inverse Hessian that learns from the steps it has led: BFGS, from a guide and a few secants.

A step s changed the gradient by y, so the inverse takes y to s. From a guide P_0, which is about
the inverse, and pairs (s_i, y_i), each update

    P_(i+1) = (I - s y^T / s.y) P_i (I - y s^T / s.y) + s s^T / s.y

keeps P symmetric and positive definite, and takes y_i to s_i (Nocedal and Wright, Numerical
Optimization, 2006, algorithm 7.4). It is never formed: its product with a vector is one with the
guide and a few dots for each pair. Knows nothing of ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MOST = 5  # pairs that are kept, the last ones: more lead no better
_LEAST = np.finfo(np.float64).tiny
_SEEN = 1e-6  # of |s| |y|, that s.y is at least where curvature was seen, and not rounding

Guide = Callable[[np.ndarray], np.ndarray]  # P_0 times vectors (k, d)


@dataclass(frozen=True)
class Secants:
    """Pairs of several problems, oldest first: steps (k, d), changes of the gradients (k, d), and
    1 / s.y (k,), which is 0 for a problem along whose step no curvature was seen."""

    pairs: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...] = ()

    def with_pair(self, step: np.ndarray, change: np.ndarray) -> "Secants":
        along = _dots(step, change)
        lengths = np.sqrt(_dots(step, step) * _dots(change, change))
        seen = (along > _SEEN * lengths) & (along > _LEAST)
        inverse = np.where(seen, 1.0 / np.where(seen, along, 1.0), 0.0)
        return Secants((*self.pairs, (step, change, inverse))[-MOST:])

    def solve(self, guide: Guide, vectors: np.ndarray) -> np.ndarray:
        """P times a vector of each problem, (k, d)."""
        left, shares = vectors, []
        for step, change, inverse in reversed(self.pairs):
            share = inverse * _dots(step, left)
            left = left - share[:, None] * change
            shares.append(share)
        found = guide(left)
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            found = found + (share - inverse * _dots(change, found))[:, None] * step
        return found


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("kd,kd->k", a, b))
