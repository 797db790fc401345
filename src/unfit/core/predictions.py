"""What weights say of rows: margins, class probabilities and predicted classes, written once.

Weights W are (k, d): one problem for two classes, else one per class. Knows core.losses and
core.kernels.
"""

import numpy as np

from unfit.core.kernels.products import few_products
from unfit.core.losses import LOGISTIC, Loss


def margins(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """x.w for every row and problem, (n, k), in the precision of X."""
    p = X.shape[1]
    # not X @ W: OpenBLAS sets the flag of invalid numbers now and then for finite rows
    result = X.dot(W[:, :p].T.astype(X.dtype))
    if W.shape[1] > p:
        result += W[:, p].astype(X.dtype)
    return np.asarray(result)


def margins_between_passes(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The same by threads of our own, where passes over rows come before and after it."""
    if not (isinstance(X, np.ndarray) and X.flags.c_contiguous):
        return margins(X, W)
    p = X.shape[1]
    result = few_products(X, W[:, :p]).T
    if W.shape[1] > p:
        result += W[:, p].astype(X.dtype)
    return result


def class_probabilities(scores: np.ndarray, loss: Loss = LOGISTIC) -> np.ndarray:
    """From margins (n, k) to (n, classes): each problem's probability, scaled to sum 1.

    With more than two classes these are of separate models, one against the rest each, and not
    those of a softmax model.
    """
    p = loss.probability(scores.astype(np.float64))
    if p.shape[1] == 1:
        return np.column_stack([1 - p[:, 0], p[:, 0]])
    p = np.maximum(p, np.finfo(np.float64).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def predicted_classes(scores: np.ndarray) -> np.ndarray:
    """From margins (n, k), or (n,) for two classes, to class codes."""
    two = scores.ndim == 1 or scores.shape[1] == 1
    return np.asarray(scores.ravel() > 0 if two else scores.argmax(axis=1)).astype(np.int64)


def predict(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The class codes that weights predict."""
    return predicted_classes(margins_between_passes(X, W))
