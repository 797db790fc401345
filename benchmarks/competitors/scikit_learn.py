"""scikit-learn's LogisticRegression, fitted again on the remaining rows.

From scratch with tol=1e-6, by lbfgs and by newton-cholesky; the faster counts. The refit that
starts from the old weights (lbfgs, warm_start) is shown beside it.
"""

import copy
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from ..data import Data

SOLVERS = ("lbfgs", "newton-cholesky")


def refit(
    data: Data, keep: np.ndarray, solver: str, start: LogisticRegression | None = None
) -> float:
    """Seconds of one fit on the rows of `keep`; taking the rows out is off the clock."""
    X, y = data.X[keep], data.y[keep]
    model = start or _model(data, len(y), solver)
    model.set_params(C=1 / (1e-4 * len(y)))
    begin = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - begin


def warm(data: Data, keep: np.ndarray) -> float:
    """Seconds of the lbfgs refit that starts from the weights of all rows."""
    return Warm(data).again(keep)


class Warm:
    """An lbfgs model, fitted again and again, each time from the weights before."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._model = _model(data, len(data.y), "lbfgs", warm_start=True)
        self._model.fit(data.X, data.y)

    def stream(self, parts: list[np.ndarray]) -> float:
        """Seconds of a refit after each part of the rows has gone, from the weights of all rows."""
        model = copy.deepcopy(self._model)
        keep, total = np.ones(len(self._data.y), bool), 0.0
        for gone in parts:
            keep[gone] = False
            total += refit(self._data, keep, "lbfgs", model)
        self._last = model
        return total

    def residual(self, gone: np.ndarray) -> float:
        """The length of the gradient that the last stream has left; its intercept is free."""
        X = np.delete(self._data.X, gone, axis=0).astype(np.float64)
        y, model = np.delete(self._data.y, gone), self._last
        found = model.predict_proba(X)
        slopes = found[:, -len(model.coef_) :] - targets(y, model.classes_)
        gradient = slopes.T @ X + model.coef_ / model.C
        free = slopes.sum(axis=0) if self._data.intercept else 0.0
        return float(np.hypot(np.linalg.norm(gradient), np.linalg.norm(free)))

    def again(self, keep: np.ndarray) -> float:
        """Seconds of one refit on the rows of `keep`; taking the rows out is off the clock."""
        return refit(self._data, keep, "lbfgs", self._model)


def targets(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """1 where a row is of a class, (n, k): of the second of two, else of each."""
    chosen = classes[1:] if len(classes) == 2 else classes
    return np.asarray(y[:, None] == chosen)


def _model(data: Data, n: int, solver: str, **more: object) -> LogisticRegression:
    return LogisticRegression(
        C=1 / (1e-4 * n),
        tol=1e-6,
        solver=solver,
        max_iter=10_000,
        fit_intercept=data.intercept,
        **more,
    )
