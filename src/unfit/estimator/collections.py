"""Rows that are a Dask array or data frame, for an engine that leaves them on its workers."""

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import column_or_1d

from unfit.engines import Dask


def cluster_of(X: Any, engine: object) -> Dask | None:
    """The engine, where it leaves the rows of a collection on its workers; None for rows in memory,
    and for other engines, which need them there."""
    return engine if isinstance(engine, Dask) and hasattr(X, "__dask_graph__") else None


def labels_of(y: Any, engine: Dask) -> np.ndarray:
    """The labels of such rows, in memory."""
    found = engine.gathered(y) if hasattr(y, "__dask_graph__") else y
    labels: np.ndarray = column_or_1d(np.asarray(found), warn=True)
    assert_all_finite(labels, input_name="y")
    if len(labels) < 2:
        raise ValueError(f"y has {len(labels)} labels; a classifier needs at least 2 rows")
    return labels


def note_columns(estimator: Any, X: Any) -> None:
    """What scikit-learn notes of X: how many columns it has, and their names if they are texts."""
    estimator.n_features_in_ = int(X.shape[1])
    names = list(getattr(X, "columns", ()))
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
