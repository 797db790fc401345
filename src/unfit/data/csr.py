"""Sparse rows as three arrays: where each row begins, the columns it has values in, the values.

What a scipy matrix would be, but of arrays that may lie in mapped files: nothing is checked,
copied or converted. Within a row, columns rise. Knows numpy and scipy alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse


@dataclass(frozen=True, kw_only=True)
class Csr:
    """n rows of `width` columns. indptr (n + 1,) i8, indices (nnz,) i4, data (nnz,) f4."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    width: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        return int(self.indptr.nbytes + self.indices.nbytes + self.data.nbytes)

    def copy(self) -> "Csr":
        """The same in memory."""
        return Csr(
            indptr=np.array(self.indptr),
            indices=np.array(self.indices),
            data=np.array(self.data),
            width=self.width,
        )

    @property
    def counts(self) -> np.ndarray:
        """How many values each row has."""
        return np.diff(self.indptr)

    def __getitem__(self, at: slice | np.ndarray) -> "Csr":
        """Some rows: of a slice without copying their values, else by position."""
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            indptr = self.indptr[start : max(start, stop) + 1]
            part = slice(int(indptr[0]), int(indptr[-1]))
            return replace(
                self,
                indptr=indptr - indptr[0],
                indices=self.indices[part],
                data=self.data[part],
            )
        inside, indptr = self.entries(at), ends(self.counts[at])
        return replace(self, indptr=indptr, indices=self.indices[inside], data=self.data[inside])

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """The places of these rows' values, row after row."""
        counts = self.counts[rows]
        first = np.repeat(self.indptr[:-1][rows] - ends(counts)[:-1], counts)
        return np.asarray(first + np.arange(len(first)))

    @property
    def row_numbers(self) -> np.ndarray:
        """The row that each value is in."""
        return np.repeat(np.arange(len(self)), self.counts)

    def square_lengths(self) -> np.ndarray:
        """|x|^2 of every row, float64, summed from the first column to the last."""
        squares = np.square(self.data, dtype=np.float64)
        return np.bincount(self.row_numbers, squares, minlength=len(self))

    def matrix(self) -> sparse.csr_array:
        """The same arrays as scipy has them: indptr and indices keep their types."""
        made = sparse.csr_array((len(self), self.width), dtype=self.data.dtype)
        made.data, made.indices, made.indptr = self.data, self.indices, self.indptr
        made.has_canonical_format = True
        return made

    def dense(self) -> np.ndarray:
        X = np.zeros((len(self), self.width), np.float32)
        X[self.row_numbers, self.indices] = self.data
        return X


def ends(counts: np.ndarray) -> np.ndarray:
    """indptr of rows with so many values each."""
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def of_entries(
    lists: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], shape: tuple[int, int]
) -> Csr:
    """Rows of lists of entries: row, column, value. Of each row, columns rise as entries come."""
    number, columns, values = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    order = np.argsort(number, kind="stable")
    n, width = shape
    return Csr(
        indptr=ends(np.bincount(number, minlength=n)),
        indices=columns[order].astype(np.int32),
        data=values[order].astype(np.float32),
        width=width,
    )


def stacked(parts: Sequence[Csr], width: int) -> Csr:
    """Rows one under another."""
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    return Csr(
        indptr=ends(counts),
        indices=np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
        data=np.concatenate([np.zeros(0, np.float32), *(part.data for part in parts)]),
        width=width,
    )
