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
from functools import partial

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine

STEPS = 8  # in a doubling
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
        data.rows_read += data.n_remaining if mask is None else int(np.count_nonzero(mask))
        found = data.of_blocks(_longest, mask)
        step = max((step for step, _ in found), default=-10_000)
        return cls(step, sum(count for most, count in found if most == step))

    def without(self, rows: Rows) -> "RowLengths | None":
        """When some rows leave; None if those that remain must be looked at."""
        if len(rows) == 0:
            return self
        below = 2.0 ** ((self.step - 1) / STEPS)
        squares, limit = rows.rough_squares(), (1 - _ROUGH) * below * below - rows.intercept
        if squares.max() < limit:
            return self
        long = squares >= limit
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
        n = data.n_remaining
        sampled = data.take(data.nth(np.arange(0, n, -(-n // _SAMPLED))))
        centre = sampled.X.mean(axis=0, dtype=np.float64)
        data.rows_read += n
        most = max(data.of_blocks(partial(_farthest, centre)), default=0.0)
        middle = np.append(centre, 1.0) if data.intercept else centre
        return cls(middle, float(np.sqrt(most)) * (1 + 1e-9))

    def reach(self, step: np.ndarray) -> list[float]:
        """At least |x.dw| for every row, of each problem of a step (k, d)."""
        most = self.radius + 1e-9 * math.sqrt(self.middle @ self.middle)  # with rounding
        return [abs(float(self.middle @ dw)) + most * math.sqrt(dw @ dw) for dw in step]


def _farthest(centre: np.ndarray, rows: Rows) -> float:
    """The largest |x - centre|^2."""
    apart = rows.X - centre
    return float(np.einsum("ij,ij->i", apart, apart).max())


def _longest(rows: Rows) -> tuple[int, int]:
    """The step of the longest row, and how many rows have it."""
    found = _steps(rows)
    most = int(found.max())
    return most, int(np.count_nonzero(found == most))


def _steps(rows: Rows) -> np.ndarray:
    lengths = np.sqrt(rows.squared_lengths())
    return np.asarray(np.ceil(STEPS * np.log2(np.maximum(lengths, _SHORTEST)))).astype(np.int64)
