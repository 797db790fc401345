"""Hessians of fewer rows than columns: solved in the number of rows.

With U the rows sqrt(curvature) x, n of them, H = U^T U + r I has d columns but only n directions
that are not r. So everything comes from the n x n matrix K = U U^T + r I:

    H^-1 g      = (g - U^T K^-1 U g) / r                                     (Woodbury)
    H^(-1/4) b  = r^(-1/4) b + U^T Q diag(f) Q^T U b,   U U^T = Q diag(s) Q^T,
                  f = ((s + r)^(-1/4) - r^(-1/4)) / s

An intercept that is not penalised is one more row and column around such a matrix, and its Schur
complement is r u.K^-1 u, u the roots of the curvatures. No d x d array is made. The Gram matrix of
the rows does not depend on the weights, and serves for every Newton step and every request: only
its entries' weights change. Knows core.objective, core.factors, core.noise and core.penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from unfit.core.factors import Factor, Product
from unfit.core.noise import inverse_fourth_root_by_lanczos
from unfit.core.objective import Rows, gathered
from unfit.core.penalty import Ridge

WIDE_FROM = 256  # columns from which the number of rows is looked at
_REFINEMENTS = 2  # at most: the difference in Woodbury's formula costs digits where r is small
_PRECISION = 1e-12  # of the residual, relative


@dataclass(frozen=True)
class Gram:
    """Some rows in float64, their places among all, and X X^T; the intercept is a column of X."""

    rows: Rows
    places: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, rows: Rows, mask: np.ndarray) -> "Gram":
        places = np.flatnonzero(mask)
        X = np.ones((len(places), rows.d))
        X[:, : rows.X.shape[1]] = gathered(rows.X, places)
        weight = None if rows.sample_weight is None else rows.sample_weight[places]
        return cls(Rows(X, rows.codes[places], False, rows.loss, weight), places, X @ X.T)

    def has(self, mask: np.ndarray) -> bool:
        """Whether all rows of a mask are among these."""
        return int(np.count_nonzero(mask[self.places])) == int(np.count_nonzero(mask))

    def factors(
        self, W: np.ndarray, mask: np.ndarray, ridge: Ridge
    ) -> "Sequence[Dual | FreeIntercept]":
        """For each problem the Hessian of the rows in the mask at W, plus the ridge: one number, or
        one a column where the last of them, an intercept, has 0."""
        keep = mask[self.places]
        rows, products = self.rows, self.products
        if not keep.all():
            rows, products = rows.take(keep), products[np.ix_(keep, keep)]
        roots = np.sqrt(rows.curvatures(W)).T
        if not isinstance(ridge, np.ndarray):
            return [Dual(rows.X, root, products, ridge) for root in roots]
        others, products = rows.X[:, :-1], products - 1.0
        inner = [Dual(others, root, products, float(ridge[0])) for root in roots]
        return [FreeIntercept(one, rows.X, ridge) for one in inner]


@dataclass(frozen=True)
class Dual(Factor):
    """H = X^T diag(root^2) X + ridge I, for X (n, d) with few rows and products = X X^T."""

    X: np.ndarray
    root: np.ndarray
    products: np.ndarray
    ridge: float

    @cached_property
    def _weighted(self) -> np.ndarray:
        """U U^T."""
        return np.asarray(self.root[:, None] * self.products * self.root)

    @cached_property
    def _lower(self) -> np.ndarray:
        K = self._weighted.copy()
        K.ravel()[:: len(K) + 1] += self.ridge
        return np.linalg.cholesky(K)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self._weighted)
        return values.clip(0.0), vectors

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v."""
        return np.asarray((self.root**2 * (self.X @ v)) @ self.X + self.ridge * v)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return _refined(self._solve, self.product, rhs)

    def of_rows(self, v: np.ndarray) -> np.ndarray:
        """K^-1 v, v (n,)."""
        return np.asarray(lapack.dpotrs(self._lower.T, v, lower=0)[0])

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        inner = self.of_rows(self.root * (self.X @ rhs))
        return np.asarray((rhs - (self.root * inner) @ self.X) / self.ridge)

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        values, vectors = self._spectrum
        outer = self.ridge**-0.25
        share = values / self.ridge
        small = share < 1e-12  # the limit of f, where s itself is rounding
        f = np.where(small, -0.25, np.expm1(-0.25 * np.log1p(share)) / np.where(small, 1.0, share))
        along = vectors.T @ (self.root * (self.X @ b))
        inner = vectors @ (f * outer / self.ridge * along)
        return np.asarray(outer * b + (self.root * inner) @ self.X)


@dataclass(frozen=True)
class FreeIntercept(Factor):
    """H = X^T diag(root^2) X + diag(ridge), the last column all ones and its ridge 0.

    inner: the same of the other columns, A. With b and c the last column of H,

        H [x; t] = [g; h]:   t = (h - b.A^-1 g) / (c - b.A^-1 b),   x = A^-1 g - t A^-1 b.
    """

    inner: Dual
    X: np.ndarray
    ridge: np.ndarray

    @cached_property
    def _border(self) -> tuple[np.ndarray, np.ndarray, float]:
        """b, A^-1 b and the Schur complement c - b.A^-1 b, which rounding leaves above 0."""
        root = self.inner.root
        b = root**2 @ self.inner.X
        schur = self.inner.ridge * float(root @ self.inner.of_rows(root))
        if not schur > 0:
            raise np.linalg.LinAlgError(
                "no row is curved, so nothing holds the intercept; penalise it, raise l2 or lower C"
            )
        return b, self.inner.solve(b), schur

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v."""
        return np.asarray((self.inner.root**2 * (self.X @ v)) @ self.X + self.ridge * v)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return _refined(self._solve, self.product, rhs)

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        b, of_border, schur = self._border
        x = self.inner.solve(rhs[:-1])
        last = (rhs[-1] - b @ x) / schur
        return np.append(x - last * of_border, last)

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return inverse_fourth_root_by_lanczos(self.product, b)


def _refined(solve: Product, product: Product, rhs: np.ndarray) -> np.ndarray:
    """H^-1 rhs, with what a first solution leaves of rhs solved for again."""
    x = solve(rhs)
    enough = _PRECISION * float(np.linalg.norm(rhs))
    for _ in range(_REFINEMENTS):
        residual = rhs - product(x)
        if float(np.linalg.norm(residual)) <= enough:
            break
        x = x + solve(residual)
    return x
