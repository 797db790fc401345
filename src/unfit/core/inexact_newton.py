"""Newton's method without a Hessian, for several independent problems that share their rows.

    H step = gradient,   solved by conjugate gradients until |gradient - H step| <= eta |gradient|

A product with H is one pass over the rows for all problems at once, where H itself costs d of them.
eta, the forcing term, follows what the curvature did: to solve further than the next gradient can
show would be wasted. Knows nothing of where the sums come from: values, gradients and products are
handed in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unfit.core.conjugate_gradients import Guidance, Guide, Offer, Products, lengths
from unfit.core.newton import ARMIJO, MAX_HALVINGS, MAX_STEPS, Counted, Minimum

LOOSEST, TIGHTEST = 0.1, 1e-6  # forcing terms
_SHARE = 0.5  # of the curvature's change, and of the tolerance, to which a step is solved
_NEAR = 1e-8  # relative slope of a value, of whose differences only a few digits are known
_TINY = np.finfo(np.float64).tiny

ValueGradientProducts = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, Products]]


@dataclass(frozen=True, kw_only=True)
class _Point:
    """Weights with the values (k,), gradients (k, d) and products there."""

    W: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    products: Products

    @cached_property
    def residual(self) -> np.ndarray:
        return lengths(self.gradient)


def minimize(
    value_gradient_products: ValueGradientProducts,
    start: np.ndarray,
    tolerance: float,
    *,
    guide: Guide | None = None,
    offer: Offer | None = None,
    min_steps: int = 0,
    max_steps: int = MAX_STEPS,
    first: float = LOOSEST,
    dtype: np.dtype | type = np.float64,
) -> Minimum:
    """Minimise k strictly convex problems from start (k, d), in min_steps to max_steps steps.

    value_gradient_products(W) -> (k,), (k, d) and products with the Hessians at W. guide: about
    their inverses; offer: how one can be made. first: the forcing term of the first step. dtype:
    of the vectors that products are asked for, as long as that leads. Stops early, not converged,
    where rounding leaves nothing to gain.
    """
    counted = Counted(value_gradient_products)
    here = _at(counted, np.array(start, dtype=np.float64))
    guidance = Guidance(guide, offer)
    forcing, precision = np.full(len(here.W), first), np.dtype(dtype)
    steps, stuck = 0, False
    while steps < max_steps and (steps < min_steps or (here.residual > tolerance).any()):
        active = (here.residual > tolerance) | (steps < min_steps)
        eta = np.where(active, _worthwhile(forcing, tolerance, here.residual), 1.0)
        solved = guidance.solve(_in(precision, here.products), here.W, here.gradient, eta)
        trial = _search(counted, here, solved.x)
        steps += 1
        gained = active & ((trial.value < here.value) | (trial.residual < here.residual))
        if gained.any():
            forcing = np.where(gained, _next_forcing(trial, solved.left, here), forcing)
            here, stuck = _moved(counted, here, trial, gained | ~active), False
        elif stuck:
            break
        else:
            stuck, precision, forcing = True, np.dtype(np.float64), forcing * 1e-2
    return Minimum(
        weights=here.W,
        residual=here.residual,
        steps=steps,
        hessians=0,
        products=guidance.products,
        passes=counted.calls + guidance.products,
        converged=bool((here.residual <= tolerance).all()),
    )


def _at(value_gradient_products: ValueGradientProducts, W: np.ndarray) -> _Point:
    value, gradient, products = value_gradient_products(W)
    return _Point(W=W, value=value, gradient=gradient, products=products)


def _in(dtype: np.dtype, products: Products) -> Products:
    """Products in the given precision."""
    if dtype == np.float64:
        return products
    return lambda problems, V: products(problems, V.astype(dtype, copy=False))


def _worthwhile(forcing: np.ndarray, tolerance: float, residual: np.ndarray) -> np.ndarray:
    """No step needs to lead far below the tolerance."""
    enough = _SHARE * tolerance / np.maximum(residual, _TINY)
    return np.asarray(np.minimum(np.maximum(forcing, enough), _SHARE))


def _next_forcing(trial: _Point, predicted: np.ndarray, before: _Point) -> np.ndarray:
    """How far the next step is worth solving.

    What the last one did not predict of its gradient, the change of the curvature, falls with the
    square of the length of a step: half of what it will be next is accurate enough.
    """
    now = np.maximum(trial.residual, _TINY)
    shrinks = now / np.maximum(before.residual, _TINY)
    unpredicted = lengths(trial.gradient - predicted) * shrinks**2
    return np.asarray(np.clip(_SHARE * unpredicted / now, TIGHTEST, LOOSEST))


def _moved(
    value_gradient_products: ValueGradientProducts, here: _Point, trial: _Point, keep: np.ndarray
) -> _Point:
    """The trial, for the problems it is to be kept for."""
    if keep.all():
        return trial
    return _at(value_gradient_products, np.where(keep[:, None], trial.W, here.W))


def _search(
    value_gradient_products: ValueGradientProducts, here: _Point, direction: np.ndarray
) -> _Point:
    """Halve the step of each problem until it decreases enough (or only rounding is left)."""
    slope = np.einsum("kd,kd->k", here.gradient, direction)
    step, residual = np.ones(len(here.W)), here.residual
    closer = np.where(slope <= _NEAR * np.abs(here.value), 0.9, 0.5) * residual
    rounding = slope <= 1e-12 * np.abs(here.value)
    for _ in range(MAX_HALVINGS):
        trial = _at(value_gradient_products, here.W - step[:, None] * direction)
        enough = trial.value <= here.value - ARMIJO * step * slope
        done = enough | (trial.residual <= closer) | rounding
        if done.all():
            break
        step[~done] *= 0.5
    return trial
