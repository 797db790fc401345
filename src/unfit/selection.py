"""Which rows a request names: positions, a mask, or labels of the data frame that was fitted.

A number can be a position or a label, and the two are told apart by the kind of what is given, not
by its values: arrays and lists of whole numbers are positions, a pandas Index holds labels,
booleans are a mask. What could be either is refused. Pandas is looked at, never imported.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Labels:
    """The index of the data frame given to fit, or what is left of it: label i is row positions[i].

    Labels can be names or e-mail addresses; those of forgotten rows leave with their rows.
    """

    index: Any
    positions: np.ndarray

    @classmethod
    def of(cls, *tables: object) -> "Labels | None":
        """Of the first of the given tables that has an index."""
        pandas = sys.modules.get("pandas")
        if pandas is None:
            return None
        indexed = [t for t in tables if isinstance(t, pandas.DataFrame | pandas.Series)]
        return cls(indexed[0].index, np.arange(len(indexed[0]))) if indexed else None

    def of_rows(self, remaining: np.ndarray) -> "Labels":
        """Without the labels of rows that are gone."""
        keep = remaining[self.positions]
        if keep.all():
            return self
        return Labels(without_unused(self.index[keep]), self.positions[keep])

    def find(self, wanted: Any, remaining: np.ndarray) -> np.ndarray:
        """Every remaining row with one of the labels, in the order of the request."""
        wanted = wanted.unique()
        unknown = wanted[~wanted.isin(self.index)]
        if len(unknown):
            raise ValueError(
                f"unknown labels {some(unknown)}: the X of fit had no such rows, or they were "
                "forgotten before this copy was made"
            )
        found = self.positions[self.index.get_indexer_for(wanted)]
        left = found[remaining[found]]
        gone = wanted[~wanted.isin(self.index[remaining[self.positions]])]
        if len(gone):
            raise ValueError(f"the rows of labels {some(gone)} were forgotten already")
        return np.asarray(left, np.intp)


def without_unused(table: Any) -> Any:
    """Some rows of a table, without the categories and levels that only other rows had.

    pandas keeps those when rows are taken, names of the forgotten among them.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return table
    if isinstance(table, pandas.MultiIndex):
        table = table.remove_unused_levels()
        levels = [without_unused(level) for level in table.levels]
        return table.set_levels(levels, verify_integrity=False)
    if isinstance(table, pandas.CategoricalIndex | pandas.Categorical):
        return table.remove_unused_categories()
    if not isinstance(table, pandas.DataFrame | pandas.Series):
        return table
    if isinstance(table, pandas.DataFrame):
        table = table.copy(deep=False)
        for i, dtype in enumerate(table.dtypes):
            if isinstance(dtype, pandas.CategoricalDtype):
                table.isetitem(i, table.iloc[:, i].cat.remove_unused_categories())
    elif isinstance(table.dtype, pandas.CategoricalDtype):
        table = table.cat.remove_unused_categories()
    index = without_unused(table.index)
    return table if index is table.index else table.set_axis(index, axis=0)


def positions(rows: ArrayLike, labels: Labels | None, remaining: np.ndarray) -> np.ndarray:
    """The rows that a request names as positions, in its order; or a ValueError with the remedy."""
    n = len(remaining)
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        listed = pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray
        if isinstance(rows, listed) and len(rows) == 0:
            return np.empty(0, np.intp)
        if isinstance(rows, pandas.Series):
            if _is_mask(rows):
                return _of_series(rows, labels, n)
            raise ValueError(
                "a Series can hold positions or labels; give positions as rows.to_numpy(), or "
                "labels as pandas.Index(rows)"
            )
        if isinstance(rows, pandas.DataFrame):
            raise ValueError("give the rows to forget by their labels: frame.index")
        if isinstance(rows, pandas.Index) and not _is_mask(rows):
            if labels is None:
                raise ValueError(
                    "an Index holds labels, but the X of fit had none; give positions as a NumPy "
                    "array, or fit the data frame itself"
                )
            return labels.find(rows, remaining)
        if isinstance(rows, listed) and _is_mask(rows):
            _require_filled(rows)
            return _of_mask(rows.to_numpy(dtype=bool), n)
    asked = np.asarray(rows)
    if asked.size == 0:
        return np.empty(0, np.intp)
    if asked.dtype == bool and asked.ndim == 1:
        return _of_mask(asked, n)
    if asked.ndim != 1 or not np.issubdtype(asked.dtype, np.integer):
        known = "" if labels is None else "; labels of the data frame go into a pandas.Index"
        given = f"{asked.dtype} values of shape {asked.shape}"
        if asked.ndim == 0:
            given = f"a {type(rows).__name__}"
        raise ValueError(
            f"rows must be a list of whole numbers, positions in the X of fit{known}; got {given}"
        )
    unknown = asked[(asked < 0) | (asked >= n)]
    if len(unknown):
        raise ValueError(f"unknown rows {some(np.sort(unknown))}: rows are numbered 0 to {n - 1}")
    return asked.astype(np.intp, copy=False)


def _is_mask(values: Any) -> bool:
    """Whether pandas' values are booleans, of a kind that can be missing or not."""
    return str(values.dtype) in ("bool", "boolean", "bool[pyarrow]")


def _require_filled(mask: Any) -> None:
    missing = np.flatnonzero(mask.isna())
    if len(missing):
        raise ValueError(
            f"the mask has missing values, the first at position {missing[0]}; fill them with "
            "False or True"
        )


def _of_mask(mask: np.ndarray, n: int) -> np.ndarray:
    if len(mask) != n:
        raise ValueError(
            f"a mask says for each of the {n} rows of fit whether it goes; this one has {len(mask)}"
        )
    return np.flatnonzero(mask)


def _of_series(mask: Any, labels: Labels | None, n: int) -> np.ndarray:
    _require_filled(mask)
    if labels is not None and _reordered(mask.index, labels.index):
        mask = mask.reindex(labels.index)
    plain = _of_mask(mask.to_numpy(dtype=bool), n)
    if labels is None or len(labels.positions) < n:
        counted = np.array_equal(np.asarray(mask.index), np.arange(n))
        if labels is None and counted:
            return plain
        raise ValueError(
            "the labels of this mask cannot be compared with those of fit; give mask.to_numpy() if "
            "it is in the order of the rows of fit"
        )
    if not mask.index.equals(labels.index):
        raise ValueError(
            "the mask has other labels than the X of fit, or some of them twice in another order; "
            "reindex it to those, or give mask.to_numpy()"
        )
    return plain


def _reordered(index: Any, other: Any) -> bool:
    """Whether both hold the same labels, each once, in different orders."""
    if len(index) != len(other) or index.equals(other):
        return False
    return bool(index.is_unique and other.is_unique and index.isin(other).all())


def some(values: Any) -> str:
    """'[3, 7, 9]', cut after ten."""
    listed = values[:10].tolist()
    more = f" and {len(values) - 10} more" if len(values) > 10 else ""
    return f"{listed}{more}"
