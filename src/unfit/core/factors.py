"""A Hessian, ready to be solved with: by Cholesky, by its kept inverse, or by its eigenvectors.

`Inverse` and `Spectrum` are made ahead of time, and then answer for the rows that remain when some
leave: H - U^T U - shift I, where the rows of U are sqrt(curvature) x and the shift is the
regulariser that leaves with them, one number or one a column. Knows core.noise, core.penalty,
core.kernels and errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from unfit.core.kernels.cholesky import mirror
from unfit.core.kernels.corrected import WeightedRows, solve_corrected, weighted_product
from unfit.core.kernels.downdate import solve_downdated
from unfit.core.kernels.parallel import blas_on_one_core
from unfit.core.noise import (
    inverse_fourth_root_by_lanczos,
    inverse_fourth_root_downdated,
    inverse_fourth_root_times,
)
from unfit.core.penalty import Ridge
from unfit.errors import TooLarge

VERY_FEW_ROWS = 8  # for which an integral costs less than Lanczos
_PRECISION = 1e-11  # relative, of what is iterated
_MAX_STEPS = 200
_REFINEMENTS = 4  # products beyond which a new Hessian is the better way
_REFINED = 1e-11  # of what is refined, relative to what it is added to
# Of 1 - x H^-1 x for a row x sqrt(curvature) that leaves: of a row that has nearly all of the
# curvature along itself, the difference between H and what remains is rounding.
_LEAST_GAP = 1e-3
_LEADS = 0.3  # a guide must shrink the residual at least so much
_SMALL = 1024  # columns up to which SciPy keeps to one core: its threads go on spinning
_TINY = np.finfo(np.float32).tiny
_EPS = float(np.finfo(np.float64).eps)

Product = Callable[[np.ndarray], np.ndarray]


class Factor(ABC):
    """One problem's Hessian H."""

    @abstractmethod
    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs."""

    @abstractmethod
    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        """H^(-1/4) b."""

    @classmethod
    def solve_each(cls, factors: Sequence["Factor"], rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs (k, d), each problem with its factor."""
        return np.array([f.solve(g) for f, g in zip(factors, rhs, strict=True)])

    @classmethod
    def inverse_fourth_root_each(cls, factors: Sequence["Factor"], b: np.ndarray) -> np.ndarray:
        """H^(-1/4) b (k, d), each problem with its factor."""
        return np.array([f.inverse_fourth_root(row) for f, row in zip(factors, b, strict=True)])


class Kept(ABC):
    """A Hessian made ready ahead of time."""

    @abstractmethod
    def without(self, U: np.ndarray, shift: Ridge, contraction: float) -> Factor:
        """H - U^T U - shift I, U (m, d) with few rows; contraction: a bound of |shift H^-1|."""


@dataclass(frozen=True)
class Cholesky(Factor):
    """H = L L^T; H itself is kept for those who want its roots."""

    lower: np.ndarray
    hessian: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> "Cholesky":
        # NumPy's LAPACK, as the sums: SciPy's brings threads of its own that fight with NumPy's.
        try:
            lower = np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError as failure:
            if not np.isfinite(hessian).all():
                raise TooLarge from None
            raise np.linalg.LinAlgError(
                "the Hessian is not positive definite; raise l2 or lower C"
            ) from failure
        if not np.isfinite(lower.diagonal()).all():
            raise TooLarge
        return cls(lower, hessian)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(lapack.dpotrs(self.lower.T, rhs, lower=0)[0])

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return inverse_fourth_root_times(self.hessian, b)


@dataclass(frozen=True)
class Inverse(Kept):
    """(H - ahead I)^-1 itself; a float32 copy serves where only a correction is wanted.

    ahead: the ridge of one row, which leaves with the first one anyway. Without that, a request of
    one row would need a series, at two more readings of the inverse. For n rows the difference is
    1 / n at most, relative (share is a bound of |ahead (H - ahead I)^-1|), which is nothing where
    the inverse serves as a guide.
    """

    hessian: np.ndarray
    inverse: np.ndarray
    rough: np.ndarray
    ahead: Ridge = 0.0
    share: float = 0.0

    @classmethod
    def of(cls, hessian: np.ndarray, ahead: Ridge = 0.0, share: float = 0.0) -> "Inverse":
        left = hessian
        if np.any(ahead):
            left = hessian.copy()
            left.ravel()[:: len(left) + 1] -= ahead
        if len(left) <= _SMALL:
            with blas_on_one_core():
                inverse = _inverted(left)
        else:
            inverse = _inverted(left)
        return cls(hessian, inverse, inverse.astype(np.float32), ahead, share)

    def beyond(self, shift: Ridge, contraction: float) -> tuple[Ridge, float]:
        """What a shift takes away besides what is away already, and a bound of that times the
        inverse; contraction: of |shift H^-1|."""
        largest = float(np.max(self.ahead))
        if largest == 0.0:
            return shift, contraction
        more = shift - self.ahead
        return more, self.share * float(np.max(np.abs(more))) / largest

    @property
    def fits_float32(self) -> bool:
        """Whether the rough copy is one: of rows longer than 1e19 it is zero."""
        diagonal = self.rough.diagonal()
        return bool((diagonal >= _TINY).all() and np.isfinite(diagonal).all())

    @cached_property
    def rounding(self) -> float:
        """About the error of x H^-1 x for a row x of length 1."""
        most, least = float(self.hessian.diagonal().max()), float(self.inverse.diagonal().max())
        return _EPS * most * least * least

    def without(self, U: np.ndarray, shift: Ridge, contraction: float) -> "DowndatedInverse":
        rough = U.dtype == np.float32 or contraction <= 1e-4
        return DowndatedInverse(self, U.astype(np.float64), shift, contraction, rough)

    def corrected(self, leaving: WeightedRows, shift: Ridge, precision: float) -> "Corrected":
        """H - D - shift I for many rows, as they are stored, with the curvature of each."""
        return Corrected(self, leaving, shift, precision)

    def downdated(self, U: np.ndarray, shift: Ridge) -> "Inverse":
        """About H - U^T U - shift I for a few rows U: a guide, not to be solved with alone, since
        the inverse is still that of H - U^T U - ahead I."""
        columns = U.T.astype(np.float64)
        Z = times(self.inverse, columns)
        inverse = self.inverse + Z @ (_inverse_of_gap(columns, Z) @ Z.T)
        hessian = self.hessian - columns @ columns.T
        hessian.ravel()[:: len(hessian) + 1] -= shift
        return Inverse(hessian, inverse, inverse.astype(np.float32))

    def solve(self, v: np.ndarray) -> np.ndarray:
        """About H^-1 v, for a vector (d,) or columns (d, m)."""
        return times(self.inverse, v) if v.ndim > 1 else np.asarray(self.inverse @ v)

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v."""
        return np.asarray(self.hessian @ v)

    def roughly(self, v: np.ndarray) -> np.ndarray:
        """H^-1 v to float32's precision, at half the traffic."""
        return np.asarray((self.rough @ v.astype(np.float32)).astype(np.float64))

    @classmethod
    def roughly_each(cls, kept: Sequence["Inverse"], vectors: np.ndarray) -> np.ndarray:
        """H^-1 v of each to float32's precision, (j, d)."""
        found = [one.roughly(v) for one, v in zip(kept, vectors, strict=True)]
        return np.array(found).reshape(vectors.shape)


@dataclass(frozen=True)
class DowndatedInverse(Factor):
    """H - U^T U - shift I from H^-1, by Woodbury, for a few rows U.

    P = H - U^T U has P^-1 = H^-1 + Z^T K^-1 Z with Z = U H^-1 and K = I - U Z^T. The shift (less
    what H^-1 is already without) has full rank; x = P^-1 rhs + shift P^-1 P^-1 rhs + ..., where
    each term is smaller than the one before by m / n at least, since P >= lam n I and
    shift = lam m. So the later terms may be rough where the rows are float32's or the factor is
    small. No BLAS: a pass over the rows may come next.
    `solve` raises TooFar where the rows have nearly all of the curvature somewhere.
    """

    base: Inverse
    U: np.ndarray
    shift: Ridge
    contraction: float
    rough: bool

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        inverses = self.base.inverse, self.base.rough if self.rough else self.base.inverse
        more, contraction = self.base.beyond(self.shift, self.contraction)
        shift = _on_each_column(more, len(rhs))
        # 0: of the ridge of one row, and of a penalty that stays when rows leave.
        terms = _MAX_STEPS if shift.any() else 0
        rows = np.concatenate([self.U, rhs[None]])
        limits = np.array([terms, contraction, _PRECISION, _LEAST_GAP, self.base.rounding])
        x = solve_downdated(inverses, rows, shift, limits)
        if np.isnan(x[0]):
            raise TooFar
        return x

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        def product(v: np.ndarray) -> np.ndarray:
            return np.asarray(self.base.product(v) - self.U.T @ (self.U @ v) - self.shift * v)

        return inverse_fourth_root_by_lanczos(product, b)


@dataclass(frozen=True)
class Corrected(Factor):
    """H - D - shift I for many rows that leave, by conjugate gradients and H^-1.

    D is their Hessian. With H^-1 to guide, a few readings of these rows do instead of
    m d^2 + d^3 / 3. No BLAS: its threads go on spinning after a product, in the way of the passes
    that follow.
    """

    base: Inverse
    leaving: WeightedRows
    shift: Ridge
    precision: float

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        shift = _on_each_column(self.shift - self.base.ahead, len(rhs))
        limits = _MAX_STEPS, self.precision
        x = solve_corrected(self.base.inverse, self.leaving, shift, rhs, limits)
        if np.isnan(x[0]):
            raise TooFar
        return x

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        def product(v: np.ndarray) -> np.ndarray:
            of_leaving = weighted_product(self.leaving, v)
            return np.asarray(self.base.product(v) - of_leaving - self.shift * v)

        return inverse_fourth_root_by_lanczos(product, b)


def _on_each_column(shift: Ridge, d: int) -> np.ndarray:
    """The shift as the compiled solvers take it."""
    if isinstance(shift, float):  # most are, and nothing is asked that takes time
        return np.full(d, shift)
    return np.array(np.broadcast_to(shift, d), np.float64)


class TooFar(ArithmeticError):
    """A guide that does not lead to the solution."""


@dataclass(frozen=True)
class Refined(Factor):
    """A Hessian known by its products, guided by a factor of one that is close to it.

    x <- x + guide^-1 (rhs - H x): each round multiplies the error by the same small number, seen
    in the first residual. A guide whose sums were float32's, or which was made before the weights
    moved a little, needs one or two products, each a pass over the rows. scale: the length beside
    which x is to be right to 1e-11, that of the weights it is added to.
    """

    guide: Factor
    product: Product
    scale: float

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        x = self.guide.solve(rhs)
        size = float(np.linalg.norm(rhs))
        error = 1.0
        for _ in range(_REFINEMENTS):
            residual = rhs - self.product(x)
            before, error = error, float(np.linalg.norm(residual)) / (size or 1.0)
            if error > _LEADS * before:
                raise TooFar
            x = np.asarray(x + self.guide.solve(residual))
            next_error = error * error / before * float(np.linalg.norm(x))
            if next_error <= _REFINED * self.scale:
                return x
        raise TooFar

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return self.guide.inverse_fourth_root(b)


@dataclass(frozen=True)
class Spectrum(Kept):
    """H = Q diag(values) Q^T: dearer to make than an inverse, but roots come for free."""

    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray) -> "Spectrum":
        return cls(*scipy.linalg.eigh(hessian, check_finite=False))

    def without(self, U: np.ndarray, shift: Ridge, contraction: float) -> "DowndatedSpectrum":
        if np.ndim(shift):
            raise ValueError("the eigenvectors change with a ridge that is not the same everywhere")
        return DowndatedSpectrum(self.vectors, self.values - shift, U.T.astype(np.float64))


@dataclass(frozen=True)
class DowndatedSpectrum(Factor):
    """Q diag Q^T - U U^T in the eigenbasis Q, where it is a diagonal less a few columns."""

    vectors: np.ndarray
    diagonal: np.ndarray
    U: np.ndarray

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(self.vectors @ self._solve(self._rotated, self.vectors.T @ rhs))

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return np.asarray(self.vectors @ self._root(self._rotated, self.vectors.T @ b))

    @cached_property
    def _rotated(self) -> np.ndarray:
        return times(self.vectors.T, self.U)

    def _solve(self, U: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        most, least = float(self.diagonal.max()), float(self.diagonal.min())
        longest = float(np.einsum("ij,ij->j", U, U).max(initial=0.0))
        if not _EPS * most * longest <= _LEAST_GAP * least * least:
            raise TooFar
        Z = U / self.diagonal[:, None]
        gap = np.eye(U.shape[1]) - U.T @ Z
        try:
            L = np.linalg.cholesky(gap)
        except np.linalg.LinAlgError:
            raise TooFar from None
        if not (L.diagonal() ** 2 >= _LEAST_GAP).all():
            raise TooFar
        return np.asarray(rhs / self.diagonal + Z @ np.linalg.solve(gap, Z.T @ rhs))

    def _root(self, U: np.ndarray, b: np.ndarray) -> np.ndarray:
        if U.shape[1] <= VERY_FEW_ROWS:
            return inverse_fourth_root_downdated(self.diagonal, U, b)
        return inverse_fourth_root_by_lanczos(lambda v: self.diagonal * v - U @ (U.T @ v), b)


def _inverted(hessian: np.ndarray) -> np.ndarray:
    """By SciPy's LAPACK: NumPy's has no inverse for symmetric matrices, and takes three times as
    long."""
    lower, failed = lapack.dpotrf(hessian.T, lower=1)
    if failed or not np.isfinite(lower.diagonal()).all():
        lower = np.asfortranarray(Cholesky.of(hessian).lower)  # or it says what is wrong
    inverse = np.ascontiguousarray(lapack.dpotri(lower, lower=1, overwrite_c=1)[0].T)
    mirror(inverse)
    return inverse


def rough_inverse(hessian: np.ndarray) -> np.ndarray:
    """About H^-1, by float32 at half the time of float64's; by float64 where that finds H not to be
    positive definite. To how many digits is left to those who are guided by it."""
    with blas_on_one_core():
        lower, failed = lapack.spotrf(hessian.astype(np.float32).T, lower=1, overwrite_a=1)
        if not failed:
            lower, failed = lapack.spotri(lower, lower=1, overwrite_c=1)
    inverse = np.ascontiguousarray(lower.T)
    if failed or not np.isfinite(inverse.diagonal()).all():
        return _inverted(hessian)
    mirror(inverse)
    return inverse


def times(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """matrix @ columns; for a few columns BLAS is three times faster one at a time."""
    if columns.shape[1] > 4:
        return np.asarray(matrix @ columns)
    return np.column_stack([matrix @ column for column in np.ascontiguousarray(columns.T)])


def _inverse_of_gap(U: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """(I - U^T Z)^-1, (m, m) for U and Z of m columns."""
    return np.linalg.inv(np.eye(U.shape[1]) - U.T @ Z)
