"""Sparse rows with their class codes: what is stored is the numbers that are not zero.

`SparseRows` is `Rows` whose X is a CSR array in canonical form: within a row, column indices ascend
and none appears twice. Nothing here makes a dense array of n x d or d x d numbers. Sums over rows
are in float64 whatever the numbers are. Knows core.objective and core.kernels.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from unfit.core.kernels.parallel import available_threads, run_threads
from unfit.core.kernels.sparse import (
    Compressed,
    Share,
    add_squares,
    copy_rows,
    count_values,
    first_disorder,
    gather_rows,
    padded,
    to_table,
)
from unfit.core.losses import LOGISTIC, Loss
from unfit.core.objective import Rows, check_index, spread
from unfit.errors import BadInput

_WORTH_A_THREAD = 1 << 15  # stored numbers times problems
SMALL_INDEX = 1 << 31


@dataclass(frozen=True)
class SparseRows(Rows):
    """Rows whose X is a scipy.sparse.csr_array; `sparse_rows` makes them and checks their form."""

    X: Any

    @property
    def indptr(self) -> np.ndarray:
        return np.asarray(self.X.indptr)

    @property
    def indices(self) -> np.ndarray:
        return np.asarray(self.X.indices)

    @property
    def data(self) -> np.ndarray:
        return np.asarray(self.X.data)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, without the intercept."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def nbytes(self) -> int:
        """Of the three arrays."""
        return int(self.indptr.nbytes + self.indices.nbytes + self.data.nbytes)

    @property
    def compressed(self) -> Compressed:
        """The rows as kernels take them."""
        return self.indptr, self.indices, self.data

    def columns_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns in which some rows have values, and how many; see `values_in_columns`."""
        if self.sample_weight is not None:
            index = index[self.sample_weight[index] != 0]
        data, indices, _ = self._parts_of(index)
        return np.unique(indices[data != 0], return_counts=True)

    def values_in_columns(self, mask: np.ndarray | None = None) -> np.ndarray:
        """How many rows of a mask have a value in each column, (p,): a zero that is stored is none,
        and a row of weight 0 has none."""
        counted = np.ones(len(self), np.bool_) if mask is None else mask
        if self.sample_weight is not None:
            counted = counted & (self.sample_weight != 0)
        shares = shares_of(self.indptr, 1)
        if len(shares) * self.shape[1] > self.indices.size // 4:  # each thread counts all columns
            shares = [(0, len(self))]
        counts = np.zeros((len(shares), self.shape[1]), np.int64)
        run_threads(
            lambda t: count_values(self.compressed, counted, counts[t], shares[t]), len(shares)
        )
        return np.asarray(counts.sum(axis=0))

    def _parts_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies of data, indices and indptr of some rows."""
        check_index(index, len(self))
        indptr = np.zeros(index.size + 1, np.int64)
        np.cumsum(self.indptr[index + 1] - self.indptr[index], out=indptr[1:])
        indices = np.empty(indptr[-1], self.indices.dtype)
        data = np.empty(indptr[-1], self.data.dtype)
        copy_rows(self.compressed, index, (indptr, indices, data))
        return data, indices, indptr

    def take(self, index: np.ndarray) -> "SparseRows":
        index = np.flatnonzero(index) if index.dtype == np.bool_ else index
        X = _array(self._parts_of(index), (index.size, self.shape[1]))
        weight = None if self.sample_weight is None else self.sample_weight[index]
        return replace(self, X=X, codes=self.codes[index], sample_weight=weight)

    def spread(self, places: np.ndarray) -> "SparseRows":
        lengths = np.zeros(len(places) + 1, np.int64)
        lengths[1:][places] = np.diff(self.indptr)
        X = _array((self.data, self.indices, np.cumsum(lengths)), (len(places), self.shape[1]))
        weight = None if self.sample_weight is None else spread(self.sample_weight, places)
        return replace(self, X=X, codes=spread(self.codes, places), sample_weight=weight)

    def copied(self) -> "SparseRows":
        parts = np.array(self.data), np.array(self.indices), np.array(self.indptr)
        weight = None if self.sample_weight is None else np.array(self.sample_weight)
        X, codes = _array(parts, self.shape), np.array(self.codes)
        return replace(self, X=X, codes=codes, sample_weight=weight)

    def joined(self, other: Rows) -> "SparseRows":
        assert isinstance(other, SparseRows)
        parts = (
            np.concatenate([self.data, other.data]),
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.indptr, self.indptr[-1] + other.indptr[1:]]),
        )
        codes = np.concatenate([self.codes, other.codes])
        X = _array(parts, (len(self) + len(other), self.shape[1]))
        return replace(self, X=X, codes=codes, sample_weight=self._joined_weights(other))

    def dense(self) -> np.ndarray:
        return np.asarray(self.X.toarray())

    def squared_lengths(self) -> np.ndarray:
        return squares_of_rows(self.X) + self.intercept

    def rough_squares(self) -> np.ndarray:
        return squares_of_rows(self.X)

    def holds(self, X: Any) -> bool:
        if not sparse.issparse(X) or X.shape != self.shape:
            return False
        given = _canonical(X)
        pairs = (given.indptr, self.indptr), (given.indices, self.indices)
        same = all(np.array_equal(one, other) for one, other in pairs)
        return same and np.array_equal(given.data.astype(self.data.dtype), self.data)

    def margins(self, W: np.ndarray) -> np.ndarray:
        table, out = to_columns(W), np.empty((len(self), padded(len(W))))
        in_shares(self.indptr, len(W), lambda part: gather_rows(self.compressed, table, out, part))
        found = out[:, : len(W)]
        return found + W[:, -1] if self.intercept else found

    def value_gradient(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at, targets = self.margins(W), self.targets(len(W)).astype(np.float64)
        slopes = np.asarray(self.weighted(self.loss.slope(at, targets)), np.float64)
        gradient = np.empty(W.shape)
        p = self.shape[1]
        gradient[:, :p] = (self.X.T @ slopes).T
        if self.intercept:
            gradient[:, p] = slopes.sum(axis=0)
        return np.asarray(self.weighted(self.loss.value(at, targets)).sum(axis=0)), gradient


def squares_of_rows(X: Any) -> np.ndarray:
    """|x|^2 of every row of a CSR matrix, (n,), in float64."""
    found = np.zeros(X.shape[0])
    add_squares(X.indptr, X.data, found)
    return found


def make_rows(
    X: Any,
    codes: np.ndarray,
    intercept: bool,
    loss: Loss = LOGISTIC,
    sample_weight: np.ndarray | None = None,
) -> Rows:
    """Rows of a dense array, or of a SciPy matrix of any sparse format, which is brought into
    canonical form in a copy where it is not."""
    if not sparse.issparse(X):
        return Rows(X, codes, intercept, loss, sample_weight)
    like = Rows(np.zeros((0, X.shape[1])), codes, intercept, loss, sample_weight)
    return sparse_rows(_canonical(X), like)


def _canonical(X: Any) -> Any:
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_form(X: Any) -> None:
    """A sentence where a matrix that SciPy keeps compressed names places outside itself, where
    SciPy would read without looking. Anything else passes."""
    if sparse.issparse(X) and X.format in ("csr", "csc"):
        _check_places(X)
        _check_range(X.indptr, X.indices[: int(X.indptr[-1])], X)


def sparse_rows(X: Any, like: Rows) -> SparseRows:
    """Rows of a CSR matrix, with the codes, intercept and loss of others; its form is checked.

    Arrays are kept where they are as they should be: indices of 32 bits if there are fewer columns
    than that holds, which may be too few for the number of stored values, so that indptr has 64.
    """
    n, p = X.shape
    _check_places(X)
    stored = int(X.indptr[-1])  # SciPy's arrays may be longer
    data, indices = X.data[:stored], X.indices[:stored]
    if indices.dtype != np.int32 and p < SMALL_INDEX:
        _check_range(X.indptr, indices, X)
        indices = indices.astype(np.int32)
    indptr = X.indptr.astype(np.int64, copy=False)
    row, what = first_disorder(indptr, indices, p)
    if what == 1:
        raise BadInput(f"row {row} of X has a column index outside 0 to {p - 1}")
    if what == 2:
        raise BadInput(
            f"row {row} of X has column indices that are repeated or not in ascending order; "
            "call X.sum_duplicates() first"
        )
    if not np.isfinite(data).all():
        at = int(np.flatnonzero(~np.isfinite(data))[0])
        where = int(np.searchsorted(indptr, at, side="right")) - 1
        raise BadInput(f"row {where} of X holds a value that is not a finite number")
    made = _array((data, indices, indptr), (n, p))
    return SparseRows(made, like.codes, like.intercept, like.loss, like.sample_weight)


def stored_rows(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int], like: Rows
) -> SparseRows:
    """Rows of data, indices and indptr that unfit wrote itself: nothing is checked or copied."""
    made = _array(parts, shape)
    return SparseRows(made, like.codes, like.intercept, like.loss, like.sample_weight)


def _check_places(X: Any) -> None:
    """That every row ends after it begins, and the last one within what is stored; columns, where
    those are what is compressed."""
    (line, _), (n, _) = _lines(X)
    indptr = X.indptr
    if len(indptr) != n + 1 or indptr[0] != 0:
        raise BadInput(f"X.indptr does not tell where {n} {line}s begin and end")
    backwards = np.flatnonzero(indptr[1:] < indptr[:-1])
    if backwards.size:
        raise BadInput(f"{line} {backwards[0]} of X ends before it begins; look at X.indptr")
    if indptr[-1] > min(len(X.indices), len(X.data)):
        raise BadInput(f"the {line}s of X end beyond the values that are stored; look at X.indptr")


def _check_range(indptr: np.ndarray, indices: np.ndarray, X: Any) -> None:
    """That indices, which may be about to be made shorter, are within X."""
    (line, other), (_, size) = _lines(X)
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        at = int(np.flatnonzero((indices < 0) | (indices >= size))[0])
        place = int(np.searchsorted(indptr, at, side="right")) - 1
        raise BadInput(f"{line} {place} of X has a {other} index outside 0 to {size - 1}")


def _lines(X: Any) -> tuple[tuple[str, str], tuple[int, int]]:
    """What is compressed and what is indexed, and how many there are of each."""
    n, p = X.shape
    return (("column", "row"), (p, n)) if X.format == "csc" else (("row", "column"), (n, p))


def _array(parts: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int]) -> Any:
    """A CSR array of these very arrays: SciPy would make both kinds of indices alike."""
    data, indices, indptr = parts
    made = sparse.csr_array(shape, dtype=data.dtype)
    made.data, made.indices, made.indptr = data, indices, indptr
    made.has_canonical_format = True
    return made


def to_columns(V: np.ndarray, table: np.ndarray | None = None) -> np.ndarray:
    """Vectors (j, d) side by side, (d, width); in a table that is given, if there are several."""
    j, d = V.shape
    V = np.ascontiguousarray(V, dtype=np.float64)
    if j == 1:
        return V.reshape(d, 1)
    table = np.empty((d, padded(j))) if table is None else table
    threads = min(available_threads(), 1 + V.size // _WORTH_A_THREAD)
    run_threads(lambda t: to_table(V, table, (d * t // threads, d * (t + 1) // threads)), threads)
    return table


def threads_for(indptr: np.ndarray, vectors: int) -> int:
    """How many threads a sum over rows is worth."""
    stored = int(indptr[-1]) + len(indptr)
    return min(available_threads(), 1 + stored * vectors // _WORTH_A_THREAD)


def shares_of(indptr: np.ndarray, vectors: int) -> list[Share]:
    """Parts of about as many stored numbers, one a thread."""
    threads = threads_for(indptr, vectors)
    goals = [int(indptr[-1]) * t // threads for t in range(1, threads)]
    found = np.searchsorted(indptr, np.array(goals, indptr.dtype))  # else numpy copies indptr
    cuts = [0, *found.tolist(), len(indptr) - 1]
    return list(pairwise(cuts))


def in_shares(indptr: np.ndarray, vectors: int, body: Any) -> None:
    shares = shares_of(indptr, vectors)
    run_threads(lambda t: body(shares[t]), len(shares))
