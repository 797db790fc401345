"""Hessians of fewer rows than columns: solved in the number of rows.

With U the rows sqrt(curvature) x, n of them, H = U^T U + r I has d columns but only n directions
that are not r. So everything comes from the n x n matrix K = U U^T + r I:

    H^-1 g      = (g - U^T K^-1 U g) / r                                     (Woodbury)
    H^(-1/4) b  = r^(-1/4) b + U^T Q diag(f) Q^T U b,   U U^T = Q diag(s) Q^T,
                  f = ((s + r)^(-1/4) - r^(-1/4)) / s

No d x d array is made. The Gram matrix of the rows does not depend on the weights, and serves for
every Newton step and every request: only its entries' weights change. Knows core.objective and
core.factors.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from unfit.core.factors import Factor
from unfit.core.objective import Rows, gathered

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

    def factors(self, W: np.ndarray, mask: np.ndarray, ridge: float) -> list["Dual"]:
        """For each problem the Hessian of the rows in the mask at W, plus ridge I."""
        keep = mask[self.places]
        rows, products = self.rows, self.products
        if not keep.all():
            rows, products = rows.take(keep), products[np.ix_(keep, keep)]
        roots = np.sqrt(rows.curvatures(W)).T
        return [Dual(rows.X, root, products, ridge) for root in roots]


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
        x = self._solve(rhs)
        enough = _PRECISION * float(np.linalg.norm(rhs))
        for _ in range(_REFINEMENTS):
            residual = rhs - self.product(x)
            if float(np.linalg.norm(residual)) <= enough:
                break
            x = x + self._solve(residual)
        return x

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        inner = lapack.dpotrs(self._lower.T, self.root * (self.X @ rhs), lower=0)[0]
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
