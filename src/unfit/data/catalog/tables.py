"""Columns of text become rows of numbers: what the tabular data sets share. Pure functions."""

from collections.abc import Sequence

import numpy as np

from unfit.data.catalog import scaling
from unfit.data.catalog.entry import Parts, RawArrays
from unfit.errors import BadInput


def numbers(raw: RawArrays, names: Sequence[str]) -> np.ndarray:
    """Columns (n, len(names)) float64; what is not a number is named with its row."""
    columns = []
    for name in names:
        try:
            columns.append(raw[name].astype(np.float64))
        except ValueError:
            at = next(i for i, text in enumerate(raw[name]) if not _is_number(str(text)))
            raise BadInput(
                f"column {name}, row {at + 1}: {str(raw[name][at])!r} is not a number"
            ) from None
    return np.column_stack(columns)


def one_hot(column: np.ndarray, test: np.ndarray, at_least: int = 1) -> np.ndarray:
    """A column for each text found in at_least rows outside `test`; other texts have none."""
    texts, counts = np.unique(column[~test], return_counts=True)
    return np.asarray(column[:, None] == texts[counts >= at_least][None, :], dtype=np.float32)


def parts(
    blocks: Sequence[np.ndarray], y: np.ndarray, test: np.ndarray, groups: np.ndarray | None = None
) -> Parts:
    """Blocks of columns side by side, split, divided by the largest training norm."""
    X = np.hstack([np.asarray(block, np.float32) for block in blocks])
    X_train, X_test = X[~test], X[test]
    scaling.max_norm(X_train, X_test)
    y = y.astype(np.int64)
    kept = None if groups is None else groups[~test].astype(np.int64)
    return Parts(X_train, y[~test], X_test, y[test], kept)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
