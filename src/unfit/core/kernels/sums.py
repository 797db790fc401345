"""Sums over rows where they lie: value and gradient in float64, and products with the Hessian."""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, slopes_inplace, terms_inplace
from unfit.core.kernels.parallel import KERNEL
from unfit.core.kernels.rows import FLUSH, RowArrays

# Rows that wait, their slopes known, for their share of the gradient: in the second cache at least.
_BLOCK, _BLOCK_BYTES = 64, 48 << 10


@njit(**KERNEL)
def add_value_gradient(
    rows: RowArrays,
    loss: CompiledLoss,
    problems: tuple[np.ndarray, np.ndarray],
    chosen: tuple[np.ndarray, int, int],
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
    sample_weight: np.ndarray,
) -> None:
    """Add the gradient of some rows and, if asked, their value; note the curvature of each.

    problems: for each the class with target 1, and the weights (k, d). chosen: keep, start and
    stop: rows start .. stop - 1, of those the ones in the mask keep (empty: all). totals: values
    (k,) and gradients (k, d), which are added to, and curvatures (k, n); values and curvatures that
    are not asked for are empty. sample_weight (n,) multiplies all three, of each row; empty: 1.
    """
    X, codes, intercept = rows
    positive, W = problems
    keep, start, stop = chosen
    values, gradients, curvatures = totals
    p = X.shape[1]
    most = max(4, min(_BLOCK, _BLOCK_BYTES // (p * X.itemsize) // 4 * 4))
    row = np.empty(most, np.int64)
    slopes, targets = np.empty(most), np.empty(most)
    found, curved = np.empty(most), np.empty(most)
    at = start
    while at < stop:
        count = 0
        while count < most and at < stop:  # the next rows that are in the data
            if keep.size == 0 or keep[at]:
                row[count] = at
                count += 1
            at += 1
        for b in range(count, -(-count // 4) * 4):
            row[b] = row[0]
        for c in range(W.shape[0]):
            w, gradient = W[c], gradients[c]
            for b in range(0, count, 4):
                x0, x1, x2, x3 = X[row[b]], X[row[b + 1]], X[row[b + 2]], X[row[b + 3]]
                m0 = m1 = m2 = m3 = w[p] if intercept else 0.0
                for j in range(p):
                    wj = w[j]
                    m0 += x0[j] * wj
                    m1 += x1[j] * wj
                    m2 += x2[j] * wj
                    m3 += x3[j] * wj
                slopes[b], slopes[b + 1], slopes[b + 2], slopes[b + 3] = m0, m1, m2, m3
            for b in range(count):
                targets[b] = 1.0 if codes[row[b]] == positive[c] else 0.0
            if values.size or curvatures.size:
                terms_inplace(loss, slopes, targets, found, curved, count)
            else:
                slopes_inplace(loss, slopes, targets, count)
            for b in range(count):
                weight = sample_weight[row[b]] if sample_weight.size else 1.0
                slopes[b] *= weight
                if values.size:
                    values[c] += weight * found[b]
                if curvatures.size:
                    curvatures[c, row[b]] = weight * curved[b]
            for b in range(count, -(-count // 4) * 4):
                slopes[b] = 0.0
            for b in range(0, count, 4):
                x0, x1, x2, x3 = X[row[b]], X[row[b + 1]], X[row[b + 2]], X[row[b + 3]]
                r0, r1, r2, r3 = slopes[b], slopes[b + 1], slopes[b + 2], slopes[b + 3]
                for j in range(p):
                    gradient[j] += r0 * x0[j] + r1 * x1[j] + r2 * x2[j] + r3 * x3[j]
                if intercept:
                    gradient[p] += r0 + r1 + r2 + r3


@njit(**KERNEL)
def add_weighted_products(
    rows: RowArrays,
    weights: np.ndarray,
    asked: tuple[np.ndarray, np.ndarray],
    chosen: tuple[np.ndarray, int, int],
    out: np.ndarray,
) -> None:
    """out[i] += sum of weight x (x.v) over rows start .. stop - 1, for every problem asked for.

    weights (k, n); asked: the problems (j,) and a vector v for each, (j, d), in whose precision
    FLUSH rows are summed before out (j, d) takes over. The rows are read once for all. chosen: an
    index of rows and a range in it; an empty one counts the rows themselves.
    """
    X, _, intercept = rows
    problems, V = asked
    index, start, stop = chosen
    indexed = index.size > 0
    p, kind = X.shape[1], V.dtype.type
    part = np.zeros(V.shape, V.dtype)
    for first in range(start, stop, FLUSH):
        part[:] = 0
        for at in range(first, min(first + FLUSH, stop), 4):
            last = min(at + 4, stop) - 1
            r0, r1, r2, r3 = at, min(at + 1, last), min(at + 2, last), min(at + 3, last)
            if indexed:
                r0, r1, r2, r3 = index[r0], index[r1], index[r2], index[r3]
            x0, x1, x2, x3 = X[r0], X[r1], X[r2], X[r3]
            for i in range(problems.size):
                v, total, weight = V[i], part[i], weights[problems[i]]
                m0 = m1 = m2 = m3 = v[p] if intercept else kind(0)
                for j in range(p):
                    vj = v[j]
                    m0 += x0[j] * vj
                    m1 += x1[j] * vj
                    m2 += x2[j] * vj
                    m3 += x3[j] * vj
                m0 *= kind(weight[r0])
                m1 *= kind(weight[r1]) if at + 1 < stop else kind(0)
                m2 *= kind(weight[r2]) if at + 2 < stop else kind(0)
                m3 *= kind(weight[r3]) if at + 3 < stop else kind(0)
                for j in range(p):
                    total[j] += m0 * x0[j] + m1 * x1[j] + m2 * x2[j] + m3 * x3[j]
                if intercept:
                    total[p] += m0 + m1 + m2 + m3
        out += part
