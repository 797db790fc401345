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
    return Data(NAME, X_train, y[train], X_test, y[test], True, 200, 128, 10, 0.15)
