"""MNIST-b: the digits 3 (class 0) and 8, standardised by one mean and one deviation."""

import numpy as np

from ..data import Data, archive, max_norm

NAME, QUICK = "mnist-b", False
PUBLISHED = {
    "initial, test rows": 0.9688,
    "retrained, test rows": 0.870,
    "fisher, test rows": 0.913,
    "fisher, deleted rows": 0.777,
    "influence, test rows": 0.907,
    "influence, deleted rows": 0.757,
}


def load() -> Data:
    z = archive("mnist.npz")
    parts = []
    for name in ("train", "test"):
        keep = np.isin(z[f"y_{name}"], (3, 8))
        X = z[f"x_{name}"][keep].astype(np.float32) / 255
        parts += [X, (z[f"y_{name}"][keep] == 8).astype(np.int64)]
    X, y, X_test, y_test = parts
    mean, deviation = X.mean(), X.std()
    X, X_test = max_norm((X - mean) / deviation, (X_test - mean) / deviation)
    return Data(NAME, X, y, X_test, y_test, False, 1000, 1024, 10, 0.375, PUBLISHED)
