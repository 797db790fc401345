"""The engine of one machine: BLAS over row blocks and numba kernels on all its cores.

Keeps a reference to the caller's array, not a copy; SGD lays one copy out. May know core.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Self

import numpy as np

from unfit.core import deleted_sums, objective, replay, sgd
from unfit.core.class_split import ClassSplit
from unfit.core.dual import WIDE_FROM, Gram
from unfit.core.factors import Factor
from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.columns import emptied, first_witnesses
from unfit.core.kernels.narrow import NARROW
from unfit.core.kernels.parallel import VECTOR
from unfit.core.objective import Products, Rows, longest_square
from unfit.core.packed_rows import PackedRows, Packing
from unfit.core.penalty import Ridge
from unfit.core.sgd import Layout, power_of_two_above
from unfit.core.statistics import Statistics
from unfit.engines.base import Engine

_WORTH_PACKING = 1 << 22  # bytes of rows: fewer are in the cache anyway
_WIDE = 300  # columns of float32 that are too many for the kernels of narrow rows


class CpuEngine(Engine):
    """Rows X (n, p) of float32 or float64 with class codes (n,) in 0 .. n_classes - 1."""

    name = "cpu"
    takes_sample_weight = True

    def __init__(self, rows: Rows, n_classes: int) -> None:
        super().__init__(rows, n_classes)
        self.rows = rows
        self._layout: tuple[np.ndarray, Layout] | None = None
        self._gram: Gram | None = None  # of rows that are fewer than columns
        self._packing: Packing | None = None  # where many passes are to come
        self._witnesses: np.ndarray | None = None  # of each column, a row with a value in it

    def shared(self) -> Self:
        other = super().shared()
        other._layout = None
        if self._witnesses is not None:
            other._witnesses = self._witnesses.copy()
        return other

    def copied(self) -> Self:
        other = self.shared()
        other.rows, other._packing = self.rows.copied(), None
        other.codes, other.sample_weight = other.rows.codes, other.rows.sample_weight
        return other

    def miniature(self, n: int) -> Engine:
        few = super().miniature(n)
        assert isinstance(few, CpuEngine)
        X = few.rows.X[:, :_WIDE].copy()
        X.flags.writeable = self.rows.X.flags.writeable  # they are two kinds to numba
        made = CpuEngine(replace(few.rows, X=X), 2 if few.k == 1 else few.k)
        if self._packing is not None:  # at once, so that both ways of a pass are taken
            made._packing = Packing(passes=2, most=inf)
        return made

    def expect_passes(self) -> None:
        if self.rows.X.nbytes >= _WORTH_PACKING:
            self._packing = Packing()

    @property
    def compiled_for(self) -> Hashable:
        X = self.rows.X
        narrow = X.shape[1] * X.itemsize <= NARROW
        return super().compiled_for, narrow, X.flags.writeable, self._packing is not None

    def _left(self) -> Rows:
        rows = replace(self.rows, X=np.asarray(self.rows.X))
        return rows if self.remaining.all() else rows.take(self.remaining)

    def take(self, rows: np.ndarray) -> Rows:
        return self.rows.take(rows)

    def emptied_columns(self, rows: np.ndarray) -> np.ndarray:
        counts = self.remaining
        if self.sample_weight is not None:
            counts = counts & (self.sample_weight > 0)
        if self._witnesses is None:
            self._witnesses = np.empty(self.rows.X.shape[1], np.intp)
            first_witnesses(self.rows.X, counts, self._witnesses)
        found = np.empty(len(self._witnesses), np.intp)
        return found[: emptied(self.rows.X, counts, rows, self._witnesses, found)]

    def sums_of(self, W: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return deleted_sums.sums_of_rows(self.rows, rows, W)

    def class_split(self, known: Statistics) -> ClassSplit | None:
        if self.k != 1 or not self.rows.X.flags.c_contiguous:
            return None
        if not known.penalty.intercept:
            return None
        W, zeros = known.weights, self.remaining & (self.codes == 0)
        ridge = known.penalty.ridge(known.total_weight)
        gradient = self.gradient_sum(W, zeros)[0]
        both = np.array([gradient, known.gradient_sum[0] - ridge * W[0] - gradient])
        counts = int(np.count_nonzero(zeros)), known.n - int(np.count_nonzero(zeros))
        of_zeros = self.hessian_sum(W, zeros)[0]
        return ClassSplit.of(known.hessian_sum[0], of_zeros, both, counts, ridge, self.rows.X.dtype)

    def by_class_split(self, known: Statistics, rows: np.ndarray) -> tuple[np.ndarray, Factor]:
        if known.class_split is None:
            raise ValueError("no sums of each class were prepared")
        shift = known.penalty.per_row * self.weight_of(rows)
        return known.class_split.leave(self.rows, self.remaining, rows, known.weights, shift)

    def _mask(self, mask: np.ndarray | None) -> np.ndarray | None:
        if mask is None and self.n_remaining < len(self.rows):
            return self.remaining
        return mask

    def _read(self, mask: np.ndarray | None) -> np.ndarray | None:
        """The mask of a pass, which is counted."""
        mask = self._mask(mask)
        self.rows_read += len(self.rows) if mask is None else int(np.count_nonzero(mask))
        return mask

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        mask, packed = self._read(mask), self._packed()
        if packed is not None:
            return packed.value_gradient_sum(self.rows, W, mask)
        return objective.value_gradient_sum(self.rows, W, mask)

    def gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        mask, packed = self._read(mask), self._packed()
        if packed is not None:
            return packed.value_gradient_sum(self.rows, W, mask, values_too=False)[1]
        return objective.gradient_sum(self.rows, W, mask)

    def _packed(self) -> PackedRows | None:
        """What the next pass goes over; None: the rows themselves."""
        return None if self._packing is None else self._packing.for_pass(self.rows.X)

    def erase(self, rows: np.ndarray) -> None:
        super().erase(rows)
        if self._packing is not None and self._packing.packed is not None:
            self._packing.packed.erase(rows)

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return objective.hessian_sum(self.rows, W, self._read(mask), precise=self.precise)

    def wide(self, mask: np.ndarray | None = None) -> bool:
        n = self.n_remaining if mask is None else int(np.count_nonzero(mask))
        return n < self.d and self.d >= WIDE_FROM

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: Ridge) -> Sequence[Factor]:
        if not self.wide(mask):
            return super().factors(W, mask, ridge)
        keep = self.remaining if mask is None else mask
        self._read(keep)
        if self._gram is None or not self._gram.has(keep):
            self._gram = Gram.of(self.rows, keep)
        return self._gram.factors(W, keep, ridge)

    def value_gradient_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Products]:
        found = objective.value_gradient_products(self.rows, W, self._read(mask))
        values, gradients, products = found

        def counted(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            self.rows_read += len(self.rows)  # those that have left too, with weight 0
            return products(problems, V)

        return values, gradients, counted

    def radius(self) -> float | None:
        return power_of_two_above(sqrt(longest_square(self.rows, self._read(None))))

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray:
        return objective.gram_sum(self.rows, self._mask(mask))

    def lay_out(self, row_of: np.ndarray) -> Layout:
        if self._layout is None or self._layout[0] is not row_of:
            self._layout = None  # the old copy goes before the new one comes
            self._layout = (row_of, lay_out(self.rows, row_of))
        return self._layout[1]

    def drop_layout(self) -> None:
        self._layout = None

    sgd = staticmethod(sgd.train_sgd)
    replay = staticmethod(replay.replay)


def padded_width(rows: Rows) -> int:
    """The columns of a layout: whole vectors, with the intercept's ones inside."""
    lanes = VECTOR // rows.X.itemsize
    return -(-rows.d // lanes) * lanes


def lay_out(rows: Rows, row_of: np.ndarray) -> Layout:
    """The given rows in the given order, as the loops over mini-batches want them."""
    width = padded_width(rows)
    n, p = len(row_of), rows.X.shape[1]
    whole = np.empty(n * width * rows.X.itemsize + CACHE_LINE, np.uint8)
    skip = -whole.ctypes.data % CACHE_LINE  # no vector across two lines
    X = whole[skip : skip + n * width * rows.X.itemsize].view(rows.X.dtype).reshape(n, width)
    step = 1 << 14
    for start in range(0, n, step):
        part = slice(start, start + step)
        X[part, :p] = rows.X[row_of[part]]
    X[:, p:] = 0
    if rows.intercept:
        X[:, p] = 1
    return Layout(X, rows.codes[row_of], row_of, rows.d, rows.loss)
