"""Signs that rows were scaled by constants fitted to them, before they came here.

Such constants remember every row they were fitted with, also those that are forgotten later. What
stands before an estimator cannot be seen from it, but columns whose mean is zero to the last digits
were centred by their own mean, and a longest row of length one was divided by its own length.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from unfit.core.sparse_rows import squares_of_rows

CHANCE = 1e-6  # of sd / sqrt(n), the spread of a mean: nearer to zero is no accident
SAMPLE = 1024  # rows by which it is seen whether a closer look is worth while
LOOKED_AT = 8  # columns that are looked at closely


class FittedStepWarning(UserWarning):
    """Something fitted to the rows stands before a model that is asked to forget some."""


def sign_of_fitted_step(X: Any) -> str | None:
    """What gives a fitted step away, in words, or None.

    Every mean is taken roughly, at the price of a product with one vector; what is suspicious then
    is looked at in float64. Sparse rows cannot be centred: only their lengths are looked at.
    """
    if issparse(X):
        return _sign_in_lengths(squares_of_rows(X), X.dtype)
    sample = X[:: max(1, len(X) // SAMPLE)].astype(np.float64)
    spread = sample.std(axis=0)
    rough = np.ones(len(X), X.dtype) @ X / len(X)
    for what, close, exact in (
        ("mean 0", np.abs(rough) <= 1e-4 * spread, _is_centred),
        ("standard deviation 1", np.abs(spread - 1) <= 0.2, _has_deviation_one),
    ):
        suspects = np.flatnonzero(close & (spread > 0))[: 8 * LOOKED_AT]
        for j in suspects[~_coded(sample[:, suspects])][:LOOKED_AT]:
            if exact(X[:, j].astype(np.float64), float(np.finfo(X.dtype).eps)):
                return f"column {j} has {what}"
    one = 1 + 4 * float(np.finfo(X.dtype).eps)
    lengths = np.linalg.norm(sample, axis=1)
    if lengths.max() <= one and lengths[lengths > 0].min(initial=np.inf) < 2 - one:
        squares = np.einsum("ij,ij->i", X, X)
        longest = X[squares.argmax()].astype(np.float64)
        if 2 - one <= np.linalg.norm(longest) <= one and not _is_code(longest, sample):
            return "the longest row has length 1"
    return None


def _is_code(row: np.ndarray, sample: np.ndarray) -> bool:
    """A single 1 among zeros, in a column of few values: a category, or yes and no. Rows of such
    have length 1 without anybody's doing."""
    places = np.flatnonzero(row)
    return len(places) == 1 and row[places[0]] == 1.0 and bool(_coded(sample[:, places])[0])


def _sign_in_lengths(squares: np.ndarray, dtype: np.dtype) -> str | None:
    """Of sparse rows. Where all have length 1, each was divided by its own."""
    lengths = np.sqrt(squares[squares > 0])
    one = 1 + 4 * float(np.finfo(dtype).eps)
    if lengths.size and lengths.min() < 2 - one <= lengths.max() <= one:
        return "the longest row has length 1"
    return None


def _is_centred(column: np.ndarray, eps: float) -> bool:
    near = CHANCE / np.sqrt(len(column)) + eps / len(column)
    return bool(abs(column.mean()) <= near * column.std())


def _has_deviation_one(column: np.ndarray, eps: float) -> bool:
    return bool(abs(column.std() - 1) <= CHANCE / np.sqrt(len(column)) + eps / len(column))


def _coded(sample: np.ndarray) -> np.ndarray:
    """Columns of few values, as -1 and 1, which can be balanced by design."""
    ordered = np.sort(sample[:1000], axis=0)
    values = 1 + np.count_nonzero(np.diff(ordered, axis=0), axis=0)
    return np.asarray(values <= min(20, len(sample) // 4))
