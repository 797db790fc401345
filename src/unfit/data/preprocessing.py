"""The paper's preprocessing as a scikit-learn transformer. Knows nothing of methods."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data


class MaxNormScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Divide every row by the largest L2 norm among the training rows.

    One factor, so distances keep their proportions; training rows end within the unit ball, which
    suits SGD with learning rate 1 (an intercept's column of ones comes on top). `scale_` is derived
    from the training rows: one more thing that remembers them, to be refitted at a retraining.
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        rows = self._rows(X, reset=True)
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        norm = float(np.sqrt(squares.max()))
        self.scale_ = norm if norm > 0 else 1.0
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows / rows.dtype.type(self.scale_))

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows * rows.dtype.type(self.scale_))

    def _rows(self, X: ArrayLike, reset: bool) -> np.ndarray:
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=reset))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
