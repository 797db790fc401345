"""Dense rows that are mostly alike, packed for passes: a pass reads what is not the usual number.

A row of categories is a few ones among zeros, and in some columns most rows have a one. Whoever
makes many passes over such rows reads 6 bytes of each number that is not what its column usually
has, zero or one other number, instead of 4 of every one; rows are filled up to groups of four. Sums
are float64's, as those of the rows themselves. Knows core.objective and core.kernels.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.packed import (
    GROUP,
    Packed,
    add_packed_value_gradient,
    count_numbers,
    fill_usual,
    pack_numbers,
)
from unfit.core.kernels.parallel import run_parts, threads_and_parts
from unfit.core.objective import Rows, positive_codes

MOST_COLUMNS = 1 << 16  # whose numbers fit 16 bits
MOST_NUMBERS = 1 / 3  # that are not the usual ones, of all, from which packing gains little
PASSES = 8  # over the rows, that cost about as much as packing them
_LINE = CACHE_LINE // 8
_WORTH_A_THREAD = 1 << 16  # numbers times problems


@dataclass(frozen=True)
class PackedRows:
    """The numbers of some rows that are not the usual ones of their columns."""

    packed: Packed

    @classmethod
    def of(cls, X: np.ndarray, most: float = MOST_NUMBERS) -> "PackedRows | None":
        """None where more numbers would be kept than such a share, or columns are too many."""
        n, p = X.shape
        if p > MOST_COLUMNS:
            return None
        usual, counts = np.zeros(p, X.dtype), np.zeros(n, np.int64)
        fill_usual(X, usual)
        count_numbers(X, usual, counts)
        starts = np.zeros(n + 1, np.int64)
        np.cumsum(-(-counts // GROUP) * GROUP, out=starts[1:])
        if starts[-1] > most * n * p:
            return None
        columns, numbers = np.empty(starts[-1], np.uint16), np.empty(starts[-1], X.dtype)
        packed = usual, starts, columns, numbers
        pack_numbers(X, packed)
        return cls(packed)

    def value_gradient_sum(
        self, rows: Rows, W: np.ndarray, mask: np.ndarray | None, *, values_too: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """objective.value_gradient_sum of the rows that were packed. values_too: otherwise there
        are none, and their logarithms are not computed."""
        n, (k, d) = len(rows), W.shape
        threads, parts = threads_and_parts(self.packed[3].size * k, _WORTH_A_THREAD)
        # No two threads write to the same cache line.
        values = np.zeros((parts, k + _LINE if values_too else 0))
        gradients = np.zeros((parts, k, d + _LINE))
        keep = np.zeros(0, np.bool_) if mask is None else mask
        problems = positive_codes(k), np.ascontiguousarray(W, dtype=np.float64)
        arrays = self.packed, rows.codes, rows.intercept

        def body(part: int) -> None:
            chosen = keep, n * part // parts, n * (part + 1) // parts
            totals = values[part], gradients[part]
            add_packed_value_gradient(
                arrays, rows.loss.compiled, problems, chosen, totals, rows.kernel_weights
            )

        run_parts(body, parts, threads)
        return values.sum(axis=0)[:k], gradients.sum(axis=0)[:, :d]

    def erase(self, rows: np.ndarray) -> None:
        """Zero the numbers of rows that have left, and their columns."""
        _, starts, columns, numbers = self.packed
        for row in rows.tolist():  # those of one request
            columns[starts[row] : starts[row + 1]] = 0
            numbers[starts[row] : starts[row + 1]] = 0


@dataclass
class Packing:
    """Packs rows once the passes over them have cost as much. passes: until then. most: the share
    of numbers that are kept, beyond which rows stay as they are."""

    passes: int = PASSES
    most: float = MOST_NUMBERS
    packed: PackedRows | None = None

    def for_pass(self, X: np.ndarray) -> PackedRows | None:
        """What the next pass goes over; None: the rows themselves."""
        if self.passes > 0:
            self.passes -= 1
            if self.passes == 0:
                self.packed = PackedRows.of(X, self.most)
        return self.packed
