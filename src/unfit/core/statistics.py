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
from unfit.core.factors import Cholesky, Factor, Inverse, Spectrum
from unfit.core.objective import (
    Rows,
    gradient_sum,
    hessian_sum,
    root_weighted,
)
from unfit.core.penalty import Penalty, Ridge, with_ridge

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
    """Gradient (k, d) and Hessian (k, d, d) sums over n rows at weights (k, d), penalty included.

    total_weight: the sum of the rows' sample weights, n where they have none. factors: one Inverse
    or Spectrum per problem, or None where nobody prepared them. class_split: sums of each of two
    classes, where many rows are expected to leave at a time.
    """

    weights: np.ndarray
    gradient_sum: np.ndarray
    hessian_sum: np.ndarray
    n: int
    total_weight: float
    penalty: Penalty
    factors: Sequence[Inverse | Spectrum] | None = None
    class_split: ClassSplit | None = None

    @classmethod
    def of_sums(
        cls,
        weights: np.ndarray,
        sums: tuple[np.ndarray, np.ndarray],
        *,
        n: int,
        total_weight: float,
        penalty: Penalty,
    ) -> "Statistics":
        """From the data terms, gradient and Hessian: adds the penalty, into the Hessian itself."""
        gradient, hessian = sums
        ridge = penalty.on(total_weight, weights.shape[1])
        with_ridge(hessian, ridge)
        return cls(weights, gradient + ridge * weights, hessian, n, total_weight, penalty)

    @classmethod
    def of_rows(cls, rows: Rows, weights: np.ndarray, penalty: Penalty) -> "Statistics":
        gradient = gradient_sum(rows, weights)
        sums = gradient, hessian_sum(rows, weights)
        n, total = len(rows), rows.total_weight
        return cls.of_sums(weights, sums, n=n, total_weight=total, penalty=penalty)

    def minus(self, other: "Statistics") -> "Statistics":
        """Without the rows of `other`, which was evaluated at the same weights."""
        return self._combine(other, -1)

    def plus(self, other: "Statistics") -> "Statistics":
        """With the rows of `other`, which was evaluated at the same weights."""
        return self._combine(other, 1)

    def _combine(self, other: "Statistics", sign: int) -> "Statistics":
        if not np.array_equal(self.weights, other.weights):
            raise ValueError("statistics can only be combined at the same weights")
        twice = Penalty(0.0, other.penalty.constant, other.penalty.intercept)
        constant = twice.on(0.0, self.weights.shape[1])  # is in both sums, and belongs into one
        return Statistics(
            self.weights,
            self.gradient_sum + sign * (other.gradient_sum - constant * self.weights),
            with_ridge(self.hessian_sum + sign * other.hessian_sum, -sign * constant),
            self.n + sign * other.n,
            self.total_weight + sign * other.total_weight,
            self.penalty,
        )

    @property
    def plain(self) -> bool:
        """Whether n and l2 say all of the penalty."""
        return self.penalty == Penalty(self.penalty.per_row) and self.total_weight == self.n

    def ridge_of(self, rows: Rows) -> Ridge:
        """The part of the penalty that leaves with some of the rows."""
        return self.penalty.leaving(rows.total_weight, self.weights.shape[1])

    def with_factors(self, roots: bool) -> "Statistics":
        """With a factor of every Hessian: spectra if roots will be wanted and d allows it."""
        if self.wants_spectra(roots):
            return replace(self, factors=[Spectrum.of(h) for h in self.hessian_sum])
        ahead, share = self.ridge_of_one
        return replace(self, factors=[Inverse.of(h, ahead, share) for h in self.hessian_sum])

    @property
    def ridge_of_one(self) -> tuple[Ridge, float]:
        """The ridge that leaves with a row of mean weight, and what share of the rest it is."""
        if self.n < 2:
            return 0.0, 0.0
        mean = self.total_weight / self.n
        return self.penalty.leaving(mean, self.weights.shape[1]), 1.0 / (self.n - 1)

    def wants_spectra(self, roots: bool) -> bool:
        """Whether spectra serve better than inverses; roots: whether roots will be wanted."""
        small = self.hessian_sum.shape[1] <= SPECTRUM_UP_TO
        return roots and small and self.penalty.uniform  # else the eigenvectors change too


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


def gradient_of_rows(rows: Rows, weights: np.ndarray, penalty: Penalty) -> np.ndarray:
    """sum slope x over the given rows, and the part of the penalty that goes with them, (k, d)."""
    ridge = penalty.leaving(rows.total_weight, weights.shape[1])
    return np.asarray(rows.value_gradient(weights)[1] + ridge * weights)


def factors_without(statistics: Statistics, rows: Rows, way: Way | None = None) -> Sequence[Factor]:
    """The Hessians of the rows that remain when `rows` leave, by the cheapest way or the given."""
    W, shift = statistics.weights, statistics.ridge_of(rows)
    way = way or cheapest(statistics, len(rows))
    if way == "factorize":
        return factors_less(statistics, hessian_sum(rows, W), shift)
    if statistics.factors is None:
        raise ValueError("no factors were prepared")
    if way in (
        "iterate",
        "class split",
    ):  # only an engine, which knows where rows lie, can use a class split
        return gradient_and_corrected(statistics, rows)[1]
    return factors_less_few(statistics, root_weighted(rows, W), rows.total_weight)


def factors_less_few(
    statistics: Statistics, roots: Sequence[np.ndarray], total_weight: float
) -> Sequence[Factor]:
    """The Hessians without a few rows of this total weight, from U with rows sqrt(curvature) x
    for each problem."""
    shift = statistics.penalty.leaving(total_weight, statistics.weights.shape[1])
    share = total_weight / statistics.total_weight
    pairs = zip(statistics.factors or (), roots, strict=True)
    return [factor.without(U, shift, share) for factor, U in pairs]


def factors_less(
    statistics: Statistics, hessian_of_rows: np.ndarray, shift: Ridge
) -> Sequence[Factor]:
    """The Hessians less that of some rows, given without the penalty's part, which is the shift."""
    hessian = with_ridge(statistics.hessian_sum - hessian_of_rows, -shift)
    return [Cholesky.of(h) for h in hessian]


def gradient_and_corrected(
    statistics: Statistics, rows: Rows, precision: float = 0.0
) -> tuple[np.ndarray, Sequence[Factor]]:
    """sum slope x (k, d) of many rows, and the Hessians without them, which read the rows once for
    every product, and solve to the precision of the rows or the one given, whichever is less.
    By our own threads: those of BLAS go on spinning for milliseconds after a product, in the way of
    the passes that follow."""
    curvatures = np.zeros((len(statistics.weights), len(rows)))
    gradient = gradient_sum(rows, statistics.weights, None, curvatures)
    shift = statistics.penalty.leaving(rows.total_weight, statistics.weights.shape[1])
    least = PRECISION if rows.X.dtype == np.float64 else ROUGH_PRECISION
    found: list[Factor] = []
    for factor, of_rows in zip(statistics.factors or (), curvatures, strict=True):
        if not isinstance(factor, Inverse):
            raise ValueError("only a kept inverse can be corrected for many rows")
        leaving = rows.arrays, of_rows[None]
        found.append(factor.corrected(leaving, shift, max(precision, least)))
    return gradient, found
