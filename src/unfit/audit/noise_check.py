"""Whether released weights are their centre plus noise of the size that sigma says.

A verdict on the weights from before noise is worth nothing if other weights are served. What was
added is known where the centre was kept, and needs no deleted rows:

    FISHER              sigma H^(-1/4) b    v^T H^(1/2) v / sigma^2 is chi-squared
    DELTAGRAD, RETRAIN  sigma b             |v|^2 / sigma^2 is chi-squared

with as many degrees as there are weights, v = released - centre. May know methods and engines.
"""

import numpy as np

from unfit.audit.retrained import Retraining
from unfit.audit.verdict import Added
from unfit.core.factors import Cholesky
from unfit.core.penalty import Ridge
from unfit.core.predictions import margins
from unfit.engines.base import Engine
from unfit.methods.base import Method, State

SLACK = 2.0  # of a squared length: FISHER's Hessian is of an earlier centre than the audit's
_ROOTS = 1024  # columns up to which H^(1/2) is made, and not only bounded
_BLOCK = 1024


def added(method: Method, state: State, data: Engine, retrained: Retraining) -> Added | None:
    """The squared length of what was added to the centre; None where no centre was kept."""
    sigma = method.settings.sigma
    if state.kept_centre is None or sigma == 0:
        return None
    v = state.weights - state.kept_centre
    if method.noise != "steps":
        low = high = float(np.sum(v**2))
    else:
        if retrained.factors is None:
            low, high = _wide(v, state.kept_centre, data, method.ridge(data))
        else:
            bounds = [_bounds(f, one) for f, one in zip(retrained.factors, v, strict=True)]
            low, high = sum(b[0] for b in bounds), sum(b[1] for b in bounds)
        low, high = low / SLACK, high * SLACK
    return Added(sigma=sigma, low=low / sigma**2, high=high / sigma**2, degrees=v.size)


def root_times(factor: Cholesky, v: np.ndarray) -> np.ndarray:
    """H^(1/2) v."""
    values, vectors = np.linalg.eigh(factor.hessian)
    return np.asarray(vectors @ (np.sqrt(values.clip(0)) * (vectors.T @ v)))


def _bounds(factor: Cholesky, v: np.ndarray) -> tuple[float, float]:
    """v^T H^(1/2) v; where that costs much, between bounds by v^T v, v^T H v and v^T H^2 v."""
    if not v.any() or not np.isfinite(v).all():
        return float(np.sum(v)), float(np.sum(v))
    if len(v) <= _ROOTS:
        exact = float(v @ root_times(factor, v))
        return exact, exact
    image = factor.hessian @ v
    zeroth, first, second = float(v @ v), float(v @ image), float(image @ image)
    # by Cauchy and Schwarz, and by Hoelder: moments of the spectrum are convex in their logarithm
    return first**1.5 / second**0.5, (zeroth * first) ** 0.5


def _wide(v: np.ndarray, centre: np.ndarray, data: Engine, ridge: Ridge) -> tuple[float, float]:
    """Bounds without a Hessian: H >= the ridge, and v^T H v by a pass over the rows."""
    zeroth = np.sum(v**2, axis=1)
    first = np.sum(ridge * v**2, axis=1)
    n = data.n_remaining
    for start in range(0, n, _BLOCK):
        some = data.take(data.nth(np.arange(start, min(start + _BLOCK, n))))
        first = first + np.sum(some.curvatures(centre) * margins(some.X, v) ** 2, axis=0)
    return float(np.sum(np.sqrt(ridge) * v**2)), float(np.sum(np.sqrt(zeroth * first)))
