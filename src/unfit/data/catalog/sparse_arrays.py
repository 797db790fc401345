"""Sparse rows as plain arrays: how the catalogue writes, maps, checks and scales them.

A CSR matrix is three arrays: data (nnz,) float32, indices (nnz,) rising within a row, and indptr
(n + 1,). Knows only errors.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from unfit.errors import BadInput

PIECES = ("data", "indices", "indptr")


def split_arrays(name: str, rows: sparse.csr_array) -> dict[str, np.ndarray]:
    """The arrays of a CSR matrix, each under a name of its own."""
    return {f"{name}-{piece}": getattr(rows, piece) for piece in PIECES}


def joined(arrays: Mapping[str, np.ndarray], columns: int) -> dict[str, object]:
    """Arrays by name, with those of `split_arrays` put together again; nothing is copied."""
    found: dict[str, object] = {k: v for k, v in arrays.items() if "-" not in k}
    for name in ("X", "X_test"):
        data, indices, indptr = (arrays[f"{name}-{piece}"] for piece in PIECES)
        found[name] = sparse.csr_array((data, indices, indptr), (len(indptr) - 1, columns))
    return found


def matrix(pieces: Sequence[np.ndarray], shape: tuple[int, int]) -> sparse.csr_array:
    """float32 rows of data, indices and indptr, in canonical order."""
    data, indices, indptr = pieces
    rows = sparse.csr_array((data.astype(np.float32), indices, indptr), shape)
    rows.check_format()
    rows.sum_duplicates()
    return rows


def check_canonical(rows: sparse.csr_array, name: str) -> None:
    """An error that names the first row whose indices do not rise, or that is not finite."""
    rows.check_format()
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        raise BadInput(f"{name}: row {row} holds a non-finite number")
    falling = np.flatnonzero(np.diff(rows.indices) <= 0) + 1
    inside = falling[~np.isin(falling, rows.indptr)]
    if len(inside):
        row = int(np.searchsorted(rows.indptr, inside[0], side="right")) - 1
        raise BadInput(f"{name}: the column indices of row {row} do not rise")


def norms(rows: sparse.csr_array) -> np.ndarray:
    """||x_i||_2 of every row, in float64."""
    squares = np.square(rows.data, dtype=np.float64)
    of_rows = sparse.csr_array((squares, rows.indices, rows.indptr), rows.shape).sum(axis=1)
    return np.asarray(np.sqrt(of_rows))


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Each row divided by its length; a row of zeros stays."""
    lengths = norms(rows)
    each = np.repeat(np.where(lengths > 0, lengths, 1), np.diff(rows.indptr))
    data = (rows.data / each).astype(np.float32)
    return sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)


def max_norm(X: sparse.csr_array, X_test: sparse.csr_array) -> None:
    """Divide all rows, in place, by the largest L2 norm among the training rows X."""
    largest = np.float32(norms(X).max() or 1.0)
    X.data /= largest
    X_test.data /= largest
