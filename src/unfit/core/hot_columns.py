"""Sparse rows for sums with one vector: columns in the order of how many rows have them.

A sum visits the columns of each row wherever they are. Where a few columns have most of the values,
as words and hashed fields do, these then share a few cache lines. Rows of which all values are the
same, as one-hot rows of length 1 are, are read without their values. Kept besides the rows: their
indices, numbered anew, with 16 bits where that is enough. Knows core.sparse_rows,
core.conjugate_gradients and core.kernels.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.conjugate_gradients import Solved, lengths
from unfit.core.kernels.parallel import available_threads, new_meeting, run_threads
from unfit.core.kernels.sparse import count_columns
from unfit.core.kernels.sparse_pairs import (
    Stored,
    add_product,
    add_value_gradient,
    collect,
    fill,
    relabel,
    values_of_rows,
)
from unfit.core.kernels.sparse_solve import COMPONENTS, Guide, solve_one
from unfit.core.objective import positive_codes
from unfit.core.sparse_rows import SMALL_INDEX, SparseRows, shares_of

_SHORT = 1 << 16


@dataclass(frozen=True, eq=False, kw_only=True)
class OneSystem:
    """H = X^T D X + ridge I of one problem: curvatures (n, k) and which of them; its guide."""

    curvatures: np.ndarray
    problem: int
    ridge: float
    guide: Guide


@dataclass(frozen=True, eq=False)
class HotColumns:
    """The rows; the place of each column (p,); indices by places; values, or one for each row."""

    rows: SparseRows
    places: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    alike: bool

    @classmethod
    def of(cls, rows: SparseRows) -> "HotColumns":
        n, p = rows.shape
        counts = np.zeros(p, np.int64)
        count_columns(rows.indices, counts)
        # By powers of two, and otherwise as they were, so that vectors are copied nearly in order.
        order = np.argsort(-np.frexp(counts)[1], kind="stable")
        places = np.empty(p, np.int32 if p < SMALL_INDEX else np.int64)
        places[order] = np.arange(p)
        indices = np.empty(rows.indices.size, np.uint16 if p <= _SHORT else places.dtype)
        threads, size = available_threads(), indices.size
        shares = [(size * t // threads, size * (t + 1) // threads) for t in range(threads)]
        run_threads(lambda t: relabel(rows.indices, places, indices, shares[t]), threads)
        of_rows = np.empty(n, rows.data.dtype)
        alike = bool(values_of_rows(rows.indptr, rows.data, of_rows))
        return cls(rows, places, indices, of_rows if alike else rows.data, alike)

    @property
    def stored(self) -> Stored:
        return self.rows.indptr, self.indices, self.data, self.alike

    def erase(self, rows: np.ndarray) -> None:
        """Zero what is kept here of rows that have left."""
        indptr = self.rows.indptr
        starts, counts = indptr[rows], np.diff(indptr)[rows]
        ends = np.cumsum(counts)
        self.indices[np.arange(counts.sum()) + np.repeat(starts - (ends - counts), counts)] = 0
        if self.alike:
            self.data[rows] = 0

    def product(self, curvatures: np.ndarray, problem: int, v: np.ndarray) -> np.ndarray:
        """sum curvature x (x.v) of a problem, (d,), by one reading of the rows; v (d,) of float32
        is summed in that precision."""
        rows, shares = self.rows, shares_of(self.rows.indptr, 1)
        tables = np.empty((len(shares), 2 * rows.d), v.dtype)

        def body(t: int) -> None:
            fill(v, self.places, tables[t])
            add_product(self.stored, (curvatures, problem), tables[t], rows.intercept, shares[t])

        run_threads(body, len(shares))
        return self._collected(tables)

    def value_gradient(
        self, w: np.ndarray, weights: np.ndarray | None
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The value, gradient (d,) and curvatures (n, 1) at w (d,); weights (n,) of the rows."""
        rows, shares = self.rows, shares_of(self.rows.indptr, 1)
        values, tables = np.zeros((len(shares), 1)), np.empty((len(shares), 2 * rows.d))
        curvatures = np.empty((len(rows), 1))
        labels = rows.codes, np.zeros(0) if weights is None else weights
        positive, loss = int(positive_codes(1)[0]), rows.loss.compiled

        def body(t: int) -> None:
            fill(w, self.places, tables[t])
            problem = positive, tables[t], rows.intercept
            totals = values[t], curvatures
            add_value_gradient(self.stored, labels, loss, problem, totals, shares[t])

        run_threads(body, len(shares))
        return float(values.sum()), self._collected(tables), curvatures

    def solve(self, system: "OneSystem", rhs: np.ndarray, enough: float, most: int) -> Solved:
        """x (1, d) with |rhs - H x| <= enough by conjugate gradients, at most so many products."""
        if lengths(rhs)[0] <= enough:
            return Solved(x=np.zeros(rhs.shape), left=np.array(rhs), products=0)
        rows, shares = self.rows, shares_of(self.rows.indptr, 1)
        threads, d = len(shares), rows.d
        vectors = np.zeros(d), np.array(rhs[0], dtype=np.float64), np.zeros(d), np.empty(d)
        tables = np.empty((threads, 2 * d))
        whole = (
            system.curvatures,
            system.problem,
            system.ridge,
            rows.intercept,
            self.places,
        )
        line = -(-(COMPONENTS + len(system.guide[0])) // 8) * 8
        shared = new_meeting(), np.zeros((threads, line)), np.zeros(2, np.int64)

        def body(t: int) -> None:
            columns = d * t // threads, d * (t + 1) // threads
            thread = t, tables, shares[t], columns, enough**2, most
            solve_one(self.stored, whole, system.guide, vectors, shared, thread)

        run_threads(body, threads, shared[0])
        taken, indefinite = shared[2].tolist()
        return Solved(
            x=vectors[0][None], left=vectors[1][None], products=taken, indefinite=bool(indefinite)
        )

    def _collected(self, tables: np.ndarray) -> np.ndarray:
        out = np.empty(self.rows.d)
        collect(tables, self.places, out)
        return out
