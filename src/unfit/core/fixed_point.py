"""Steps of a stream of requests, all taken from one point where sums are known: no pass over rows.

At a point w the gradient G and the inverse Hessian P of all rows are known. When rows leave, one
request after the other, the weights after each are those of one Newton step from w, with all that
has left since taken as one batch:

    G' = G - sum (slope x) - l2 m w          H' = H - U^T U - l2 m I,  rows of U: sqrt(curvature) x
    step = -(H - U^T U)^-1 G'  =  -(y + Z K^-1 U y),    y = P G',  Z = P U^T,  K = I - U Z

y and Z grow by one product P x for every row that leaves, which is all that a request costs. The
shift l2 m I is left out: what that leaves of the gradient, l2 m |step|, is small beside the rest,
and is seen by whoever measures. Where there are few columns, sums are reduced and solved with.

The step is as wrong as the curvature has changed over it, which grows with the square of its
length. `energy` = step.H step measures that length: whoever has measured a residual at one energy
knows what to expect at another. Knows core.statistics, core.objective and core.factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unfit.core.factors import Cholesky, Inverse, TooFar, times
from unfit.core.objective import Rows
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics, gradient_of_rows

NARROW = 256  # columns up to which a Hessian is factorised at every request
_SHARE = 0.25  # rows that may leave a point, for each column: beyond, their inverse costs too much


@dataclass(frozen=True)
class _Left:
    """What has left, for one problem: U (m, d) and Z = P U^T (d, m)."""

    U: np.ndarray
    Z: np.ndarray

    def __len__(self) -> int:
        return len(self.U)

    def with_rows(self, U: np.ndarray, Z: np.ndarray) -> "_Left":
        return _Left(np.concatenate([self.U, U]), np.concatenate([self.Z, Z], axis=1))

    def downdated(self, y: np.ndarray) -> np.ndarray:
        """(H - U^T U)^-1 v from y = P v."""
        if len(self) == 0:
            return y
        gap = np.eye(len(self)) - self.U @ self.Z
        return np.asarray(y + self.Z @ np.linalg.solve(gap, self.U @ y))


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """statistics: at the point, before anything left it or, with few columns, of what remains.

    before (k, d): the gradient sum at the point when it was made, and image_before = P before; now
    and image: the same of the rows that remain. image_w: P w, w without the columns that are not
    penalised. n: rows that remain.
    """

    statistics: Statistics
    n: int
    before: np.ndarray
    now: np.ndarray
    image_before: np.ndarray
    image: np.ndarray
    image_w: np.ndarray
    left: Sequence[_Left]

    @property
    def weights(self) -> np.ndarray:
        return self.statistics.weights

    @property
    def narrow(self) -> bool:
        return bool(self.weights.shape[1] <= NARROW)

    @property
    def gone(self) -> int:
        """Rows that have left."""
        return self.statistics.n - self.n if not self.narrow else 0

    @classmethod
    def of(cls, known: Statistics) -> "FixedPoint | None":
        """A point from sums with inverses; None where there are no such."""
        factors = known.factors or ()
        inverses = [one for one in factors if isinstance(one, Inverse)]
        W, G = known.weights, known.gradient_sum
        if W.shape[1] > NARROW and len(inverses) < len(W):
            return None
        nothing = np.zeros_like(W)
        images = [nothing, nothing]
        if W.shape[1] > NARROW:
            images = [
                np.array([one.inverse @ v for one, v in zip(inverses, vs, strict=True)])
                for vs in (G, W * known.penalty.covered(W.shape[1]))
            ]
        d = W.shape[1]
        empty = _Left(np.zeros((0, d)), np.zeros((d, 0)))
        return cls(
            statistics=replace(known, class_split=None),
            n=known.n,
            before=G,
            now=G,
            image_before=images[0],
            image=images[0],
            image_w=images[1],
            left=[empty] * len(W),
        )

    def without(self, rows: Rows) -> "FixedPoint":
        """When more rows leave. TooFar where the point is too far away for so many."""
        if self.narrow:
            going = Statistics.of_rows(rows, self.weights, self._penalty)
            reduced = self.statistics.minus(going)
            return replace(self, statistics=reduced, n=reduced.n, now=reduced.gradient_sum)
        d = self.weights.shape[1]
        if self.gone + len(rows) > _SHARE * d:
            raise TooFar
        X = np.asarray(rows.X, np.float64)
        X = np.column_stack([X, np.ones(len(X))]) if rows.intercept else X
        slopes, curvatures = rows.slopes_and_curvatures(self.weights)  # (m, k)
        roots = np.sqrt(curvatures, dtype=np.float64)
        image, left = self.image.copy(), []
        shift = self._penalty.per_row * rows.total_weight
        for c, inverse in enumerate(self._inverses):
            S = times(inverse, X.T)  # (d, m)
            image[c] -= S @ slopes[:, c] + shift * self.image_w[c]
            left.append(self.left[c].with_rows(X * roots[:, c, None], S * roots[:, c]))
        gradient = slopes.T @ X + self.statistics.ridge_of(rows) * self.weights
        return replace(self, n=self.n - len(rows), now=self.now - gradient, image=image, left=left)

    @property
    def _penalty(self) -> Penalty:
        return self.statistics.penalty

    @property
    def _inverses(self) -> list[np.ndarray]:
        factors = self.statistics.factors or ()
        return [one.inverse for one in factors if isinstance(one, Inverse)]

    def solve(self, *, remaining: float, deleted: float) -> np.ndarray:
        """H'^-1 of a combination of the two gradients: of what remains, of what has left."""
        if self.narrow:
            return self.solve_for(remaining * self.now + deleted * (self.before - self.now))
        images = remaining * self.image + deleted * (self.image_before - self.image)
        return np.array([one.downdated(y) for one, y in zip(self.left, images, strict=True)])

    def solve_for(self, rhs: np.ndarray) -> np.ndarray:
        """H'^-1 of any vectors (k, d), at one more product with P."""
        if self.narrow:
            factors = [Cholesky.of(h) for h in self.statistics.hessian_sum]
            return np.array([f.solve(v) for f, v in zip(factors, rhs, strict=True)])
        images = [inverse @ v for inverse, v in zip(self._inverses, rhs, strict=True)]
        return np.array([one.downdated(y) for one, y in zip(self.left, images, strict=True)])

    def pull_of(self, rows: Rows, weights: np.ndarray) -> np.ndarray:
        """How far rows pull weights near an optimum: H'^-1 of their gradient there, (k, d)."""
        return self.solve_for(gradient_of_rows(rows, weights, self._penalty))
