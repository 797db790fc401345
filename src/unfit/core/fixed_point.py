"""Steps of a stream of requests, all taken from one point where sums are known: no pass over rows.

At a point w the gradient G and the inverse Hessian P of all rows are known. When rows leave, one
request after the other, the weights after each are those of one Newton step from w, with all that
has left since taken as one batch:

    G' = G - sum (slope x) - l2 m w          H' = H - U^T U - l2 m I,  rows of U: sqrt(curvature) x
    step = -(H - U^T U)^-1 G'  =  -(y + Z^T K^-1 U y),    y = P G',  Z = U P,  K = I - U Z^T

Z and K grow by one product P x for every row that leaves, and y changes by one with the gradient of
these rows, which is all that a request costs.
When many have left, P itself is brought up to date, P + Z^T K^-1 Z, and a new list begins. The
shift l2 m I is left out, but for that of one row (core.factors.Inverse): what that leaves of the
gradient, l2 m |step|, is small beside the rest, and is seen by whoever measures. P may be float32,
at half the traffic, which leaves less than `ROUGH` of the gradient it is applied to. Where there
are few columns, sums are reduced and solved with.

The step is as wrong as the curvature has changed over it, which grows with the square of its
length. `energy` = step.H step measures that length: whoever has measured a residual at one energy
knows what to expect at another. Knows core.statistics, core.objective, core.factors and
core.kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unfit.core.factors import Cholesky, Inverse, TooFar
from unfit.core.kernels.cholesky import grown, solved, solved_rows
from unfit.core.kernels.products import combination, few_products
from unfit.core.objective import Rows, gradient_sum
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics, gradient_of_rows

NARROW = 256  # columns up to which a Hessian is factorised at every request
ROUGH = 1e-4  # of a gradient, which products with a float32 inverse may leave
_LISTED = 0.25  # rows that have left, for each column, until the inverse is brought up to date
_AT_ONCE = 0.5  # rows of one request, for each column, beyond which another way is cheaper,
_OF_A_PASS = 8.0  # and rows times columns for each row that remains: then another pass costs less


@dataclass(frozen=True)
class _Left:
    """What has left, for one problem: U and Z = U P, (m, d), and L L^T = K = I - U Z^T, (m, m)."""

    U: np.ndarray
    Z: np.ndarray
    L: np.ndarray

    @classmethod
    def nobody(cls, d: int, dtype: np.dtype) -> "_Left":
        return cls(np.zeros((0, d), dtype), np.zeros((0, d), dtype), np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.U)

    def with_rows(self, U: np.ndarray, Z: np.ndarray) -> "_Left":
        """TooFar where so much has left that what remains is not seen to be curved."""
        everyone = np.concatenate([self.Z, Z])
        L = grown(self.L, np.eye(len(U), len(everyone), len(self)) - few_products(everyone, U))
        if not np.isfinite(np.diag(L)).all():
            raise TooFar
        return _Left(np.concatenate([self.U, U]), everyone, L)

    def downdated(self, y: np.ndarray) -> np.ndarray:
        """(H - U^T U)^-1 v from y = P v."""
        if len(self) == 0:
            return y
        return np.asarray(y + combination(solved(self.L, few_products(self.U, y[None])[0]), self.Z))

    def inverse(self, P: np.ndarray) -> np.ndarray:
        """(H - U^T U)^-1 itself."""
        weighted = solved_rows(self.L, self.Z)
        return np.asarray(P + few_products(np.ascontiguousarray(self.Z.T), weighted.T))


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """statistics: at the point, before anything left it or, with few columns, of what remains.

    inverses: P of each problem, without the rows that left before those of `left`. before (k, d):
    the gradient sum at the point when it was made, and image_before = P before; now and image: the
    same of the rows that remain. n: rows that remain.
    """

    statistics: Statistics
    n: int
    before: np.ndarray
    now: np.ndarray
    inverses: Sequence[np.ndarray] = ()
    image_before: np.ndarray | None = None
    image: np.ndarray | None = None
    left: Sequence[_Left] = ()

    @property
    def weights(self) -> np.ndarray:
        return self.statistics.weights

    @property
    def narrow(self) -> bool:
        return bool(self.weights.shape[1] <= NARROW)

    @classmethod
    def of(cls, known: Statistics, *, precise: bool = True) -> "FixedPoint | None":
        """A point from sums with inverses; None where there are no such. precise: in float64."""
        W, G, known = known.weights, known.gradient_sum, replace(known, class_split=None)
        if W.shape[1] <= NARROW:
            return cls(statistics=known, n=known.n, before=G, now=G)
        kept = [one for one in known.factors or () if isinstance(one, Inverse)]
        if len(kept) < len(W):
            return None
        inverses = [one.inverse if precise else one.rough for one in kept]
        image = _products(inverses, G)
        return cls(
            statistics=known,
            n=known.n,
            before=G,
            now=G,
            inverses=inverses,
            image_before=image,
            image=image,
            left=[_Left.nobody(W.shape[1], one.dtype) for one in inverses],
        )

    def without(self, rows: Rows) -> "FixedPoint":
        """When more rows leave. TooFar where the point is too far away for so many."""
        if self.narrow:
            going = Statistics.of_rows(rows, self.weights, self._penalty)
            reduced = self.statistics.minus(going)
            return replace(self, statistics=reduced, n=reduced.n, now=reduced.gradient_sum)
        d = self.weights.shape[1]
        if len(rows) > _AT_ONCE * d or len(rows) * d > _OF_A_PASS * self.n:
            raise TooFar
        if len(self.left[0]) + len(rows) > _LISTED * d and len(self.left[0]):
            return self._up_to_date().without(rows)
        assert self.image is not None
        dtype = self.inverses[0].dtype
        X = np.asarray(rows.X, dtype)
        X = np.column_stack([X, np.ones(len(X), dtype)]) if rows.intercept else X
        gradient, curvatures = self._of_leaving(rows)
        roots = np.sqrt(curvatures).astype(dtype)  # (k, m)
        image, left = self.image.copy(), []
        for c, inverse in enumerate(self.inverses):
            found = few_products(inverse, np.vstack([X, gradient[c].astype(dtype)]))
            image[c] -= found[-1]
            root = roots[c, :, None]
            left.append(self.left[c].with_rows(X * root, found[:-1] * root))
        return replace(self, n=self.n - len(rows), now=self.now - gradient, image=image, left=left)

    def _of_leaving(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The gradient (k, d) of rows that leave, with their penalty, and curvatures (k, m)."""
        curvatures = np.zeros((len(self.weights), len(rows)))
        gradient = gradient_sum(rows, self.weights, None, curvatures)
        ridge = self._penalty.leaving(rows.total_weight, self.weights.shape[1])
        return gradient + ridge * self.weights, curvatures

    def _up_to_date(self) -> "FixedPoint":
        """With inverses that know what has left."""
        assert self.image_before is not None
        assert self.image is not None
        inverses = [one.inverse(P) for one, P in zip(self.left, self.inverses, strict=True)]
        return replace(
            self,
            inverses=inverses,
            image_before=self._downdated(self.image_before),
            image=self._downdated(self.image),
            left=[_Left.nobody(len(P), P.dtype) for P in inverses],
        )

    @property
    def _penalty(self) -> Penalty:
        return self.statistics.penalty

    def _downdated(self, images: np.ndarray) -> np.ndarray:
        return np.array([one.downdated(y) for one, y in zip(self.left, images, strict=True)])

    def solve(self, *, remaining: float, deleted: float) -> np.ndarray:
        """H'^-1 of a combination of the two gradients: of what remains, of what has left."""
        if self.narrow:
            return self.solve_for(remaining * self.now + deleted * (self.before - self.now))
        assert self.image_before is not None
        assert self.image is not None
        return self._downdated(remaining * self.image + deleted * (self.image_before - self.image))

    def solve_for(self, rhs: np.ndarray) -> np.ndarray:
        """H'^-1 of any vectors (k, d), at one more product with P."""
        if self.narrow:
            factors = [Cholesky.of(h) for h in self.statistics.hessian_sum]
            return np.array([f.solve(v) for f, v in zip(factors, rhs, strict=True)])
        return self._downdated(_products(self.inverses, rhs))

    def pull_of(self, rows: Rows, weights: np.ndarray) -> np.ndarray:
        """How far rows pull weights near an optimum: H'^-1 of their gradient there, (k, d)."""
        return self.solve_for(gradient_of_rows(rows, weights, self._penalty))


def _products(inverses: Sequence[np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """P v for each problem, (k, d) in float64."""
    pairs = zip(inverses, vectors, strict=True)
    return np.array([few_products(P, v[None])[0] for P, v in pairs], np.float64)
