"""Sparse rows for sums with one vector: columns in the order of how many rows have them.

A sum visits the columns of each row wherever they are. Where a few columns have most of the values,
as words and hashed fields do, these then share a few cache lines. Rows of which all values are the
same, as one-hot rows of length 1 are, are read without their values, and their rarest columns last.
Kept besides the rows: their indices, numbered anew, with 16 bits where that is enough. Knows
core.sparse_rows, core.conjugate_gradients and core.kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from unfit.core.conjugate_gradients import Solved, lengths
from unfit.core.kernels.pairs_of_columns import RAREST, collect, fill
from unfit.core.kernels.parallel import new_meeting, run_threads
from unfit.core.kernels.sparse import count_columns
from unfit.core.kernels.sparse_pairs import (
    Stored,
    add_product,
    add_value_gradient,
    relabel,
    relabel_rarest_last,
    values_of_rows,
)
from unfit.core.kernels.sparse_solve import COMPONENTS, Carried, Guide, Vectors, solve_one
from unfit.core.objective import positive_codes
from unfit.core.sparse_rows import SMALL_INDEX, SparseRows, shares_of

_SHORT = 1 << 16
_WORTH_A_THREAD = 1 << 17  # columns
_IN_CACHE, _IN_LAST_CACHE = 1 << 15, 1 << 19  # columns of a table
_LONG = 64  # values of a row
_COUNTED, _BLOCK = 1 << 24, 1 << 15  # values that say which columns are common


@dataclass(frozen=True, eq=False, kw_only=True)
class OneSystem:
    """H = X^T D X + ridge I of one problem: curvatures (n, k) and which of them; its guide.

    margins (n,): where the solution is to be subtracted from some weights, those there.
    """

    curvatures: np.ndarray
    problem: int
    ridge: float
    guide: Guide
    margins: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class OneEvaluation:
    """The data terms of one problem: value, gradient (d,), curvatures (n, 1) and margins (n,)."""

    value: float
    gradient: np.ndarray
    curvatures: np.ndarray
    margins: np.ndarray


@dataclass(frozen=True, eq=False)
class HotColumns:
    """The rows; the place of each column (p,); values, or one for each row; and indices by places,
    twice of them where they have more than 16 bits (kernels.pairs_of_columns)."""

    rows: SparseRows
    places: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    alike: bool
    _tables: list[np.ndarray] = field(default_factory=list)  # that nobody uses at the moment

    @classmethod
    def of(cls, rows: SparseRows) -> "HotColumns":
        n, p = rows.shape
        # By powers of two, and otherwise as they were, so that vectors are copied nearly in order.
        order = np.argsort(-np.frexp(_frequencies(rows))[1], kind="stable")
        places = np.empty(p, np.int32 if p < SMALL_INDEX else np.int64)
        places[order] = np.arange(p)
        wide = np.uint32 if p < SMALL_INDEX else np.uint64
        indices = np.empty(rows.indices.size, np.uint16 if p <= _SHORT else wide)
        of_rows, shares = np.empty(n, rows.data.dtype), shares_of(rows.indptr, 1)
        same = np.zeros(len(shares), np.bool_)

        def compare(t: int) -> None:
            same[t] = values_of_rows(rows.indptr, rows.data, of_rows, shares[t])

        def number(t: int) -> None:
            if same.all():
                relabel_rarest_last(rows.indptr, rows.indices, places, indices, shares[t])
            else:
                part = rows.indptr[shares[t][0]], rows.indptr[shares[t][1]]
                relabel(rows.indices, places, indices, part)

        run_threads(compare, len(shares))
        run_threads(number, len(shares))
        alike = bool(same.all())
        return cls(rows, places, indices, of_rows if alike else rows.data, alike)

    @property
    def stored(self) -> Stored:
        return self.rows.indptr, self.indices, self.data, self.alike, self._asks

    @property
    def _asks(self) -> bool:
        """Whether cache lines are asked for ahead. Where values differ, rare columns stand anywhere
        in a row: all are asked for, which pays where the last cache does not have them either, and
        where rows are too short to wait for several columns at once."""
        if self.alike:
            return self.rows.d > _IN_CACHE and self.indices.size >= RAREST
        short = RAREST <= self.indices.size < _LONG * len(self.rows)
        return self.rows.d > _IN_LAST_CACHE and short

    def erase(self, rows: np.ndarray) -> None:
        """Zero what is kept here of rows that have left, and drop tables of earlier sums."""
        self._tables.clear()
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
        weights, nowhere = (curvatures, problem), np.zeros(0)
        with self._borrowed(len(shares), v.dtype) as tables:

            def body(t: int) -> None:
                fill(v, self.places, tables[t])
                add_product(self.stored, weights, tables[t], rows.intercept, nowhere, shares[t])

            run_threads(body, len(shares))
            return self._collected(tables)

    def value_gradient(
        self, w: np.ndarray, weights: np.ndarray | None, margins: np.ndarray | None = None
    ) -> OneEvaluation:
        """At w (d,); weights (n,) of the rows; margins (n,) there, if they are known, which saves
        half of the work, and which become part of the result."""
        rows, shares = self.rows, shares_of(self.rows.indptr, 1)
        known, values = margins is not None, np.zeros((len(shares), 1))
        found = np.empty(len(rows)) if margins is None else margins
        curvatures = np.empty((len(rows), 1))
        labels = rows.codes, np.zeros(0) if weights is None else weights
        positive, loss = int(positive_codes(1)[0]), rows.loss.compiled
        with self._borrowed(len(shares), np.dtype(np.float64)) as tables:

            def body(t: int) -> None:
                fill(w, self.places, tables[t])
                problem = positive, tables[t], rows.intercept, known
                totals = values[t], curvatures, found
                add_value_gradient(self.stored, labels, loss, problem, totals, shares[t])

            run_threads(body, len(shares))
            gradient = self._collected(tables)
        return OneEvaluation(
            value=float(values.sum()), gradient=gradient, curvatures=curvatures, margins=found
        )

    def solve(
        self, system: "OneSystem", rhs: np.ndarray, enough: float, most: int
    ) -> tuple[Solved, np.ndarray | None]:
        """x (1, d) with |rhs - H x| <= enough by conjugate gradients, at most so many products.

        Besides, the margins of the system less X x, which are those where x is subtracted.
        """
        if lengths(rhs)[0] <= enough:
            return Solved(x=np.zeros(rhs.shape), left=np.array(rhs), products=0), system.margins
        shares, d = shares_of(self.rows.indptr, 1), self.rows.d
        vectors = np.zeros(d), np.array(rhs[0], dtype=np.float64), np.zeros(d), np.empty(d)
        carried = np.zeros(0), np.zeros(0)
        if system.margins is not None:
            carried = np.empty(len(self.rows)), system.margins.copy()
        with self._borrowed(len(shares), np.dtype(np.float64)) as tables:
            taken, indefinite = self._solved(system, (vectors, carried), tables, (enough**2, most))
        solved = Solved(
            x=vectors[0][None], left=vectors[1][None], products=taken, indefinite=bool(indefinite)
        )
        return solved, None if system.margins is None else carried[1]

    def _solved(
        self,
        system: OneSystem,
        moved: tuple[Vectors, Carried],
        tables: np.ndarray,
        until: tuple[float, int],
    ) -> tuple[int, int]:
        """Change vectors until they are the solution; products taken, and whether indefinite."""
        rows, shares = self.rows, shares_of(self.rows.indptr, 1)
        threads, d = len(shares), rows.d
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
            thread = t, tables, shares[t], columns, *until
            solve_one(self.stored, whole, system.guide, moved, shared, thread)

        run_threads(body, threads, shared[0])
        taken, indefinite = shared[2].tolist()
        return taken, indefinite

    @contextmanager
    def _borrowed(self, threads: int, dtype: np.dtype) -> Iterator[np.ndarray]:
        """Tables (threads, 2 d) that were used before, where there are: new memory costs a
        fault of every page, which on short rows is a tenth of a pass."""
        shape = threads, 2 * self.rows.d
        try:
            tables = self._tables.pop()
        except IndexError:
            tables = np.empty(shape, dtype)
        if tables.shape != shape or tables.dtype != dtype:
            tables = np.empty(shape, dtype)
        try:
            yield tables
        finally:
            self._tables[:] = [tables]

    def _collected(self, tables: np.ndarray) -> np.ndarray:
        d = self.rows.d
        out, threads = np.empty(d), 1 if d < _WORTH_A_THREAD else len(tables)

        def body(t: int) -> None:
            collect(tables, self.places, out, (d * t // threads, d * (t + 1) // threads))

        run_threads(body, threads)
        return out


def _frequencies(rows: SparseRows) -> np.ndarray:
    """How many values each column has; of many values in some blocks alone, since they put columns
    in an order, and no more."""
    counts, size = np.zeros(rows.shape[1], np.int64), rows.indices.size
    if size <= _COUNTED:
        count_columns(rows.indices, counts)
        return counts
    starts = np.linspace(0, size - _BLOCK, _COUNTED // _BLOCK, dtype=np.int64)
    for start in starts.tolist():
        count_columns(rows.indices[start : start + _BLOCK], counts)
    return counts
