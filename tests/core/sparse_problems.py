"""Small sparse problems, with the dense rows they are compared with."""

import numpy as np
from scipy import sparse

from unfit.core.losses import LOGISTIC
from unfit.core.objective import Rows
from unfit.core.sparse_rows import sparse_rows


def sparse_and_dense(
    seed=0, n=60, p=23, n_classes=3, dtype="float64", intercept=True, density=0.2, loss=LOGISTIC
):
    """The same rows twice: sparse, and dense in float64; with weights for them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < density)
    X = X.astype(dtype)
    codes = rng.integers(0, n_classes, n).astype(np.int32)
    dense = Rows(X.astype(np.float64), codes, intercept, loss)
    k = 1 if n_classes == 2 else n_classes
    return sparse_rows(sparse.csr_array(X), dense), dense, rng.standard_normal((k, dense.d)) / 3
