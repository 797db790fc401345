"""How long rows are: rounded, and a function of the rows that remain.

Bounds need a length that no remaining row exceeds. The longest row's own length would be one
person's value, and be kept when that person is gone. So it is rounded up to an eighth of a
doubling, and the rows that are as long as that are counted: when the last of them leaves, the
remaining rows are looked at again.

A step changes the margin of a row x by x.dw, which is at most |m.dw| + |x - m| |dw| for any m. Rows
are nearer to their mean than to 0, often by far, so `Spread` measures that. It is made with the
sums that make an erasure cheap, from the rows that remain then, and goes when those go.
"""

import math
from dataclasses import dataclass

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine

STEPS = 8  # in a doubling
_BLOCK = 4096
_SAMPLED = 4096  # rows whose mean is the middle
_ROUGH = 1e-2  # relative, far more than sums in float32 are off by
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
        below = 2.0 ** ((self.step - 1) / STEPS)
        long = rows.rough_squares() >= (1 - _ROUGH) * below * below - rows.intercept
        if not long.any():
            return self
        left = self.rows - int(np.count_nonzero(_steps(rows.take(long)) == self.step))
        return RowLengths(self.step, left) if left > 0 else None


@dataclass(frozen=True, eq=False)
class Spread:
    """No row is farther than radius from the middle (d,), intercept included."""

    middle: np.ndarray
    radius: float

    @classmethod
    def of(cls, data: Engine) -> "Spread":
        """Of the remaining rows: one pass, which is counted. Any middle would be sound."""
        places = np.flatnonzero(data.remaining)
        sampled = data.take(places[:: -(-len(places) // _SAMPLED)])
        centre = sampled.X.mean(axis=0, dtype=np.float64)
        data.rows_read += len(places)
        most = 0.0
        for start in range(0, len(places), _BLOCK):
            apart = data.take(places[start : start + _BLOCK]).X - centre
            most = max(most, float(np.einsum("ij,ij->i", apart, apart).max()))
        middle = np.append(centre, 1.0) if data.intercept else centre
        return cls(middle, float(np.sqrt(most)) * (1 + 1e-9))

    def reach(self, step: np.ndarray) -> list[float]:
        """At least |x.dw| for every row, of each problem of a step (k, d)."""
        most = self.radius + 1e-9 * math.sqrt(self.middle @ self.middle)  # with rounding
        return [abs(float(self.middle @ dw)) + most * math.sqrt(dw @ dw) for dw in step]


def _steps(rows: Rows) -> np.ndarray:
    lengths = np.sqrt(rows.squared_lengths())
    return np.asarray(np.ceil(STEPS * np.log2(np.maximum(lengths, _SHORTEST)))).astype(np.int64)
