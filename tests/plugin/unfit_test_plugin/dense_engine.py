"""An engine from outside: plain NumPy in float64, without SGD."""

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine


class DenseEngine(Engine):
    name = "dense"

    def __init__(self, rows: Rows, n_classes: int) -> None:
        super().__init__(rows, n_classes)
        self._rows = rows
        self._X = np.ones((len(rows), rows.d))
        self._X[:, : rows.X.shape[1]] = rows.X
        self._targets = rows.targets(self.k).astype(np.float64)

    def take(self, rows: np.ndarray) -> Rows:
        return self._rows.take(rows)

    def _at(self, W: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, ...]:
        keep = self.remaining if mask is None else mask
        self.rows_read += int(np.count_nonzero(keep))
        X = self._X[keep]
        return X, X @ W.T, self._targets[keep]

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        X, margin, target = self._at(W, mask)
        value = self.loss.value(margin, target).sum(axis=0)
        return value, self.loss.slope(margin, target).T @ X

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        X, margin, target = self._at(W, mask)
        weights = self.loss.curvature(margin, target)
        return np.array([(X * column[:, None]).T @ X for column in weights.T])
