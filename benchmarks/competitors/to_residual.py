"""scikit-learn's solvers, driven to the same residual as ours: |gradient sum| <= residual n.

Their tolerances mean other things, so each solver gets the loosest one of a list that reaches the
residual; one that float32's rounding keeps from it gets the rows in float64. The intercept is a
column of ones with the rest, as in our objective; more than two classes are fitted one against the
rest, one after the other.
"""

import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from ..data import Data

SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "liblinear", "sag")
WARM_SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "sag")
_TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_WIDE = 1000  # columns beyond which newton-cholesky takes minutes
_L2 = 1e-4


def fits(
    data: Data, keep: np.ndarray, residual: float, start: np.ndarray | None = None
) -> Iterator[tuple[str, float]]:
    """Solvers that reach the residual on the rows of `keep`, and the seconds it takes them.

    start: weights (k, d), for the solvers that can go on from some.
    """
    X, codes = _rows(data, keep), np.unique(data.y, return_inverse=True)[1][keep]
    for solver in SOLVERS if start is None else WARM_SOLVERS:
        if solver == "newton-cholesky" and X.shape[1] > _WIDE:
            continue
        for rows, label in ((X, solver), (X.astype(np.float64), f"{solver}, float64")):
            found = _loosest(rows, codes, solver, residual, start)
            if found is not None:
                yield label, found
                break


def _loosest(
    X: np.ndarray, codes: np.ndarray, solver: str, residual: float, start: np.ndarray | None
) -> float | None:
    """Seconds with the first tolerance that reaches the residual; None if none does."""
    for tolerance in _TOLERANCES:
        seconds, left = _fit(X, codes, solver, tolerance, start)
        if left <= residual:
            return min(seconds, _fit(X, codes, solver, tolerance, start)[0])
    return None


def _rows(data: Data, keep: np.ndarray) -> np.ndarray:
    X = data.X[keep]
    return np.column_stack([X, np.ones(len(X), X.dtype)]) if data.intercept else X


def _fit(
    X: np.ndarray, codes: np.ndarray, solver: str, tolerance: float, start: np.ndarray | None
) -> tuple[float, float]:
    """Seconds, and the largest |gradient sum| / n of all problems."""
    n, positive = len(X), [1] if codes.max() == 1 else range(codes.max() + 1)
    seconds, worst = 0.0, 0.0
    for at, c in enumerate(positive):
        model = LogisticRegression(
            C=1 / (_L2 * n), tol=tolerance, solver=solver, max_iter=10_000, fit_intercept=False
        )
        if start is not None:
            model.set_params(warm_start=True)
            model.coef_, model.intercept_ = start[at : at + 1].astype(X.dtype), np.zeros(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            begin = time.perf_counter()
            model.fit(X, codes == c)
            seconds += time.perf_counter() - begin
        worst = max(worst, _residual(X, codes == c, model.coef_[0].astype(np.float64)))
    return seconds, worst


def _residual(X: np.ndarray, positive: np.ndarray, w: np.ndarray) -> float:
    slopes = 1 / (1 + np.exp(-(X @ w))) - positive
    return float(np.linalg.norm(slopes @ X / len(X) + _L2 * w))
