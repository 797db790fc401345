"""Sums over sparse rows, for all problems together: values, gradients, products with Hessians.

For several vectors the rows are held twice, by rows and by columns, so that both X V and X^T U are
gathered and nothing is scattered: one reading of each makes a gradient with its curvatures, or
products with as many Hessians as there are vectors. One vector needs the rows alone, read once,
where a result for each thread is small beside them (core.hot_columns). Knows core.sparse_rows,
core.hot_columns and core.kernels.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unfit.core.deflation import FEWEST, MORE, MOST, PRODUCTS, Basis
from unfit.core.hot_columns import HotColumns
from unfit.core.kernels.parallel import run_threads
from unfit.core.kernels.sparse import (
    LANES,
    Compressed,
    Share,
    count_columns,
    fill_transpose,
    from_table,
    gather_rows,
    margins_and_losses,
    padded,
    weighted_margins,
)
from unfit.core.objective import positive_codes
from unfit.core.sparse_rows import (
    SMALL_INDEX,
    SparseRows,
    in_shares,
    shares_of,
    threads_for,
    to_columns,
)

_SMALL = 0.25  # of the bytes of the rows, that results of single threads may take
_LARGE = 1 << 28  # bytes of rows, of which no transpose is made for a basis alone
_MAKING = 8.0  # products of one vector, that the transpose and orthogonal directions cost


@dataclass(frozen=True)
class Transpose:
    """Columns of sparse rows: the same numbers once more, in the order of columns."""

    indptr: np.ndarray
    rows: np.ndarray
    data: np.ndarray

    @classmethod
    def of(cls, rows: SparseRows) -> "Transpose":
        (n, p), nnz = rows.shape, rows.data.size
        indptr = np.zeros(p + 1, np.int64)
        count_columns(rows.indices, indptr[1:])
        np.cumsum(indptr, out=indptr)
        short = np.int32 if n < SMALL_INDEX else np.int64
        of_rows, data = np.empty(nnz, short), np.empty(nnz, rows.data.dtype)
        fill_transpose(rows.compressed, (indptr[:-1].copy(), of_rows, data))
        return cls(indptr, of_rows, data)

    @property
    def compressed(self) -> Compressed:
        return self.indptr, self.rows, self.data

    @property
    def nbytes(self) -> int:
        return int(self.indptr.nbytes + self.rows.nbytes + self.data.nbytes)


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Sparse rows and their transpose, for sums over all rows; one is made for many sums."""

    rows: SparseRows

    @cached_property
    def transpose(self) -> Transpose:
        return Transpose.of(self.rows)

    @cached_property
    def hot_columns(self) -> HotColumns:
        return HotColumns.of(self.rows)

    def erase(self, rows: np.ndarray, empty: np.ndarray | None = None) -> None:
        """Zero what was copied of rows: their columns, their values, and their own numbers.

        empty: columns in which nobody has a value any more, of which directions must not tell; None
        where that is not known, so that the directions are dropped.
        """
        if len(rows) == 0:
            return
        if empty is None:
            self.__dict__.pop("basis", None)
        elif (basis := self.__dict__.get("basis")) is not None:
            basis.erase(rows, empty)
        if "hot_columns" in self.__dict__:
            self.hot_columns.erase(rows)
        if not self._has_transpose:
            return
        gone = np.zeros(len(self.rows), np.bool_)
        gone[rows] = True
        inside = gone[self.transpose.rows]
        self.transpose.rows[inside] = self.transpose.data[inside] = 0

    @property
    def has_basis(self) -> bool:
        """Whether the directions of the guide were made."""
        return self.__dict__.get("basis") is not None

    @cached_property
    def basis(self) -> Basis | None:
        """Directions in which the rows are long; None where they would take too much memory."""
        r = self._directions
        if r < FEWEST:
            return None
        ones = np.ones((len(self.rows), 1))
        one_by_one = self._one_by_one
        matrix = self if one_by_one or self._has_transpose else SparseMatrix(self.rows)  # it goes

        def gram(V: np.ndarray) -> np.ndarray:
            if one_by_one:
                hot, short = self.hot_columns, V.astype(np.float32)
                return np.array([hot.product(ones, 0, v) for v in short])
            parts = [V[at : at + self._at_once] for at in range(0, len(V), self._at_once)]
            none = np.zeros(len(V), np.int64)
            return np.concatenate([matrix.products(ones, none[: len(v)], v) for v in parts])

        def components(V: np.ndarray) -> np.ndarray:
            found = np.empty((len(self.rows), len(V)), np.float32)
            for at in range(0, len(V), self._at_once):
                part = slice(at, at + self._at_once)
                found[:, part] = self.rows.margins(V[part])
            return found

        return Basis.of(gram, components, self.rows.d, r)

    @property
    def _has_transpose(self) -> bool:
        return "transpose" in self.__dict__

    @property
    def _one_by_one(self) -> bool:
        """Whether vectors of a basis are multiplied one at a time: a transpose of large rows, made
        for a basis alone, would take more memory than all else and longer than the products."""
        large = self.rows.nbytes > _LARGE and not self._has_transpose
        return large and self.in_one_reading(1)

    @property
    def _directions(self) -> int:
        """As many as take an eighth of the memory of the rows."""
        most = self.rows.nbytes // (8 * 4 * max(1, self.rows.d, len(self.rows)))
        return int(min(MOST, most))

    @property
    def _at_once(self) -> int:
        """Vectors whose margins take an eighth of the memory of the rows."""
        most = self.rows.nbytes // (8 * 8 * max(1, len(self.rows)))
        return int(max(LANES, most // LANES * LANES))

    def products_per_basis(self, k: int) -> int | None:
        """How many products of k problems cost as much as the basis; None where there is none."""
        if self._directions < FEWEST:
            return None
        vectors = self._directions + MORE
        if k == 1 and self._one_by_one:
            return PRODUCTS * vectors
        blocks = PRODUCTS * math.ceil(vectors / self._at_once) * _cost(min(vectors, self._at_once))
        return math.ceil((blocks + _MAKING) / _cost(k))

    def evaluate(
        self, W: np.ndarray, weights: np.ndarray | None = None, margins: np.ndarray | None = None
    ) -> "Evaluation":
        """Values, gradients and curvatures at W (k, d); weights (n,): 0 leaves a row out.

        Rows are read once, and so is their transpose if that is needed. margins (n,): of one
        problem, if they are known; they become part of what is found.
        """
        if self.in_one_reading(len(W)):
            return self._evaluate_one(W, weights, margins)
        rows, (k, _) = self.rows, W.shape
        curvatures = np.empty((len(rows), k))
        weighing = np.zeros(0) if weights is None else weights
        shares, loss = shares_of(rows.indptr, k), rows.loss.compiled
        values = np.zeros((len(shares), k))
        table, slopes = self._memory(k)
        labels = rows.codes, weighing
        problems = positive_codes(k), to_columns(W, table), rows.intercept

        def body(t: int) -> None:
            totals = values[t], slopes, curvatures
            margins_and_losses(rows.compressed, labels, loss, problems, totals, shares[t])

        run_threads(body, len(shares))
        return Evaluation(values.sum(axis=0), self._combined(slopes, k, table), curvatures)

    def products(self, curvatures: np.ndarray, problems: np.ndarray, V: np.ndarray) -> np.ndarray:
        """sum curvature x (x.v) of the named problem of each vector of V (j, d): one reading of the
        rows and one of their transpose for all of them, or of the rows alone for one."""
        if self.in_one_reading(len(V)):
            return self._product_of_one(curvatures, int(problems[0]), V)
        rows, j = self.rows, len(V)
        weights = curvatures, np.asarray(problems, np.int64)
        table, between = self._memory(j)
        side_by_side = to_columns(V, table)

        def weigh(part: Share) -> None:
            weighted_margins(rows.compressed, weights, side_by_side, rows.intercept, between, part)

        in_shares(rows.indptr, j, weigh)
        return self._combined(between, j, table)

    def _memory(self, vectors: int) -> tuple[np.ndarray, np.ndarray]:
        """A table (d, width), and numbers of rows (n, width), to work in."""
        width = padded(vectors)
        return np.empty((self.rows.d, width)), np.empty((len(self.rows), width))

    def in_one_reading(self, vectors: int) -> bool:
        """Whether every thread has a result of its own, which is small beside the rows.

        Not where the transpose was made for several problems, of which one is left: it serves, and
        no second copy of the indices is made.
        """
        if vectors != 1 or (self._has_transpose and "hot_columns" not in self.__dict__):
            return False
        results = threads_for(self.rows.indptr, 1) * self.rows.d * 16
        return results <= _SMALL * self.rows.nbytes

    def _evaluate_one(
        self, W: np.ndarray, weights: np.ndarray | None, margins: np.ndarray | None
    ) -> "Evaluation":
        w = np.ascontiguousarray(W[0], dtype=np.float64)
        one = self.hot_columns.value_gradient(w, weights, margins)
        return Evaluation(np.array([one.value]), one.gradient[None], one.curvatures, one.margins)

    def _product_of_one(self, curvatures: np.ndarray, problem: int, V: np.ndarray) -> np.ndarray:
        v = np.ascontiguousarray(V[0])
        return self.hot_columns.product(curvatures, problem, v)[None]

    def _combined(self, weights: np.ndarray, j: int, table: np.ndarray) -> np.ndarray:
        """sum weight x for each of the first j columns of weights (n, width), (j, d).

        table (d, width): memory to work in.
        """
        columns, p = self.transpose, self.rows.shape[1]
        out = np.empty((j, self.rows.d))

        def combine(part: Share) -> None:
            gather_rows(columns.compressed, weights, table, part)
            from_table(table, out, part)

        in_shares(columns.indptr, j, combine)
        if self.rows.intercept:
            out[:, p] = weights[:, :j].sum(axis=0)
        return out


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Data terms at some weights: values (k,), gradients (k, d), curvatures (n, k).

    margins (n,): of one problem, where its rows are read once; 0 of rows without weight.
    """

    values: np.ndarray
    gradients: np.ndarray
    curvatures: np.ndarray
    margins: np.ndarray | None = None

    def without(self, rows: SparseRows, places: np.ndarray, W: np.ndarray) -> "Evaluation":
        """At the same weights W without some rows, which are at these places; no pass."""
        values, gradients = rows.value_gradient(W)
        curvatures, margins = self.curvatures.copy(), None
        curvatures[places] = 0.0
        if self.margins is not None:
            margins = self.margins.copy()
            margins[places] = 0.0
        left = self.values - values, self.gradients - gradients
        return Evaluation(*left, curvatures, margins)


def _cost(vectors: int) -> float:
    """Of a product with so many vectors, in products with one; as measured on 20 Newsgroups."""
    return 1.0 if vectors == 1 else 2.2 + vectors / 12
