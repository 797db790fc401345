"""How long rows are: rounded, and a function of the rows that remain.

Bounds need a length that no remaining row exceeds. The longest row's own length would be one
person's value, and be kept when that person is gone. So it is rounded up to an eighth of a
doubling, and the rows that are as long as that are counted: when the last of them leaves, the
remaining rows are looked at again.
"""

from dataclasses import dataclass

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine

STEPS = 8  # in a doubling
_BLOCK = 4096
_SHORTEST = 2.0**-100  # rows of zeros count as so long


@dataclass(frozen=True)
class RowLengths:
    """radius = 2^(step / STEPS) is at least the length of every row, intercept included; `rows` of
    them are no shorter than one step less."""

    step: int
    rows: int

    @property
    def radius(self) -> float:
        return float(2.0 ** (self.step / STEPS)) * (1 + 1e-9)  # for rounding on the way

    @classmethod
    def of(cls, data: Engine, mask: np.ndarray | None = None) -> "RowLengths":
        """Of the rows of a mask (None: the remaining): one pass, which is counted."""
        places = np.flatnonzero(data.remaining if mask is None else mask)
        data.rows_read += len(places)
        step, count = -10_000, 0
        for start in range(0, len(places), _BLOCK):
            found = _steps(data.take(places[start : start + _BLOCK]))
            most = int(found.max())
            if most > step:
                step, count = most, 0
            count += int(np.count_nonzero(found == step))
        return cls(step, count)

    def without(self, rows: Rows) -> "RowLengths | None":
        """When some rows leave; None if those that remain must be looked at."""
        if len(rows) == 0:
            return self
        left = self.rows - int(np.count_nonzero(_steps(rows) == self.step))
        return RowLengths(self.step, left) if left > 0 else None


def _steps(rows: Rows) -> np.ndarray:
    X = rows.X.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X) + rows.intercept)
    return np.asarray(np.ceil(STEPS * np.log2(np.maximum(lengths, _SHORTEST)))).astype(np.int64)
