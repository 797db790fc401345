"""scikit-learn's LogisticRegression on sparse rows, one model per problem as one-vs-rest has them.

Fitted from scratch, or from the weights before (warm_start). The intercept is not regularised by
lbfgs and newton-cg, and is by liblinear, as by us; residuals are measured on what each minimises.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

L2, TOL = 1e-4, 1e-6
FROM_SCRATCH = ("liblinear", "lbfgs", "newton-cg")
WARM = ("lbfgs", "newton-cg")


@dataclass(frozen=True)
class Fitted:
    """One model per problem; seconds to fit them; |gradient| per row of all of them together."""

    models: list[LogisticRegression]
    seconds: float
    residual: float


def fit(
    X: sparse.csr_array, targets: np.ndarray, solver: str, start: Fitted | None = None
) -> Fitted:
    """targets (k, n): what each problem has to tell apart. start: where warm fits begin."""
    n, taken, models = X.shape[0], 0.0, []
    for c, target in enumerate(targets):
        model = LogisticRegression(
            C=1 / (L2 * n), tol=TOL, solver=solver, max_iter=10_000, warm_start=start is not None
        )
        if start is not None:
            before = start.models[c]
            model.coef_, model.intercept_ = before.coef_.copy(), before.intercept_.copy()
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, target)
        taken += time.perf_counter() - begin
        models.append(model)
    squares = [
        _squared_gradient(X, target, model) for target, model in zip(targets, models, strict=True)
    ]
    return Fitted(models, taken, float(np.sqrt(sum(squares))) / n)


def _squared_gradient(X: sparse.csr_array, target: np.ndarray, model: LogisticRegression) -> float:
    w, intercept, ridge = model.coef_.ravel(), float(model.intercept_[0]), L2 * X.shape[0]
    slopes = 1 / (1 + np.exp(-(X @ w + intercept))) - target
    gradient = X.T @ slopes + ridge * w
    last = slopes.sum() + (ridge * intercept if model.solver == "liblinear" else 0.0)
    return float(gradient @ gradient + last**2)
