"""What makes forgetting cheap: the gradient and Hessian sums of a model's rows, kept at its w.

Sums over the remaining rows equal sums over all rows minus sums over the deleted ones, at the
same w. So forgetting m rows costs O(m d^2 + d^3 / 3), whatever n is; with factors kept, less.
Everything includes the regulariser. Knows core.objective, core.factors and core.class_split.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from unfit.core.class_split import ClassSplit
from unfit.core.deleted_sums import rough_products
from unfit.core.factors import Cholesky, Factor, Inverse, Spectrum
from unfit.core.objective import (
    Rows,
    hessian_sum,
    root_weighted,
    value_gradient_sum,
)

FEW_ROWS_PER_COLUMN = 0.25  # Woodbury pays for m below this share of d,
FEW_ROWS_OF_ALL = 0.1  # and converges fast for m below this share of n
WIDE = 512  # columns from which conjugate gradients beat both Woodbury and a new factor,
FEW_ROWS = 32  # if this many rows leave,
MANY_ROWS_OF_ALL = 0.4  # and no more than this share of all
PRECISION, ROUGH_PRECISION = 1e-11, 3e-7  # relative, of what is iterated with float64 or 32 rows
SPECTRUM_UP_TO = 1024  # columns for which 10 d^3 of eigh ahead of time are acceptable

Way = Literal["woodbury", "class split", "iterate", "factorize"]


@dataclass(frozen=True)
class Statistics:
    """Gradient (k, d) and Hessian (k, d, d) sums over n rows at weights (k, d), with l2 n inside.

    factors: one Inverse or Spectrum per problem, or None where nobody prepared them.
    class_split: sums of each of two classes, where many rows are expected to leave at a time.
    """

    weights: np.ndarray
    gradient_sum: np.ndarray
    hessian_sum: np.ndarray
    n: int
    l2: float
    factors: Sequence[Inverse | Spectrum] | None = None
    class_split: ClassSplit | None = None

    @classmethod
    def of_sums(
        cls, weights: np.ndarray, gradient: np.ndarray, hessian: np.ndarray, n: int, l2: float
    ) -> "Statistics":
        """From the data terms: adds the regulariser, into `hessian` itself."""
        _add_to_diagonals(hessian, l2 * n)
        return cls(weights, gradient + l2 * n * weights, hessian, n, l2)

    @classmethod
    def of_rows(cls, rows: Rows, weights: np.ndarray, l2: float) -> "Statistics":
        _, gradient = value_gradient_sum(rows, weights)
        return cls.of_sums(weights, gradient, hessian_sum(rows, weights), len(rows), l2)

    def minus(self, other: "Statistics") -> "Statistics":
        """Without the rows of `other`, which was evaluated at the same weights."""
        return self._combine(other, -1)

    def plus(self, other: "Statistics") -> "Statistics":
        """With the rows of `other`, which was evaluated at the same weights."""
        return self._combine(other, 1)

    def _combine(self, other: "Statistics", sign: int) -> "Statistics":
        if not np.array_equal(self.weights, other.weights):
            raise ValueError("statistics can only be combined at the same weights")
        return Statistics(
            self.weights,
            self.gradient_sum + sign * other.gradient_sum,
            self.hessian_sum + sign * other.hessian_sum,
            self.n + sign * other.n,
            self.l2,
        )

    def with_factors(self, roots: bool) -> "Statistics":
        """With a factor of every Hessian: spectra if roots will be wanted and d allows it."""
        spectral = roots and self.hessian_sum.shape[1] <= SPECTRUM_UP_TO
        kind = Spectrum if spectral else Inverse
        return replace(self, factors=[kind.of(h) for h in self.hessian_sum])


def worth_class_split(k: int, d: int, m: int) -> bool:
    """Whether sums of each class pay, where m rows are expected to leave at a time."""
    return k == 1 and WIDE <= d <= SPECTRUM_UP_TO and m >= FEW_ROWS


def cheapest(statistics: Statistics, m: int) -> Way:
    """How to get at the Hessians of what remains when m rows leave."""
    d = statistics.weights.shape[1]
    if statistics.factors is None:
        return "factorize"
    iterable = d >= WIDE and all(isinstance(factor, Inverse) for factor in statistics.factors)
    few = FEW_ROWS if iterable else FEW_ROWS_PER_COLUMN * d
    if m < few and m <= FEW_ROWS_OF_ALL * statistics.n:
        return "woodbury"
    if iterable and m <= MANY_ROWS_OF_ALL * statistics.n:
        return "iterate" if statistics.class_split is None else "class split"
    return "factorize"


def gradient_of_rows(rows: Rows, weights: np.ndarray, l2: float) -> np.ndarray:
    """sum slope x + l2 m w over the given rows, (k, d)."""
    return np.asarray(rows.value_gradient(weights)[1] + l2 * len(rows) * weights)


def factors_without(statistics: Statistics, rows: Rows, way: Way | None = None) -> Sequence[Factor]:
    """The Hessians of the rows that remain when `rows` leave, by the cheapest way or the given."""
    W, shift = statistics.weights, statistics.l2 * len(rows)
    way = way or cheapest(statistics, len(rows))
    if way == "factorize":
        return factors_less(statistics, hessian_sum(rows, W), len(rows))
    if statistics.factors is None:
        raise ValueError("no factors were prepared")
    if way in (
        "iterate",
        "class split",
    ):  # only an engine, which knows where rows lie, can use a class split
        return _corrected(statistics, rows, shift)
    return factors_less_few(statistics, root_weighted(rows, W))


def factors_less_few(statistics: Statistics, roots: Sequence[np.ndarray]) -> Sequence[Factor]:
    """The Hessians without a few rows, from U with rows sqrt(curvature) x for each problem."""
    m = len(roots[0])
    pairs = zip(statistics.factors or (), roots, strict=True)
    return [factor.without(U, statistics.l2 * m, m / statistics.n) for factor, U in pairs]


def factors_less(statistics: Statistics, hessian_of_rows: np.ndarray, m: int) -> Sequence[Factor]:
    """The Hessians less that of m rows, which is given without its regulariser."""
    hessian = statistics.hessian_sum - hessian_of_rows
    _add_to_diagonals(hessian, -statistics.l2 * m)
    return [Cholesky.of(h) for h in hessian]


def _corrected(statistics: Statistics, rows: Rows, shift: float) -> list[Factor]:
    leaving = rough_products(rows, statistics.weights)
    precision = PRECISION if rows.X.dtype == np.float64 else ROUGH_PRECISION
    found: list[Factor] = []
    for c, factor in enumerate(statistics.factors or ()):
        if not isinstance(factor, Inverse):
            raise ValueError("only a kept inverse can be corrected for many rows")
        found.append(factor.corrected(leaving[c], shift, precision))
    return found


def _add_to_diagonals(matrices: np.ndarray, value: float) -> None:
    d = matrices.shape[-1]
    matrices.reshape(len(matrices), d * d)[:, :: d + 1] += value
