"""Dense rows that are mostly zeros, packed for passes: a pass reads what is not zero.

A row of categories is a few ones among zeros. Whoever makes many passes over such rows reads 6
bytes of each number that is not zero instead of 4 of every one. Sums are float64's, as those of
the rows themselves. Knows core.objective and core.kernels.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.packed import (
    Packed,
    add_packed_value_gradient,
    count_numbers,
    pack_numbers,
)
from unfit.core.kernels.parallel import CACHE_LINE, available_threads, run_threads
from unfit.core.objective import Rows, positive_codes

MOST_COLUMNS = 1 << 16  # whose numbers fit 16 bits
MOSTLY_ZEROS = 1 / 3  # numbers that are not zero, of all, from which packing gains little
PASSES = 8  # over the rows, that cost about as much as packing them
_LINE = CACHE_LINE // 8


@dataclass(frozen=True)
class PackedRows:
    """The numbers of some rows that are not zero."""

    packed: Packed

    @classmethod
    def of(cls, X: np.ndarray, most: float = MOSTLY_ZEROS) -> "PackedRows | None":
        """None where more than such a share of the numbers is not zero, or columns are too many."""
        n, p = X.shape
        starts = np.zeros(n + 1, np.int64)
        if p > MOST_COLUMNS:
            return None
        count_numbers(X, starts[1:])
        np.cumsum(starts, out=starts)
        if starts[-1] > most * n * p:
            return None
        packed = starts, np.empty(starts[-1], np.uint16), np.empty(starts[-1], X.dtype)
        pack_numbers(X, packed)
        return cls(packed)

    def value_gradient_sum(
        self, rows: Rows, W: np.ndarray, mask: np.ndarray | None, *, values_too: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """objective.value_gradient_sum of the rows that were packed. values_too: otherwise there
        are none, and their logarithms are not computed."""
        n, (k, d), threads = len(rows), W.shape, available_threads()
        # No two threads write to the same cache line.
        values = np.zeros((threads, k + _LINE if values_too else 0))
        gradients = np.zeros((threads, k, d + _LINE))
        keep = np.zeros(0, np.bool_) if mask is None else mask
        problems = positive_codes(k), np.ascontiguousarray(W, dtype=np.float64)
        arrays = self.packed, rows.codes, rows.intercept

        def body(t: int) -> None:
            chosen = keep, n * t // threads, n * (t + 1) // threads
            totals = values[t], gradients[t]
            add_packed_value_gradient(
                arrays, rows.loss.compiled, problems, chosen, totals, rows.kernel_weights
            )

        run_threads(body, threads)
        return values.sum(axis=0)[:k], gradients.sum(axis=0)[:, :d]

    def erase(self, rows: np.ndarray) -> None:
        """Zero the numbers of rows that have left, and their columns."""
        starts, columns, numbers = self.packed
        for row in rows.tolist():  # those of one request
            columns[starts[row] : starts[row + 1]] = 0
            numbers[starts[row] : starts[row + 1]] = 0


@dataclass
class Packing:
    """Packs rows once the passes over them have cost as much. passes: until then. most: the share
    of numbers that are not zero, beyond which rows stay as they are."""

    passes: int = PASSES
    most: float = MOSTLY_ZEROS
    packed: PackedRows | None = None

    def for_pass(self, X: np.ndarray) -> PackedRows | None:
        """What the next pass goes over; None: the rows themselves."""
        if self.passes > 0:
            self.passes -= 1
            if self.passes == 0:
                self.packed = PackedRows.of(X, self.most)
        return self.packed
