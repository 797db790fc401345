"""What preparations share: one factor for all rows, ranges, seeded splits. Pure functions."""

import numpy as np

from unfit.data.catalog import sparse_arrays
from unfit.data.catalog.entry import Matrix, blocks


def largest_norm(X: Matrix) -> float:
    """max_i ||x_i||_2, in float64, in one pass over blocks of rows."""
    if not isinstance(X, np.ndarray):
        return float(sparse_arrays.norms(X).max())
    largest = 0.0
    for start, stop in blocks(X):
        rows = X[start:stop]
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        largest = max(largest, float(squares.max()))
    return float(np.sqrt(largest))


def max_norm(X: np.ndarray, X_test: np.ndarray) -> None:
    """Divide all rows, in place, by the largest L2 norm among the training rows X."""
    divide(largest_norm(X) or 1.0, X, X_test)


def divide(norm: float, *parts: np.ndarray) -> None:
    """Divide all rows by one number, in place."""
    for rows in parts:
        for start, stop in blocks(rows):
            rows[start:stop] /= np.float32(norm)


def standardise_by_one(X: np.ndarray, X_test: np.ndarray) -> None:
    """(x - mean) / sd in place, ONE mean and ONE deviation over all entries of X."""
    mean, sd = X.mean(dtype=np.float64), X.std(dtype=np.float64)
    for rows in (X, X_test):
        rows -= np.float32(mean)
        rows /= np.float32(sd or 1.0)


def standardise_columns(X: np.ndarray, test: np.ndarray, bound: float = 5.0) -> np.ndarray:
    """(x - mean) / sd of each column over the rows not in `test`, within +-bound.

    The bound is there because one extreme value would otherwise set the largest norm for all rows.
    """
    mean, sd = X[~test].mean(axis=0), X[~test].std(axis=0)
    return np.asarray(np.clip((X - mean) / np.where(sd > 0, sd, 1), -bound, bound))


def to_unit_range(X: np.ndarray, X_test: np.ndarray) -> None:
    """(x - min) / (max - min) of each column in place, the range that of the training rows X."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1).astype(X.dtype)
    for rows in (X, X_test):
        for start, stop in blocks(rows):
            rows[start:stop] = (rows[start:stop] - low) / width


def stratified(y: np.ndarray, n_test: int, seed: int) -> np.ndarray:
    """Mask (n,) of n_test test rows, drawn from each class by its share of y."""
    rng = np.random.default_rng(seed)
    classes, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    share = counts * n_test / len(y)
    each = np.floor(share).astype(np.int64)
    left = n_test - int(each.sum())
    each[np.argsort(each - share, kind="stable")[:left]] += 1  # the largest remainders
    test = np.zeros(len(y), np.bool_)
    for code in range(len(classes)):
        test[rng.permutation(np.flatnonzero(inverse == code))[: each[code]]] = True
    return test


def at_random(n: int, n_test: int, seed: int) -> np.ndarray:
    """Mask (n,) of n_test test rows."""
    test = np.zeros(n, np.bool_)
    test[np.random.default_rng(seed).permutation(n)[:n_test]] = True
    return test


def by_group(groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Mask (n,) of the rows of a share of the groups: nobody is in both parts."""
    distinct = np.unique(groups)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return np.isin(groups, distinct[order[: int(share * len(distinct))]])
