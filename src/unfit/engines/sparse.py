"""The engine of sparse rows on one machine: numba kernels on all its cores, no d x d array.

Keeps a reference to the caller's arrays, and the same numbers once more in the order of columns.
Sums are float64's. What was evaluated last (values, gradients, and the curvature of every row) is
kept: when rows leave, sums at the same weights are those less the sums of these rows, without a
pass over the others. Nothing of it is in a pickle. May know core.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from unfit.core.by_products import Systems
from unfit.core.conjugate_gradients import Guide, Offer, Solved, lengths, unguided
from unfit.core.deflation import Basis, Deflated
from unfit.core.factors import Factor
from unfit.core.hot_columns import OneSystem
from unfit.core.objective import Products, Rows
from unfit.core.penalty import Ridge
from unfit.core.sparse_rows import SparseRows, sparse_rows
from unfit.core.sparse_sums import Evaluation, SparseMatrix
from unfit.engines.base import Engine
from unfit.errors import Unavailable

# A solution is accepted when its residual r is below one of these: 1e-11 of the right-hand side, or
# 1e-9 ridge |w|. Since the Hessian is at least ridge I, the step is then right to |r| / ridge, 1e-9
# of the weights it is added to.
PRECISION, OF_WEIGHTS = 1e-11, 1e-9
MOST_PRODUCTS = 2000
_FEW = 0.25  # of the rows that were evaluated, may have left since: beyond, a pass is as cheap
ALIKE = 0.1  # of curvatures and ridge, that may have changed since a guide was made
NO_HESSIAN = (
    "sparse rows have no Hessian of columns times columns: it would have {d:,} x {d:,} numbers; "
    "use its products (value_gradient_products), or dense rows"
)


@dataclass(frozen=True, eq=False)
class _Known:
    """What was evaluated last: at which weights, over which rows."""

    weights: np.ndarray
    mask: np.ndarray
    found: Evaluation

    def covers(self, W: np.ndarray, keep: np.ndarray) -> bool:
        """Whether all but a few of its rows are kept, and no others, at its weights."""
        if not _same(self.weights, W) or (keep & ~self.mask).any():
            return False
        left = np.count_nonzero(self.mask) - np.count_nonzero(keep)
        return bool(left <= _FEW * len(keep))

    def cleared(self, rows: np.ndarray, empty: np.ndarray) -> "_Known | None":
        """The same with nothing of these rows, or None where they are in its sums. In columns that
        are empty now, a rest of weight would show that somebody had been there."""
        if self.mask[rows].any():
            return None
        weights, gradients = self.weights.copy(), self.found.gradients.copy()
        weights[:, empty] = gradients[:, empty] = 0.0
        return _Known(weights, self.mask, replace(self.found, gradients=gradients))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ahead:
    """Margins of one problem at weights that nobody asked for yet: those a step leads to."""

    weights: np.ndarray
    mask: np.ndarray
    margins: np.ndarray

    def covers(self, W: np.ndarray, keep: np.ndarray) -> bool:
        return _same(self.weights, W) and not (keep & ~self.mask).any()


@dataclass(frozen=True, eq=False, kw_only=True)
class _KeptGuide:
    """A guide, with the curvatures and the ridge of the Hessians it was made for."""

    curvatures: np.ndarray
    ridge: float
    guide: Deflated

    def serves(self, curvatures: np.ndarray, ridge: float) -> bool:
        """Whether Hessians with these differ so little that it leads there too."""
        if curvatures is self.curvatures and ridge == self.ridge:
            return True
        if curvatures.shape != self.curvatures.shape or abs(ridge - self.ridge) > ALIKE * ridge:
            return False
        change = np.abs(curvatures - self.curvatures).sum(axis=0)
        return bool((change <= ALIKE * self.curvatures.sum(axis=0)).all())


class ProductsOnly(Engine):
    """An engine of sparse rows: what a d x d matrix would answer is refused."""

    takes_sparse: ClassVar[bool] = True
    forms_hessian: ClassVar[bool] = False
    carries_sums: ClassVar[bool] = True

    def wide(self, mask: np.ndarray | None = None) -> bool:
        return True

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        raise Unavailable(NO_HESSIAN.format(d=self.d))

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray:
        raise Unavailable(NO_HESSIAN.format(d=self.d))

    def sums_of(self, W: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise Unavailable(NO_HESSIAN.format(d=self.d))


class SparseEngine(ProductsOnly):
    """SparseRows of float32 or float64 with class codes (n,) in 0 .. n_classes - 1."""

    name = "sparse"
    takes_sample_weight: ClassVar[bool] = True

    def __init__(self, rows: Rows, n_classes: int) -> None:
        if not isinstance(rows, SparseRows):
            raise Unavailable(
                "The engine 'sparse' holds sparse rows and these are dense; give a scipy.sparse "
                "matrix, or use another engine."
            )
        super().__init__(rows, n_classes)
        self._matrix = SparseMatrix(rows)
        # Kept apart, so that a deletion on trial does not change what the next one starts from.
        self._at_model: _Known | None = None  # of the rows that remain, when they were asked for
        self._on_trial: _Known | None = None  # of a mask
        self._last: Evaluation | None = None  # whatever was asked for last
        self._ahead: _Ahead | None = None  # where the step that was solved for last leads
        self._guide: _KeptGuide | None = None  # whatever was made last
        self._values_in_columns: np.ndarray | None = None  # of the rows that remain; when asked for

    @property
    def rows(self) -> SparseRows:
        return self._matrix.rows

    def copied(self) -> Self:
        other = self.shared()
        other._matrix = SparseMatrix(self.rows.copied())
        other.codes, other.sample_weight = other.rows.codes, other.rows.sample_weight
        return other

    def miniature(self, n: int) -> Engine:
        rng = np.random.default_rng(0)
        classes, p = 2 if self.k == 1 else 3, min(self.d - self.intercept, 64)
        X = sparse.random_array((n, p), density=0.5, rng=rng, dtype=self.dtype, format="csr")
        codes = np.arange(n, dtype=self.codes.dtype) % classes
        like = Rows(np.zeros((0, p)), codes, self.intercept, self.loss)
        return SparseEngine(sparse_rows(X, like), classes)

    @property
    def compiled_for(self) -> Hashable:
        return super().compiled_for, self.rows.indices.dtype

    def forget(self, rows: np.ndarray) -> None:
        if self._values_in_columns is not None:
            columns, values = self.rows.columns_of(rows)
            self._values_in_columns = self._values_in_columns.copy()
            self._values_in_columns[columns] -= values
        super().forget(rows)

    def erase(self, rows: np.ndarray) -> None:
        """Besides what was copied, whatever was computed with them in it.

        The directions of the guide stay but for the columns that nobody has a value in any more.
        """
        super().erase(rows)
        counts = self._values_in_columns
        empty = None if counts is None else np.flatnonzero(counts == 0)
        self._matrix.erase(rows, empty)
        known = self._at_model, self._on_trial
        self._at_model = self._on_trial = self._last = self._ahead = self._guide = None
        if empty is not None:
            self._at_model, self._on_trial = (k and k.cleared(rows, empty) for k in known)

    def emptied_columns(self, rows: np.ndarray) -> np.ndarray:
        if self._values_in_columns is None:
            self._values_in_columns = self.rows.values_in_columns(self.remaining)
        columns, values = self.rows.columns_of(rows)
        return np.asarray(columns[self._values_in_columns[columns] == values])

    def take(self, rows: np.ndarray) -> SparseRows:
        return self.rows.take(rows)

    def margins(self, W: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.take(rows).margins(W)

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self._evaluated(W, mask).found
        return found.values.copy(), found.gradients.copy()

    def measured_gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Kept for what follows, in the place of what was carried along."""
        keep = self.remaining if mask is None else mask
        self._last = self._measured(W, keep, None, on_trial=mask is not None).found
        return self._last.gradients.copy()

    def value_gradient_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Products]:
        known = self._evaluated(W, mask)
        return known.found.values.copy(), known.found.gradients.copy(), _Sums(self, known)

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: Ridge) -> Sequence[Factor]:
        known = self._evaluated(W, mask)
        curvatures = known.found.curvatures
        basis, products = self._matrix.basis, _Sums(self, known)

        def regularised(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            return np.asarray(products(problems, V) + ridge * V)

        systems = Systems(
            products=regularised,
            guide=unguided if basis is None else basis.guide(curvatures, _number(ridge)),
            precision=PRECISION,
            most=MOST_PRODUCTS,
            dtype=np.dtype(np.float64),
            enough=self._enough(ridge, W),
        )
        return systems.factors(self.k)

    def guide(self, mask: np.ndarray | None, ridge: Ridge) -> Guide | None:
        return self._fresh_guide(ridge) if self._matrix.has_basis else None

    def offer(self, mask: np.ndarray | None, ridge: Ridge) -> Offer | None:
        products = self._matrix.products_per_basis(self.k)
        return (
            None
            if products is None
            else Offer(make=lambda W: self._fresh_guide(ridge), products=products)
        )

    def regularised(self, products: Products, ridge: Ridge) -> Products:
        if isinstance(products, _Sums):
            return _Regularised(products, ridge)
        return super().regularised(products, ridge)

    def _fresh_guide(self, ridge: Ridge) -> "_FreshGuide":
        basis = self._matrix.basis
        assert basis is not None
        return _FreshGuide(self, basis, _number(ridge))

    def _enough(self, ridge: Ridge, W: np.ndarray) -> np.ndarray | None:
        """Residuals that are small beside the ridge; None where not all columns have it."""
        if isinstance(ridge, np.ndarray):
            return None
        return np.asarray(OF_WEIGHTS * ridge * np.linalg.norm(W, axis=1))

    def _evaluated(self, W: np.ndarray, mask: np.ndarray | None) -> _Known:
        known = self._found(W, mask)
        self._last = known.found
        return known

    def _found(self, W: np.ndarray, mask: np.ndarray | None) -> _Known:
        """Everything at W: without a pass where it is known but for a few rows that have left."""
        keep = self.remaining if mask is None else mask
        for known in (self._at_model, self._on_trial):
            if known is not None and known.covers(W, keep) and self._outweighs(keep, known.mask):
                return self._less(known, keep)
        ahead, self._ahead = self._ahead, None
        margins = ahead.margins if ahead is not None and ahead.covers(W, keep) else None
        return self._measured(W, keep, margins, on_trial=mask is not None)

    def _measured(
        self, W: np.ndarray, keep: np.ndarray, margins: np.ndarray | None, *, on_trial: bool
    ) -> _Known:
        """By a pass, which is counted and kept. margins: there, if they are known."""
        self.rows_read += int(np.count_nonzero(keep))
        found = self._matrix.evaluate(W, self._weights(keep), margins)
        known = _Known(W.copy(), keep.copy(), found)
        if on_trial:
            self._on_trial = known
        else:
            self._at_model = known
        return known

    def _outweighs(self, keep: np.ndarray, among: np.ndarray) -> bool:
        """Whether rows have as much weight as the others among some: beside heavier ones, what is
        left of a difference is rounding."""
        weight = self.sample_weight
        return weight is None or bool(weight[keep].sum() >= weight[among & ~keep].sum())

    def _weights(self, keep: np.ndarray) -> np.ndarray | None:
        """How much each row counts: 0 for those left out; None where all count once."""
        if self.sample_weight is not None:
            return np.asarray(keep * self.sample_weight)
        return None if keep.all() else keep.astype(np.float64)

    def _less(self, known: _Known, keep: np.ndarray) -> _Known:
        gone = np.flatnonzero(known.mask & ~keep)
        if gone.size == 0:
            return known
        found = known.found.without(self.take(gone), gone, known.weights)
        return _Known(known.weights, keep.copy(), found)


@dataclass(frozen=True, eq=False)
class _FreshGuide:
    """A guide for the Hessians that were evaluated last, or for some that are about the same."""

    engine: SparseEngine
    basis: Basis
    ridge: float

    def current(self) -> Deflated:
        engine, kept = self.engine, self.engine._guide
        assert engine._last is not None
        curvatures = engine._last.curvatures
        if kept is None or not kept.serves(curvatures, self.ridge):
            made = self.basis.guide(curvatures, self.ridge)
            kept = engine._guide = _KeptGuide(curvatures=curvatures, ridge=self.ridge, guide=made)
        return kept.guide

    def __call__(self, problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return self.current()(problems, vectors)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Products with the Hessian sums of an evaluation."""

    engine: SparseEngine
    known: _Known

    def __call__(self, problems: np.ndarray, V: np.ndarray) -> np.ndarray:
        self.engine.rows_read += len(self.engine)  # those that have left too, with weight 0
        return self.engine._matrix.products(self.known.found.curvatures, problems, V)


@dataclass(frozen=True, eq=False)
class _Regularised:
    """The same plus the ridge; one problem is solved in one go."""

    sums: _Sums
    ridge: Ridge

    def __call__(self, problems: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.asarray(self.sums(problems, V) + self.ridge * V)

    def solve(
        self, guide: Products, rhs: np.ndarray, precision: np.ndarray, most: int
    ) -> Solved | None:
        engine = self.sums.engine
        if isinstance(self.ridge, np.ndarray) or not engine._matrix.in_one_reading(len(rhs)):
            return None
        if guide is unguided:
            chosen = np.zeros((0, engine.d), np.float32), np.zeros((0, 0)), 1.0
        elif isinstance(guide, _FreshGuide):
            chosen = guide.current().of(0)
        else:
            return None
        known = self.sums.known
        system = OneSystem(
            curvatures=known.found.curvatures,
            problem=0,
            ridge=float(self.ridge),
            guide=chosen,
            margins=known.found.margins,
        )
        # not by BLAS, whose threads would wait beside ours
        enough = float(precision[0] * lengths(rhs)[0])
        solved, margins = engine._matrix.hot_columns.solve(system, rhs, enough, most)
        engine.rows_read += solved.products * len(engine)
        if margins is not None and solved.products:
            whither = known.weights - solved.x
            engine._ahead = _Ahead(weights=whither, mask=known.mask, margins=margins)
        return solved


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether weights are the same; others differ, as a rule, in the first few already."""
    few = np.s_[..., :16]
    return np.array_equal(one[few], other[few]) and np.array_equal(one, other)


def _number(ridge: Ridge) -> float:
    """For a guide, which need not know of an intercept without a penalty."""
    return float(np.max(ridge))
