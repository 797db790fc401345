"""Signed sums over some rows of two classes, and conjugate gradients with them.

Threads share rows and vectors, meet three times a pass, and each keeps its own copy of the small
vectors. See core.class_split for what is solved.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.margin import CompiledLoss, curvature, slope
from unfit.core.kernels.parallel import KERNEL, VECTOR, meet
from unfit.core.kernels.rows import FLUSH, RowArrays, add_to
from unfit.core.kernels.simd import add4, dot4

MOST_STEPS = 100

Four = tuple[int, int, int, int]


# Rows at places[low:high], each with a number, its sign or its signed curvature: places, numbers,
# low, high.
SignedRows = tuple[np.ndarray, np.ndarray, int, int]
# (1 - going) y - V^T (S + extra I) V y = V^T rhs: V, V^T, going, extra, the diagonal that guides.
System = tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]
# Vectors (3, d), of which the first is the solution, the sums of each thread, where threads meet,
# which one this is, and how many there are.
Shared = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]


@njit(**KERNEL)
def _four(index: np.ndarray, at: int, last: int) -> Four:
    """The next four rows; the last one again where there are fewer, which then must not count."""
    return index[at], index[min(at + 1, last)], index[min(at + 2, last)], index[min(at + 3, last)]


@njit(**KERNEL)
def _dots(
    X: np.ndarray, four: Four, w: np.ndarray, intercept: bool
) -> tuple[float, float, float, float]:
    """x.w of four rows."""
    r0, r1, r2, r3 = four
    p = X.shape[1]
    flat = X.reshape(X.size)
    whole = p - p % (VECTOR // X.itemsize)
    m0, m1, m2, m3 = dot4(flat, r0 * p, r1 * p, r2 * p, r3 * p, w, whole)
    for j in range(whole, p):
        m0 += X[r0, j] * w[j]
        m1 += X[r1, j] * w[j]
        m2 += X[r2, j] * w[j]
        m3 += X[r3, j] * w[j]
    if intercept:
        m0 += w[p]
        m1 += w[p]
        m2 += w[p]
        m3 += w[p]
    return m0, m1, m2, m3


@njit(**KERNEL)
def _add(X: np.ndarray, four: Four, s: np.ndarray, intercept: bool, total: np.ndarray) -> None:
    """total += s0 x0 + s1 x1 + s2 x2 + s3 x3."""
    r0, r1, r2, r3 = four
    p = X.shape[1]
    flat = X.reshape(X.size)
    whole = p - p % (VECTOR // X.itemsize)
    add4(flat, r0 * p, r1 * p, r2 * p, r3 * p, s[0], s[1], s[2], s[3], total, whole)
    for j in range(whole, p):
        total[j] += s[0] * X[r0, j] + s[1] * X[r1, j] + s[2] * X[r2, j] + s[3] * X[r3, j]
    if intercept:
        total[p] += s[0] + s[1] + s[2] + s[3]


@njit(**KERNEL)
def add_signed_sums(
    rows: RowArrays,
    signed: SignedRows,
    loss: CompiledLoss,
    w: np.ndarray,
    weights: np.ndarray,
    total: np.ndarray,
) -> None:
    """weights[i] <- sign times curvature of the i-th row; total += sum of sign slope x."""
    X, codes, intercept = rows
    places, sign, low, high = signed
    last = high - 1
    margin, scratch = np.zeros(4, X.dtype), np.zeros(w.size, X.dtype)
    for start in range(low, high, FLUSH):
        scratch[:] = 0
        for at in range(start, min(start + FLUSH, high), 4):
            four = _four(places, at, last)
            margin[0], margin[1], margin[2], margin[3] = _dots(X, four, w, intercept)
            for i in range(4):
                if at + i > last:
                    margin[i] = 0
                    continue
                m = margin[i]
                t = X.dtype.type(codes[places[at + i]] == 1)
                weights[at + i] = sign[at + i] * curvature(loss, m, t)
                margin[i] = sign[at + i] * slope(loss, m, t)
            _add(X, four, margin, intercept, scratch)
        add_to(total, scratch)


@njit(**KERNEL)
def _add_products(
    rows: RowArrays, weighted: SignedRows, v: np.ndarray, scratch: np.ndarray, total: np.ndarray
) -> None:
    """total <- sum of weight x (x.v)."""
    X, _, intercept = rows
    places, weights, low, high = weighted
    last = high - 1
    through = np.zeros(4, X.dtype)
    total[:] = 0.0
    for start in range(low, high, FLUSH):
        scratch[:] = 0
        for at in range(start, min(start + FLUSH, high), 4):
            four = _four(places, at, last)
            through[0], through[1], through[2], through[3] = _dots(X, four, v, intercept)
            for i in range(4):
                through[i] *= weights[at + i] if at + i <= last else X.dtype.type(0)
            _add(X, four, through, intercept, scratch)
        add_to(total, scratch)


@njit(**KERNEL)
def _times(A: np.ndarray, low: int, high: int, v: np.ndarray, out: np.ndarray) -> None:
    """out[low:high] <- A[low:high] v, in the precision of both."""
    zero, last = A.dtype.type(0), high - 1
    for i in range(low, high, 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        a0, a1, a2, a3 = A[i], A[i1], A[i2], A[i3]
        s0 = s1 = s2 = s3 = zero
        for j in range(v.size):
            s0 += a0[j] * v[j]
            s1 += a1[j] * v[j]
            s2 += a2[j] * v[j]
            s3 += a3[j] * v[j]
        out[i], out[i1], out[i2], out[i3] = s0, s1, s2, s3


@njit(**KERNEL)
def solve_split(
    rows: RowArrays,
    weighted: SignedRows,
    system: System,
    rhs: np.ndarray,
    precision: float,
    shared: Shared,
) -> bool:
    """The first shared vector <- the solution, by conjugate gradients; whether they have met it."""
    X, _, _ = rows
    vectors, parts, meeting, thread, threads = shared
    V, VT, going, extra, diagonal = system
    d = rhs.size
    first, last = d * thread // threads, d * (thread + 1) // threads
    solution, through, image = vectors[0], vectors[1], vectors[2]
    rounded, scratch = rhs.astype(X.dtype), np.zeros(d, X.dtype)
    residual, direction, y = np.zeros(d), np.zeros(d), np.zeros(d)
    enough = rz = 0.0
    arrivals = 0
    _times(VT, first, last, rounded, image)
    arrivals += threads
    meet(meeting, arrivals)
    for step in range(MOST_STEPS):
        before, rz, size = rz, 0.0, 0.0
        for j in range(d):
            if step == 0:
                residual[j] = image[j]
            rz += residual[j] * residual[j] / diagonal[j]
            size += residual[j] * residual[j]
        if step == 0:
            enough = precision * precision * size
        elif size <= enough:
            for j in range(d):
                rounded[j] = y[j]
            _times(V, first, last, rounded, solution)
            return True
        share = rz / before if step else 0.0
        for j in range(d):
            direction[j] = residual[j] / diagonal[j] + share * direction[j]
            rounded[j] = direction[j]
        _times(V, first, last, rounded, through)
        arrivals += threads
        meet(meeting, arrivals)
        for j in range(d):
            rounded[j] = through[j]
        _add_products(rows, weighted, rounded, scratch, parts[thread])
        arrivals += threads
        meet(meeting, arrivals)
        for j in range(d):
            total = extra * through[j]
            for t in range(threads):
                total += parts[t, j]
            rounded[j] = total
        _times(VT, first, last, rounded, image)
        arrivals += threads
        meet(meeting, arrivals)
        curved = 0.0
        for j in range(d):
            curved += direction[j] * ((1.0 - going[j]) * direction[j] - image[j])
        if not curved > 0.0:  # rounding, or what is not a number; every thread sees the same
            return False
        length = rz / curved
        for j in range(d):
            y[j] += length * direction[j]
            residual[j] -= length * ((1.0 - going[j]) * direction[j] - image[j])
    return False
