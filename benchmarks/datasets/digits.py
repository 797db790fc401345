"""scikit-learn's digits: 0 to 4 against 5 to 9. Ships with scikit-learn."""

import numpy as np
from sklearn.datasets import load_digits

from ..data import Data, max_norm

NAME, QUICK = "digits", True


def load() -> Data:
    X, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digit))
    test, train = order[:400], order[400:]
    y = (digit >= 5).astype(np.int64)
    X_train, X_test = max_norm(X[train], X[test])
    return Data(
        name=NAME,
        X=X_train,
        y=y[train],
        X_test=X_test,
        y_test=y[test],
        intercept=True,
        epochs=200,
        batch_size=128,
        burn_in=10,
        large=0.15,
    )
