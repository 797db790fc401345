"""Whether SGD's steps are short enough for the rows.

A step w <- w - eta (mean gradient) shrinks the error along a direction where eta times the
curvature there is below 2; beyond, the error flips and grows. The mean curvature is at most
L = c v + l2, where c is the largest curvature of the loss at any margin (logistic: 1/4) and v the
largest eigenvalue of the mean of x x^T, intercept included. So eta L > 2 means that steps
overshoot wherever the loss is as curved as it can be; the weights end somewhere, and nothing else
says so. Rows no longer than 1 are safe for the logistic loss and eta < 4: with an intercept v <= 2.
May know engines.
"""

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine

SAMPLE = 2048  # rows by which v is estimated
ROUNDS = 20  # of the power method, which comes from below


class UnscaledRowsWarning(UserWarning):
    """Rows so long that SGD with this learning rate overshoots."""


def largest_curvature(rows: Rows) -> float:
    """c v: a bound on the mean curvature of the loss, along the direction where it is largest."""
    X = rows.X.astype(np.float64)
    if rows.intercept:
        X = np.column_stack([X, np.ones(len(X))])
    v, value = np.ones(X.shape[1]), 0.0
    for _ in range(ROUNDS):
        v = v / (np.linalg.norm(v) or 1.0)
        v = X.T @ (X @ v) / len(X)
        value = float(np.linalg.norm(v))
    return rows.loss.max_curvature * value


def overshooting(data: Engine, learning_rate: float, l2: float) -> str | None:
    """A sentence with the remedy where steps are too long for the rows, or None."""
    sample = data.take(np.arange(0, len(data), max(1, len(data) // SAMPLE)))
    curvature = largest_curvature(sample) + l2
    if learning_rate * curvature <= 2:
        return None
    return (
        f"SGD overshoots on rows as long as these: the learning rate, {learning_rate:g}, times the "
        f"largest curvature, {curvature:.3g}, is over 2, and the fit can be far from the optimum. "
        "Scale the rows (unfit.MaxNormScaler, or preprocessing.norm of a workspace), or use a "
        f"learning rate below {2 / curvature:.2g}"
    )
