"""scikit-learn's LogisticRegression, fitted again on the remaining rows.

From scratch with tol=1e-6, by lbfgs and by newton-cholesky; the faster counts. The refit that
starts from the old weights (lbfgs, warm_start) is shown beside it.
"""

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

    def again(self, keep: np.ndarray) -> float:
        """Seconds of one refit on the rows of `keep`; taking the rows out is off the clock."""
        return refit(self._data, keep, "lbfgs", self._model)


def _model(data: Data, n: int, solver: str, **more: object) -> LogisticRegression:
    return LogisticRegression(
        C=1 / (1e-4 * n),
        tol=1e-6,
        solver=solver,
        max_iter=10_000,
        fit_intercept=data.intercept,
        **more,
    )
