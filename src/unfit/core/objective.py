"""The regularised logistic objective, as sums over rows.

    L(w)     = sum [ softplus(x.w) - t x.w ] + (lam n / 2) |w|^2
    gradient = sum (p - t) x + lam n w,                    p = sigmoid(x.w)
    hessian  = sum p (1 - p) x x^T + lam n I

The functions here give the data terms; `Statistics` and the methods add the regulariser. Shapes,
once for all: X (n, p) in float32 or float64, codes (n,) the class of each row, W (k, d) float64
with d = p + 1 when there is an intercept (a column of ones that is never stored), k = 1 for two
classes and otherwise one one-vs-rest problem per class. Sums are float64 whatever X is. Knows
core.kernels.narrow and core.kernels.parallel.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from unfit.core.kernels.narrow import narrow, sums_of_narrow_rows
from unfit.core.kernels.parallel import KERNEL, available_threads, run_threads

BLOCK_BYTES = 2 << 20  # a block of scaled rows: it stays in the cache,
BLOCK_ROWS = 2048  # unless rows are so long that SYRK would starve
_WORTH_A_THREAD = 1 << 18  # multiply-adds
_INDEXED = 1 << 20  # rows whose numbers are written down at a time


@dataclass(frozen=True)
class Rows:
    """Some rows with their class codes; `intercept` says that a column of ones goes with them."""

    X: np.ndarray
    codes: np.ndarray
    intercept: bool

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    def take(self, index: np.ndarray) -> "Rows":
        return Rows(gathered(self.X, index), self.codes[index], self.intercept)


def check_index(index: np.ndarray, n: int) -> None:
    """Kernels do not look where they read."""
    if index.size and not 0 <= index.min() <= index.max() < n:
        raise IndexError(f"rows {index.min()} to {index.max()} of {n}")


def gathered(X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """X[index], by all cores where there is much to copy."""
    threads = min(available_threads(), 1 + index.size * X.shape[1] // _WORTH_A_THREAD)
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


def sigmoid(margins: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-margins)))


def margins(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """x.w for every row and problem, (n, k), in the precision of X."""
    p = X.shape[1]
    result = X @ W[:, :p].T.astype(X.dtype)
    if W.shape[1] > p:
        result += W[:, p].astype(X.dtype)
    return np.asarray(result)


def class_probabilities(scores: np.ndarray) -> np.ndarray:
    """From margins (n, k) to (n, classes): one-vs-rest sigmoids, scaled to sum 1."""
    p = sigmoid(scores.astype(np.float64))
    if p.shape[1] == 1:
        return np.column_stack([1 - p[:, 0], p[:, 0]])
    p = np.maximum(p, np.finfo(np.float64).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def blocks(rows: Rows, mask: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """X in blocks of consecutive rows, without the rows where mask is False."""
    step = block_rows(rows)
    for start in range(0, len(rows), step):
        X = rows.X[start : start + step]
        keep = None if mask is None else mask[start : start + step]
        yield X if keep is None or keep.all() else X[keep]


def block_rows(rows: Rows) -> int:
    return min(max(1, len(rows)), max(BLOCK_ROWS, BLOCK_BYTES // (rows.d * rows.X.itemsize)))


def root_weighted(
    X: np.ndarray, margin: np.ndarray, intercept: bool, out: np.ndarray | None = None
) -> np.ndarray:
    """U with rows sqrt(p (1 - p)) x, intercept included: U^T U = sum p (1 - p) x x^T.

    out: scratch with at least as many rows as X, written and returned in part.
    """
    probability = sigmoid(margin)
    weight = np.sqrt(probability * (1 - probability)).astype(X.dtype, copy=False)
    return scaled_rows(X, weight, intercept, out)


def scaled_rows(
    X: np.ndarray, weight: np.ndarray, intercept: bool, out: np.ndarray | None
) -> np.ndarray:
    """weight x for every row, intercept included."""
    n, p = X.shape
    scaled = np.empty((n, p + intercept), X.dtype) if out is None else out[:n]
    np.multiply(X, weight[:, None], out=scaled[:, :p])
    if intercept:
        scaled[:, p] = weight
    return scaled


def hessian_sum(rows: Rows, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """sum p (1 - p) x x^T for each problem, (k, d, d): float64 across blocks of rows."""
    if narrow(rows.X, len(W)):
        return _narrow_hessian(rows, W, mask)
    k, d = W.shape
    total = np.zeros((k, d, d))
    scratch = np.empty((block_rows(rows), d), rows.X.dtype)
    for X in blocks(rows, mask):
        margin = margins(X, W)
        for c in range(k):
            U = root_weighted(X, margin[:, c], rows.intercept, scratch)
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
    """sum (p - t) x, (k, d), and sum p (1 - p) x x^T, (k, d, d), over narrow rows at an index."""
    positive = positive_codes(len(W))
    return sums_of_narrow_rows(rows.X, rows.codes, index, W, positive, rows.intercept)


def gradient_and_products(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, Callable[[int, np.ndarray], np.ndarray]]:
    """The gradient (k, d), and product(c, v) = sum p (1 - p) x (x.v) of problem c; in float64.

    A pass over the rows each: with a good guide at hand, cheaper than the Hessian by far.
    """
    n, (k, d) = len(rows), W.shape
    probability = np.zeros((k, n))
    _, gradient = value_gradient_sum(rows, W, mask, probability)
    weights = probability * (1 - probability)  # and 0 for the rows left out
    threads = min(available_threads(), 1 + n * d // _WORTH_A_THREAD)

    def product(c: int, v: np.ndarray) -> np.ndarray:
        parts = np.zeros((threads, d))
        v = np.ascontiguousarray(v, dtype=np.float64)

        def body(t: int) -> None:
            _weighted_product(
                rows.X, weights[c], v, rows.intercept, n * t // threads, n * (t + 1) // threads,
                parts[t],
            )  # fmt: skip

        run_threads(body, threads)
        return np.asarray(parts.sum(axis=0))

    return gradient, product


def gram_sum(rows: Rows, mask: np.ndarray | None = None) -> np.ndarray:
    """sum x x^T, (d, d)."""
    total = np.zeros((rows.d, rows.d))
    p = rows.X.shape[1]
    for X in blocks(rows, mask):
        total[:p, :p] += X.T @ X
        if rows.intercept:
            column = X.sum(axis=0, dtype=np.float64)
            total[p, :p] += column
            total[:p, p] += column
            total[p, p] += len(X)
    return total


def value_gradient_sum(
    rows: Rows, W: np.ndarray, mask: np.ndarray | None = None, probability: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Data terms of L (k,) and of its gradient (k, d) in one pass over the rows, in float64.

    probability (k, n): takes p of the rows in the mask.
    """
    n = len(rows)
    k, d = W.shape
    threads = min(available_threads(), 1 + n * d * k // _WORTH_A_THREAD)
    values, gradients = np.zeros((threads, k)), np.zeros((threads, k, d))
    keep = np.zeros(0, np.bool_) if mask is None else mask
    noted = np.zeros((0, 0)) if probability is None else probability
    W = np.ascontiguousarray(W, dtype=np.float64)

    def body(t: int) -> None:
        _value_gradient(
            rows.X, rows.codes, positive_codes(k), W, keep, rows.intercept,
            n * t // threads, n * (t + 1) // threads, values[t], gradients[t], noted,
        )  # fmt: skip

    run_threads(body, threads)
    return values.sum(axis=0), gradients.sum(axis=0)


@njit(**KERNEL)
def _value_gradient(
    X: np.ndarray, codes: np.ndarray, positive: np.ndarray, W: np.ndarray, keep: np.ndarray,
    intercept: bool, start: int, stop: int, values: np.ndarray, gradients: np.ndarray,
    probability: np.ndarray,
) -> None:  # fmt: skip
    p = X.shape[1]
    k = W.shape[0]
    row = np.empty(4, np.int64)
    margin = np.empty(4)
    at = start
    while at < stop:
        count = 0
        while count < 4 and at < stop:  # the next four rows that are in the data
            if keep.size == 0 or keep[at]:
                row[count] = at
                count += 1
            at += 1
        if count == 0:
            break
        for i in range(count, 4):
            row[i] = row[0]
        x0, x1, x2, x3 = X[row[0]], X[row[1]], X[row[2]], X[row[3]]
        for c in range(k):
            w, gradient = W[c], gradients[c]
            m0 = m1 = m2 = m3 = w[p] if intercept else 0.0
            for j in range(p):
                wj = w[j]
                m0 += x0[j] * wj
                m1 += x1[j] * wj
                m2 += x2[j] * wj
                m3 += x3[j] * wj
            margin[0], margin[1], margin[2], margin[3] = m0, m1, m2, m3
            for i in range(4):
                if i >= count:
                    margin[i] = 0.0
                    continue
                m = margin[i]
                e = math.exp(-abs(m))
                target = 1.0 if codes[row[i]] == positive[c] else 0.0
                values[c] += max(m, 0.0) + math.log1p(e) - target * m
                margin[i] = (1.0 if m >= 0 else e) / (1.0 + e)
                if probability.size:
                    probability[c, row[i]] = margin[i]
                margin[i] -= target
            r0, r1, r2, r3 = margin[0], margin[1], margin[2], margin[3]
            for j in range(p):
                gradient[j] += r0 * x0[j] + r1 * x1[j] + r2 * x2[j] + r3 * x3[j]
            if intercept:
                gradient[p] += r0 + r1 + r2 + r3


@njit(**KERNEL)
def _weighted_product(
    X: np.ndarray, weights: np.ndarray, v: np.ndarray, intercept: bool, start: int, stop: int,
    out: np.ndarray,
) -> None:  # fmt: skip
    p = X.shape[1]
    for at in range(start, stop, 4):
        last = min(at + 4, stop) - 1
        x0, x1, x2, x3 = X[at], X[min(at + 1, last)], X[min(at + 2, last)], X[min(at + 3, last)]
        m0 = m1 = m2 = m3 = v[p] if intercept else 0.0
        for j in range(p):
            vj = v[j]
            m0 += x0[j] * vj
            m1 += x1[j] * vj
            m2 += x2[j] * vj
            m3 += x3[j] * vj
        m0 *= weights[at]
        m1 *= weights[at + 1] if at + 1 < stop else 0.0
        m2 *= weights[at + 2] if at + 2 < stop else 0.0
        m3 *= weights[at + 3] if at + 3 < stop else 0.0
        for j in range(p):
            out[j] += m0 * x0[j] + m1 * x1[j] + m2 * x2[j] + m3 * x3[j]
        if intercept:
            out[p] += m0 + m1 + m2 + m3
