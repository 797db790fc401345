"""CIFAR2: cats (class 0) and ships of CIFAR-10."""

import numpy as np

from ..data import Data, archive, max_norm

NAME, QUICK = "cifar2", False


def load() -> Data:
    z = archive("cifar2_cat_ship.npz")
    X, X_test = max_norm(
        z["x_train"].astype(np.float32) / 255, z["x_test"].astype(np.float32) / 255
    )
    y, y_test = ((z[f"y_{part}"] == 8).astype(np.int64) for part in ("train", "test"))
    return Data(NAME, X, y, X_test, y_test, False, 500, 512, 20, 0.2)
