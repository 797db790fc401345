"""The paper's preprocessing as a scikit-learn transformer. Knows nothing of methods."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data


class MaxNormScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Divide every row by one number, so that training rows end within the unit ball.

    One factor, so distances keep their proportions. It suits SGD with learning rate 1 (an
    intercept's column of ones comes on top).

    norm : None, or a length that is declared.
        None fits it: the length of the longest training row, rounded up to a power of two. The
        length itself would be one person's value. When that person is forgotten, `scale_` changes
        only if nobody else is as long to within a factor of two; unfit.Pipeline fits it again at
        every `unlearn`. A declared norm is used as it is, and remembers nobody: the paper's exact
        scaling is MaxNormScaler(norm=...) with the largest norm it states.

    `scale_` : the number.
    """

    def __init__(self, norm: float | None = None) -> None:
        self.norm = norm

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        rows = self._rows(X, reset=True)
        if self.norm is not None:
            if not 0 < self.norm < np.inf:
                raise ValueError(f"norm must be a length above 0, got {self.norm}")
            self.scale_ = float(self.norm)
            return self
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        longest = float(np.sqrt(squares.max()))
        self.scale_ = 2.0 ** np.ceil(np.log2(longest)) if longest > 0 else 1.0
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
