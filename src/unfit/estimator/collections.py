"""Rows that are a Dask array or data frame, for an engine that leaves them on its workers."""

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from unfit.engines import Dask


def written_rows(X: Any, engine: object, dtype: np.dtype) -> Any:
    """The files of a collection's rows; None for rows in memory, or where the engine is another one
    and needs them there."""
    if not isinstance(engine, Dask) or not hasattr(X, "__dask_graph__"):
        return None
    return engine.write(X, dtype)


def labels_of(y: Any, n: int, engine: Any) -> np.ndarray:
    """y as an array of n labels."""
    found = engine.gathered(y) if hasattr(y, "__dask_graph__") else y
    labels: np.ndarray = column_or_1d(np.asarray(found), warn=True)
    if len(labels) != n:
        raise ValueError(f"X has {n} rows but y has {len(labels)}")
    return labels


def note_columns(estimator: Any, X: Any) -> None:
    """What scikit-learn notes of X: how many columns it has, and their names if they are texts."""
    estimator.n_features_in_ = int(X.shape[1])
    names = list(getattr(X, "columns", ()))
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
