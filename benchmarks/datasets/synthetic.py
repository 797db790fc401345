"""120,000 rows of 50 columns from scikit-learn's generator."""

import numpy as np
from sklearn.datasets import make_classification

from ..data import Data, max_norm

NAME, QUICK = "synthetic", True


def load() -> Data:
    X, y = make_classification(
        120_000, 50, n_informative=20, n_redundant=10, flip_y=0.05, random_state=0
    )
    X_train, X_test = max_norm(X[:100_000].astype(np.float32), X[100_000:].astype(np.float32))
    y = y.astype(np.int64)
    return Data(
        name=NAME,
        X=X_train,
        y=y[:100_000],
        X_test=X_test,
        y_test=y[100_000:],
        intercept=True,
        epochs=50,
        batch_size=512,
        burn_in=10,
        large=0.15,
    )
