"""What makes forgetting cheap: the gradient and Hessian sums of a model's rows, kept at its w.

Sums over the remaining rows equal sums over all rows minus sums over the deleted ones, at the
same w. So forgetting m rows costs O(m d^2 + d^3 / 3), whatever n is; with a factor kept, O(m d^2)
for few rows. Everything includes the regulariser. Knows core.objective and core.noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from unfit.core.noise import (
    inverse_fourth_root_by_lanczos,
    inverse_fourth_root_downdated,
    inverse_fourth_root_times,
)
from unfit.core.objective import Rows, hessian_sum, margins, root_weighted, value_gradient_sum

FEW_ROWS_PER_COLUMN = 0.25  # a low-rank correction pays for m below this share of d,
FEW_ROWS_OF_ALL = 0.1  # and converges fast for m below this share of n
VERY_FEW_ROWS = 8  # for which an integral costs less than Lanczos
SPECTRUM_UP_TO = 1024  # columns for which 10 d^3 of eigh ahead of time is acceptable


class Factor(Protocol):
    """One problem's Hessian, ready to be solved with."""

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs."""
        ...

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        """H^(-1/4) b."""
        ...


@dataclass(frozen=True)
class Cholesky:
    """H = L L^T; H itself is kept for those who want its roots."""

    lower: np.ndarray
    hessian: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> "Cholesky":
        # NumPy's LAPACK, as the sums: SciPy's brings threads of its own that fight with NumPy's.
        try:
            return cls(np.linalg.cholesky(hessian), hessian)
        except np.linalg.LinAlgError as failure:
            raise np.linalg.LinAlgError(
                "the Hessian is not positive definite; raise l2"
            ) from failure

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(lapack.dpotrs(self.lower.T, rhs, lower=0)[0])

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return inverse_fourth_root_times(self.hessian, b)


@dataclass(frozen=True)
class Inverse:
    """H^-1 itself, made ahead of time: then few rows cost matrix products and nothing else."""

    hessian: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> "Inverse":
        upper, info = lapack.dpotri(Cholesky.of(hessian).lower.T, lower=0)
        if info != 0:
            raise np.linalg.LinAlgError("the Hessian is singular; raise l2")
        triangle = np.triu(upper)
        return cls(hessian, triangle + np.triu(upper, 1).T)

    def without(self, U: np.ndarray, shift: float, contraction: float) -> "Factor":
        return DowndatedInverse.of(self, U, shift, contraction)


@dataclass(frozen=True)
class DowndatedInverse:
    """H - U U^T - shift I from H^-1, by Woodbury, for a few columns U.

    P = H - U U^T has P^-1 = H^-1 + Z K^-1 Z^T with Z = H^-1 U and K = I - U^T Z. The shift (the
    regulariser of the rows that left) has full rank; it is taken in by x <- P^-1 (rhs + shift x),
    which contracts by at most m / n, since P >= lam n I and shift = lam m.
    """

    base: Inverse
    U: np.ndarray
    Z: np.ndarray
    K_inverse: np.ndarray
    shift: float
    contraction: float

    @classmethod
    def of(
        cls, base: Inverse, U: np.ndarray, shift: float, contraction: float
    ) -> "DowndatedInverse":
        Z = base.inverse @ U
        return cls(base, U, Z, _inverse_of_gap(U, Z), shift, contraction)

    def _solve_unshifted(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(self.base.inverse @ rhs + self.Z @ (self.K_inverse @ (self.Z.T @ rhs)))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        x = self._solve_unshifted(rhs)
        for _ in range(64):
            before, x = x, self._solve_unshifted(rhs + self.shift * x)
            still_off = self.contraction * np.linalg.norm(x - before)
            if still_off <= 1e-11 * np.linalg.norm(x):
                break
        return x

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        def product(v: np.ndarray) -> np.ndarray:
            return np.asarray(self.base.hessian @ v - self.U @ (self.U.T @ v) - self.shift * v)

        return inverse_fourth_root_by_lanczos(product, b)


@dataclass(frozen=True)
class Spectrum:
    """H = Q diag(values) Q^T: dearer to make than a Cholesky factor, but roots come for free."""

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> "Spectrum":
        return cls(*scipy.linalg.eigh(hessian, check_finite=False))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(self.vectors @ ((self.vectors.T @ rhs) / self.values))

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return np.asarray(self.vectors @ (self.values**-0.25 * (self.vectors.T @ b)))

    def without(self, U: np.ndarray, shift: float, contraction: float) -> "Factor":
        return DowndatedSpectrum.of(self, U, shift)


@dataclass(frozen=True)
class DowndatedSpectrum:
    """H - U U^T - shift I in the eigenbasis of H, where it is a diagonal less a few columns."""

    vectors: np.ndarray
    diagonal: np.ndarray
    U: np.ndarray
    Z: np.ndarray
    K_inverse: np.ndarray

    @classmethod
    def of(cls, spectrum: Spectrum, U: np.ndarray, shift: float) -> "DowndatedSpectrum":
        diagonal = spectrum.values - shift
        rotated = spectrum.vectors.T @ U
        Z = rotated / diagonal[:, None]
        return cls(spectrum.vectors, diagonal, rotated, Z, _inverse_of_gap(rotated, Z))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        rotated = self.vectors.T @ rhs
        correction = self.Z @ (self.K_inverse @ (self.Z.T @ rotated))
        return np.asarray(self.vectors @ (rotated / self.diagonal + correction))

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        def product(v: np.ndarray) -> np.ndarray:
            return np.asarray(self.diagonal * v - self.U @ (self.U.T @ v))

        rotated = self.vectors.T @ b
        if self.U.shape[1] <= VERY_FEW_ROWS:
            root = inverse_fourth_root_downdated(self.diagonal, self.U, rotated)
        else:
            root = inverse_fourth_root_by_lanczos(product, rotated)
        return np.asarray(self.vectors @ root)


def _inverse_of_gap(U: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """(I - U^T Z)^-1, as large as the few columns are many."""
    return np.linalg.inv(np.eye(U.shape[1]) - U.T @ Z)


@dataclass(frozen=True)
class Statistics:
    """Gradient (k, d) and Hessian (k, d, d) sums over n rows at weights (k, d), with l2 n inside.

    factors: one Inverse or Spectrum per problem, or None where nobody prepared them.
    """

    weights: np.ndarray
    gradient_sum: np.ndarray
    hessian_sum: np.ndarray
    n: int
    l2: float
    factors: Sequence[Inverse | Spectrum] | None = None

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


def few(statistics: Statistics, m: int) -> bool:
    """Whether m rows are few enough to correct the kept factors instead of making new ones."""
    d = statistics.weights.shape[1]
    return (
        statistics.factors is not None
        and m < FEW_ROWS_PER_COLUMN * d
        and m <= FEW_ROWS_OF_ALL * statistics.n
    )


def gradient_of_rows(rows: Rows, weights: np.ndarray, l2: float) -> np.ndarray:
    """sum (p - t) x + l2 m w over the given rows, (k, d)."""
    return np.asarray(value_gradient_sum(rows, weights)[1] + l2 * len(rows) * weights)


def factors_without(
    statistics: Statistics, rows: Rows, *, low_rank: bool | None = None
) -> Sequence[Factor]:
    """The Hessians of the rows that remain when `rows` leave, factorised the cheaper way.

    low_rank: True corrects the kept factors, False subtracts and factorises anew, None chooses.
    """
    W, m = statistics.weights, len(rows)
    if low_rank is None:
        low_rank = few(statistics, m)
    if not low_rank:
        hessian = statistics.hessian_sum - hessian_sum(rows, W)
        _add_to_diagonals(hessian, -statistics.l2 * m)
        return [Cholesky.of(h) for h in hessian]
    if statistics.factors is None:
        raise ValueError("no factors were prepared")
    margin = margins(rows.X, W)
    return [
        factor.without(
            root_weighted(rows.X, margin[:, c], rows.intercept).T.astype(np.float64),
            statistics.l2 * m,
            m / statistics.n,
        )
        for c, factor in enumerate(statistics.factors)
    ]


def _add_to_diagonals(matrices: np.ndarray, value: float) -> None:
    d = matrices.shape[-1]
    matrices.reshape(len(matrices), d * d)[:, :: d + 1] += value
