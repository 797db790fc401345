"""The regularised objective of a linear model, as sums over rows.

    L(w)     = sum s value(x.w, t) + (lam n / 2) |w|^2
    gradient = sum s slope(x.w, t) x + lam n w
    hessian  = sum s curvature(x.w, t) x x^T + lam n I

s is the sample weight of a row, 1 where there are none, and n the sum of these. The functions here
give the data terms; `Statistics` and the methods add the regulariser (core.penalty). Shapes, once
for all: X (n, p) in float32 or float64, codes (n,) the class of each row, W (k, d) float64
with d = p + 1 when there is an intercept (a column of ones that is never stored), k = 1 for two
classes and otherwise one one-vs-rest problem per class. Sums are float64 whatever X is. Knows
core.losses, core.predictions and core.kernels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from unfit.core.kernels.atomics import CACHE_LINE
from unfit.core.kernels.bits import add_bits, no_bits
from unfit.core.kernels.narrow import narrow, sums_of_narrow_rows
from unfit.core.kernels.parallel import available_threads, run_parts, run_threads, threads_and_parts
from unfit.core.kernels.rows import RowArrays
from unfit.core.kernels.sums import add_value_gradient, add_weighted_products
from unfit.core.kernels.vectors import squares_of_rows
from unfit.core.losses import LOGISTIC, Loss
from unfit.core.predictions import margins

BLOCK_BYTES = 2 << 20  # a block of scaled rows: it stays in the cache,
BLOCK_ROWS = 2048  # unless rows are so long that SYRK would starve
_WORTH_A_THREAD = 1 << 18  # multiply-adds
_PLACES_PER_SORTED = 4096  # places for each of those that are sorted sooner than put into a set
_MOST = 0.95  # of the rows, below which a product is worth an index of them
_INDEXED = 1 << 20  # rows whose numbers are written down at a time
_UNWEIGHTED = np.zeros(0)

# products(problems (j,), V (j, d)) -> (j, d): the Hessian sum of each problem times its vector
Products = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Rows:
    """Some rows with their class codes and loss; `intercept`: a column of ones goes with them.

    sample_weight (n,), float64 and >= 0, multiplies value, slope and curvature of each row; None
    is 1 for all.
    """

    X: np.ndarray
    codes: np.ndarray
    intercept: bool
    loss: Loss = LOGISTIC
    sample_weight: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    def take(self, index: np.ndarray) -> "Rows":
        weight = None if self.sample_weight is None else self.sample_weight[index]
        X, codes = gathered(self.X, index), self.codes[index]
        return Rows(X, codes, self.intercept, self.loss, weight)

    @property
    def total_weight(self) -> float:
        """The sum of the sample weights: the number of rows where there are none."""
        return float(len(self) if self.sample_weight is None else self.sample_weight.sum())

    @property
    def kernel_weights(self) -> np.ndarray:
        """The sample weights as kernels take them: empty for 1 everywhere."""
        return _UNWEIGHTED if self.sample_weight is None else self.sample_weight

    def weighted(self, values: np.ndarray) -> np.ndarray:
        """Values (n, k) of the rows, each times its sample weight."""
        return values if self.sample_weight is None else values * self.sample_weight[:, None]

    def spread(self, places: np.ndarray) -> "Rows":
        """The rows in the places where the mask is True, rows of zeros elsewhere."""
        weight = None if self.sample_weight is None else spread(self.sample_weight, places)
        X, codes = spread(self.X, places), spread(self.codes, places)
        return replace(self, X=X, codes=codes, sample_weight=weight)

    def copied(self) -> "Rows":
        """The same with arrays of their own."""
        weight = None if self.sample_weight is None else np.array(self.sample_weight)
        return replace(self, X=np.array(self.X), codes=np.array(self.codes), sample_weight=weight)

    def joined(self, other: "Rows") -> "Rows":
        """These rows and then the others, of the same kind."""
        X, codes = np.concatenate([self.X, other.X]), np.concatenate([self.codes, other.codes])
        return replace(self, X=X, codes=codes, sample_weight=self._joined_weights(other))

    def _joined_weights(self, other: "Rows") -> np.ndarray | None:
        if self.sample_weight is None or other.sample_weight is None:
            return None
        return np.concatenate([self.sample_weight, other.sample_weight])

    def holds(self, X: Any) -> bool:
        """Whether the numbers of X, in the precision of these rows, are theirs to the bit."""
        if sparse.issparse(X) or np.shape(X) != self.X.shape:
            return False
        return np.array_equal(np.asarray(X).astype(self.X.dtype, copy=False), self.X)

    def dense(self) -> np.ndarray:
        """The numbers of a few rows, zeros included, (n, p)."""
        return self.X

    def squared_lengths(self) -> np.ndarray:
        """|x|^2 of every row, intercept included, (n,), in float64."""
        return squares_of_rows(self.arrays[0]) + self.intercept

    def rough_squares(self) -> np.ndarray:
        """|x|^2 of every row without its intercept, (n,), in the precision of X at best."""
        return np.asarray(np.einsum("ij,ij->i", self.X, self.X))

    def margins(self, W: np.ndarray) -> np.ndarray:
        """x.w for every row and problem, (n, k)."""
        return margins(self.X, W)

    def value_gradient(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums of values (k,) and gradients (k, d) of the loss over these rows, in float64."""
        return value_gradient_sum(self, W)

    @property
    def arrays(self) -> RowArrays:
        """The rows as kernels take them."""
        return self.X, self.codes, self.intercept

    def targets(self, k: int) -> np.ndarray:
        """1 where a row is in the class of a problem, (n, k), in the precision of X."""
        return np.asarray(self.codes[:, None] == positive_codes(k)).astype(self.X.dtype)

    def slopes(self, W: np.ndarray) -> np.ndarray:
        """The slope of the loss for every row and problem, (n, k), in the precision of X."""
        found = self.loss.slope(margins(self.X, W), self.targets(len(W)))
        return np.asarray(self.weighted(found), self.X.dtype)

    def curvatures(self, W: np.ndarray) -> np.ndarray:
        """The curvature of the loss for every row and problem, (n, k), in the precision of X."""
        found = self.loss.curvature(margins(self.X, W), self.targets(len(W)))
        return np.asarray(self.weighted(found), self.X.dtype)


def spread(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values in the places where the mask is True, zeros elsewhere."""
    whole = np.zeros((len(at), *values.shape[1:]), values.dtype)
    whole[at] = values
    return whole


def check_index(index: np.ndarray, n: int) -> None:
    """Kernels do not look where they read."""
    if index.size and not 0 <= index.min() <= index.max() < n:
        raise IndexError(f"rows {index.min()} to {index.max()} of {n}")


def all_different(places: np.ndarray, n: int) -> bool:
    """Whether no place below n is there twice."""
    if len(places) < n // _PLACES_PER_SORTED:
        ordered = np.sort(places)
        return not (ordered[1:] == ordered[:-1]).any()
    return int(add_bits(places, no_bits(n))) == 0


def gathered(X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """X[index], by all cores where there is much to copy."""
    worth = 1 + index.size * X.shape[1] // _WORTH_A_THREAD
    threads = 1 if worth == 1 else min(available_threads(), worth)
    if threads == 1 or index.dtype == np.bool_:
        return np.asarray(X[index])
    check_index(index, len(X))
    out = np.empty((index.size, X.shape[1]), X.dtype)

    def body(t: int) -> None:
        part = slice(index.size * t // threads, index.size * (t + 1) // threads)
        np.take(X, index[part], axis=0, out=out[part], mode="clip")  # which copies once

    run_threads(body, threads)
    return out


def problems(n_classes: int) -> int:
    """k: one problem for two classes, else one a class."""
    return 1 if n_classes == 2 else n_classes


def positive_codes(k: int) -> np.ndarray:
    """The class code that is target 1 in each of the k problems."""
    return np.array([1], np.int32) if k == 1 else np.arange(k, dtype=np.int32)


def blocks(rows: Rows, mask: np.ndarray | None = None) -> Iterator[Rows]:
    """The rows in blocks of consecutive ones, without those where mask is False."""
    step = block_rows(rows)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        keep = None if mask is None or mask[part].all() else mask[part]
        yield replace(
            rows,
            X=_part(rows.X, part, keep),
            codes=_part(rows.codes, part, keep),
            sample_weight=None
            if rows.sample_weight is None
            else _part(rows.sample_weight, part, keep),
        )


def _part(values: np.ndarray, part: slice, keep: np.ndarray | None) -> np.ndarray:
    return values[part] if keep is None else values[part][keep]


def block_rows(rows: Rows) -> int:
    return min(max(1, len(rows)), max(BLOCK_ROWS, BLOCK_BYTES // (rows.d * rows.X.itemsize)))


def root_weighted(rows: Rows, W: np.ndarray) -> list[np.ndarray]:
    """For each problem U with rows sqrt(curvature) x: U^T U = sum curvature x x^T."""
    roots = np.sqrt(rows.curvatures(W))
    return [scaled_rows(rows.X, root, rows.intercept, None) for root in roots.T]


def scaled_rows(
    X: np.ndarray, weight: np.ndarray, intercept: bool, out: np.ndarray | None
) -> np.ndarray:
    """weight x for every row, intercept included; out: scratch with at least as many rows."""
    n, p = X.shape
    scaled = np.empty((n, p + intercept), X.dtype) if out is None else out[:n]
    np.multiply(X, weight[:, None], out=scaled[:, :p])
    if intercept:
        scaled[:, p] = weight
    return scaled


def hessian_sum(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None, *, precise: bool = False
) -> np.ndarray:
    """sum curvature x x^T for each problem, (k, d, d): float64 across blocks of rows.

    precise: float64 within them, too, whatever the rows are.
    """
    if not precise and narrow(rows.X, len(W)):
        return _narrow_hessian(rows, W, mask)
    k, d = W.shape
    total = np.zeros((k, d, d))
    scratch = np.empty((block_rows(rows), d), np.float64 if precise else rows.X.dtype)
    for found in blocks(rows, mask):
        part = replace(found, X=found.X.astype(np.float64)) if precise else found
        roots = np.sqrt(part.curvatures(W))
        for c in range(k):
            U = scaled_rows(part.X, roots[:, c], rows.intercept, scratch)
            total[c] += U.T @ U  # NumPy calls SYRK for a matrix times its own transpose
    return total


def _narrow_hessian(rows: Rows, W: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    total = np.zeros((W.shape[0], rows.d, rows.d))
    for start in range(0, len(rows), _INDEXED):
        stop = min(start + _INDEXED, len(rows))
        keep = np.arange(start, stop) if mask is None else start + np.flatnonzero(mask[start:stop])
        total += narrow_sums(rows, keep, W)[1]
    return total


def narrow_sums(rows: Rows, index: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sum slope x, (k, d), and sum curvature x x^T, (k, d, d), over narrow rows at an index."""
    problems = positive_codes(len(W)), W
    return sums_of_narrow_rows(
        rows.arrays, index, rows.loss.compiled, problems, rows.kernel_weights
    )


def value_gradient_products(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, Products]:
    """Data terms of L (k,) and of its gradient (k, d), and products with the Hessian sums.

    Values and gradients are float64's. A product is computed in the precision of its vectors over
    a thousand rows, in float64 across them. A pass over the rows each: with a good guide at hand,
    cheaper than the Hessian by far.
    """
    n, (k, d) = len(rows), W.shape
    curvatures = np.zeros((k, n))  # 0 for the rows left out
    values, gradients = value_gradient_sum(rows, W, mask, curvatures)
    arrays, index = rows.arrays, np.zeros(0, np.intp)
    if mask is not None and np.count_nonzero(mask) < _MOST * n:
        index = np.flatnonzero(mask)
    count = index.size or n

    def products(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
        asked = np.asarray(problems, np.intp), np.ascontiguousarray(V)
        threads, parts = threads_and_parts(count * d * len(V), _WORTH_A_THREAD)
        sums = np.zeros((parts, len(V), d))

        def body(part: int) -> None:
            chosen = index, count * part // parts, count * (part + 1) // parts
            add_weighted_products(arrays, curvatures, asked, chosen, sums[part])

        run_parts(body, parts, threads)
        return np.asarray(sums.sum(axis=0))

    return values, gradients, products


def longest_square(rows: Rows, mask: np.ndarray | None = None) -> float:
    """The largest |x|^2, intercept included; a thousandth more than it is, for rounding."""
    found = (part.rough_squares().max(initial=0.0) for part in blocks(rows, mask))
    return 1.001 * (float(max(found, default=0.0)) + rows.intercept)


def gram_sum(rows: Rows, mask: np.ndarray | None = None) -> np.ndarray:
    """sum x x^T, (d, d)."""
    total = np.zeros((rows.d, rows.d))
    p = rows.X.shape[1]
    for part in blocks(rows, mask):
        X = part.X
        total[:p, :p] += X.T @ X
        if rows.intercept:
            column = X.sum(axis=0, dtype=np.float64)
            total[p, :p] += column
            total[:p, p] += column
            total[p, p] += len(X)
    return total


def value_gradient_sum(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None, curvatures: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Data terms of L (k,) and of its gradient (k, d) in one pass over the rows, in float64.

    curvatures (k, n): takes those of the rows in the mask.
    """
    return _summed(rows, W, mask, curvatures, len(W))


def gradient_sum(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None, curvatures: np.ndarray | None = None
) -> np.ndarray:
    """The gradient alone, which takes a fifth less: a value is a logarithm."""
    return _summed(rows, W, mask, curvatures, 0)[1]


def _summed(
    rows: Rows,
    W: np.ndarray,
    mask: np.ndarray | None,
    curvatures: np.ndarray | None,
    valued: int,
) -> tuple[np.ndarray, np.ndarray]:
    """valued: of how many problems values are wanted, all or none."""
    n = len(rows)
    k, d = W.shape
    threads, parts = threads_and_parts(n * d * k, _WORTH_A_THREAD)
    apart = CACHE_LINE // 8  # numbers, lest threads write to the same line
    values, gradients = np.zeros((parts, valued + apart)), np.zeros((parts, k * d + apart))
    keep = np.zeros(0, np.bool_) if mask is None else mask
    noted = np.zeros((0, 0)) if curvatures is None else curvatures
    W = np.ascontiguousarray(W, dtype=np.float64)
    arrays, loss, problems = rows.arrays, rows.loss.compiled, (positive_codes(k), W)
    sample_weight = rows.kernel_weights

    def body(part: int) -> None:
        chosen = keep, n * part // parts, n * (part + 1) // parts
        totals = values[part, :valued], gradients[part, : k * d].reshape(k, d), noted
        add_value_gradient(arrays, loss, problems, chosen, totals, sample_weight)

    run_parts(body, parts, threads)
    value, gradient = values[0], gradients[0]
    if parts > 1:
        value, gradient = values.sum(axis=0), gradients.sum(axis=0)
    return value[:valued], gradient[: k * d].reshape(k, d)
