"""COVTYPE: forest cover, type 2 against the rest, numeric columns to [0, 1]."""

import numpy as np

from ..data import Data, archive, max_norm

NAME, QUICK = "covtype", False


def load() -> Data:
    z = archive("covtype.npz")
    numeric = z["X_num"].astype(np.float64)
    low, high = numeric.min(axis=0), numeric.max(axis=0)
    n = len(numeric)
    X = np.zeros((n, 54), np.float32)
    X[:, :10] = (numeric - low) / (high - low)
    X[np.arange(n), 10 + z["wilderness"].astype(int)] = 1
    X[np.arange(n), 14 + z["soil"].astype(int)] = 1
    y = (z["cover_type"] == 2).astype(np.int64)
    order = np.random.default_rng(0).permutation(n)
    test, train = order[:58_102], order[58_102:]
    X_train, X_test = max_norm(X[train], X[test])
    return Data(NAME, X_train, y[train], X_test, y[test], False, 200, 512, 10, 0.15)
