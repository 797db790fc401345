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
    return _fitted(start or _model(data, len(y), solver), X, y)


def _fitted(model: LogisticRegression, X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of a fit, with the penalty of so many rows."""
    model.set_params(C=1 / (1e-4 * len(y)))
    begin = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - begin


def warm(data: Data, keep: np.ndarray) -> float:
    """Seconds of the lbfgs refit that starts from the weights of all rows."""
    return Warm(data).again(keep)


class Warm:
    """lbfgs, fitted again and again, each time from the weights before: one model for two classes,
    else one for each class against the others, as ours are."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._targets = targets(data.y, np.unique(data.y))
        self._models = [
            _model(data, len(data.y), "lbfgs", warm_start=True).fit(data.X, target)
            for target in self._targets.T
        ]

    def stream(self, parts: list[np.ndarray]) -> float:
        """Seconds of a refit after each part of the rows has gone, from the weights of all rows."""
        models = copy.deepcopy(self._models)
        keep, total = np.ones(len(self._data.y), bool), 0.0
        for gone in parts:
            keep[gone] = False
            total += self._again(models, keep)
        self._last = models
        return total

    def residual(self, gone: np.ndarray) -> float:
        """The length of the gradient that the last stream has left; its intercept is free."""
        X = np.delete(self._data.X, gone, axis=0).astype(np.float64)
        return float(np.linalg.norm([self._left(X, gone, c) for c in range(len(self._last))]))

    def _left(self, X: np.ndarray, gone: np.ndarray, c: int) -> float:
        model = self._last[c]
        slopes = model.predict_proba(X)[:, 1] - np.delete(self._targets[:, c], gone)
        gradient = slopes @ X + model.coef_[0] / model.C
        return float(np.hypot(np.linalg.norm(gradient), slopes.sum() * self._data.intercept))

    def again(self, keep: np.ndarray) -> float:
        """Seconds of one refit on the rows of `keep`; taking the rows out is off the clock."""
        return self._again(self._models, keep)

    def _again(self, models: list[LogisticRegression], keep: np.ndarray) -> float:
        X, of_rows = self._data.X[keep], self._targets[keep]
        return sum(_fitted(model, X, of_rows[:, c]) for c, model in enumerate(models))


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
