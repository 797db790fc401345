"""Newton's method with a line search, for several independent problems that share their rows.

Each problem stops at |gradient| <= tolerance. A Hessian costs d times a gradient, so the factor
of the last one serves again as long as its steps shrink the gradient well. Knows nothing of where
the sums come from: value, gradient and Hessian are handed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from unfit.core.factors import Cholesky, Factor

MAX_STEPS = 200
_REUSE_BELOW = (
    0.1  # a step that shrank the gradient to this share may be followed by the same factor
)
ARMIJO = 1e-4
MAX_HALVINGS = 40  # of one step

Result = TypeVar("Result")

ValueGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Hessian = Callable[[np.ndarray], Iterable[np.ndarray | Factor]]  # a problem each


class Counted(Generic[Result]):
    """A function of weights, and how often it was called."""

    def __init__(self, function: Callable[[np.ndarray], Result]) -> None:
        self.calls = 0
        self._function = function

    def __call__(self, W: np.ndarray) -> Result:
        self.calls += 1
        return self._function(W)


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """Weights (k, d), |gradient| of each problem there, and what it took.

    products: with the Hessians of all problems at once. passes: over the rows, for values and
    gradients, Hessians and products alike.
    """

    weights: np.ndarray
    residual: np.ndarray
    steps: int
    hessians: int
    products: int
    passes: int
    converged: bool


def minimize(
    value_gradient: ValueGradient,
    hessian: Hessian,
    start: np.ndarray,
    tolerance: float,
    min_steps: int = 0,
    max_steps: int = MAX_STEPS,
) -> Minimum:
    """Minimise k strictly convex problems from start (k, d), in min_steps to max_steps steps.

    value_gradient(W) -> (k,), (k, d); hessian(W) -> (k, d, d). Stops early, not converged, where
    rounding leaves nothing to gain.
    """
    W = np.array(start, dtype=np.float64)
    counted = Counted(value_gradient)
    value, gradient = counted(W)
    residual = np.linalg.norm(gradient, axis=1)
    factors: list[Factor] = []
    hessians = steps = 0
    fresh = False
    while steps < max_steps and (steps < min_steps or (residual > tolerance).any()):
        if not fresh:
            factors = [h if isinstance(h, Factor) else Cholesky.of(h) for h in hessian(W)]
            hessians += 1
        active = (residual > tolerance) | (steps < min_steps)
        direction = np.zeros_like(W)
        for c in np.flatnonzero(active):
            direction[c] = factors[c].solve(gradient[c])
        trial, trial_value, trial_gradient = _search(
            counted, W, value, gradient, residual, direction
        )
        trial_residual = np.linalg.norm(trial_gradient, axis=1)
        steps += 1
        gained = (trial_value < value) | (trial_residual < residual)
        if not gained[active].any():
            if fresh:  # a stale factor may be to blame
                fresh = False
                continue
            break
        fresh = bool((trial_residual[active] <= _REUSE_BELOW * residual[active]).all())
        keep = gained | ~active
        W[keep] = trial[keep]
        value = np.where(keep, trial_value, value)
        gradient[keep] = trial_gradient[keep]
        residual = np.where(keep, trial_residual, residual)
    return Minimum(
        weights=W,
        residual=residual,
        steps=steps,
        hessians=hessians,
        products=0,
        passes=counted.calls + hessians,
        converged=bool((residual <= tolerance).all()),
    )


def _search(
    value_gradient: ValueGradient,
    W: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    residual: np.ndarray,
    direction: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Halve the step of each problem until it decreases enough (or only rounding is left)."""
    slope = np.einsum("kd,kd->k", gradient, direction)
    step = np.ones(len(W))
    for _ in range(MAX_HALVINGS):
        trial = W - step[:, None] * direction
        trial_value, trial_gradient = value_gradient(trial)
        enough = trial_value <= value - ARMIJO * step * slope
        closer = np.linalg.norm(trial_gradient, axis=1) <= 0.5 * residual
        rounding = slope <= 1e-12 * np.abs(value)
        done = enough | closer | rounding
        if done.all():
            break
        step[~done] *= 0.5
    return trial, trial_value, trial_gradient
