"""Where most of a class leaves, what stays of it says as much and is less (wide rows).

With two classes, sums are kept for each. Where most of a class goes, its share is the class's sums
less those of the rows that stay, so that a deletion costs the smaller side. With V such that

    V^T H V = I,    V^T H_0 V = diag(values)          (H_0: the Hessian of class 0, no regulariser)

the Hessian of what remains, A = H - D - shift I, is in the coordinates y, x = V y,

    V^T A V y = (1 - going) y - V^T (S + extra I) V y,

S the signed sum over the rows that are looked at (+ p (1 - p) x x^T for one that leaves, - for one
that stays of a class most of which goes), `going` the whole of that class. Conjugate gradients with
the diagonal that this would have if every class lost a fair sample take a few passes over rows and
V. Threads share both, meet three times a pass, and each keeps its own copy of the small vectors.

Rows are read where they lie: to copy them costs as much as several passes. Knows core.factors,
core.noise, core.objective, core.kernels.rows, core.kernels.simd and core.kernels.parallel.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numba import njit

from unfit.core.factors import Factor, TooFar
from unfit.core.kernels.parallel import (
    KERNEL,
    VECTOR,
    available_threads,
    meet,
    new_meeting,
    run_threads,
)
from unfit.core.kernels.rows import FLUSH, add_to, sigmoid_inplace
from unfit.core.kernels.simd import add4, dot4
from unfit.core.noise import inverse_fourth_root_by_lanczos
from unfit.core.objective import Rows, check_index

PRECISION = {"float32": 3e-6, "float64": 1e-11}  # of |H^(-1/2) residual|, relative
_FAITHFUL = 1e-4  # that V^T H V may be off I, once V is rounded as the rows are
_MOST_STEPS = 100
_LEAST = 1e-3  # of the diagonal: a class that goes altogether leaves nothing in some directions


@dataclass(frozen=True)
class ClassSplit:
    """What is kept of two classes at the weights of a model; the Hessian has the regulariser in it.

    vectors: V in the precision of the rows, and its transpose; values: of class 0; gradients (2, d)
    and counts of each class; ridge: the regulariser l2 n; of_ridge: the diagonal of V^T ridge V.
    """

    hessian: np.ndarray
    vectors: np.ndarray
    transposed: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    counts: tuple[int, int]
    ridge: float
    of_ridge: np.ndarray

    @classmethod
    def of(
        cls, hessian: np.ndarray, of_class_0: np.ndarray, gradients: np.ndarray,
        counts: tuple[int, int], ridge: float, dtype: np.dtype,
    ) -> "ClassSplit | None":  # fmt: skip
        """None where the Hessian is so ill-conditioned that float32's V would mislead."""
        values, V = scipy.linalg.eigh(of_class_0, hessian, check_finite=False)
        of_ridge = ridge * np.einsum("ij,ij->j", V, V)
        V = np.ascontiguousarray(V, dtype)
        if np.abs(V.T @ (hessian @ V) - np.eye(len(V))).max() > _FAITHFUL:
            return None
        VT = np.ascontiguousarray(V.T)
        return cls(hessian, V, VT, values, gradients, counts, ridge, of_ridge)

    def leave(
        self, rows: Rows, remaining: np.ndarray, gone: np.ndarray, W: np.ndarray, l2: float
    ) -> tuple[np.ndarray, "SplitFactor"]:
        """The gradient (k, d) of the rows that go, and the Hessian of those that remain then."""
        check_index(gone, len(rows))
        leaving = np.bincount(rows.codes[gone], minlength=2)
        mostly = np.flatnonzero(2 * leaving > self.counts)
        if len(mostly) == 2:  # more than half of all rows: there is a better way
            raise TooFar
        if len(mostly) == 0:
            going, gradient, extra = np.zeros_like(self.values), np.zeros(rows.d), l2 * len(gone)
            index, sign = gone, np.ones(len(gone), rows.X.dtype)
        else:
            c = int(mostly[0])  # and H_1 = H - H_0 - ridge I
            going, gradient = (1 - self.values if c else self.values), self.gradients[c]
            extra = l2 * len(gone) - (self.ridge if c else 0.0)
            stays = remaining & (rows.codes == c)
            stays[gone] = False
            staying, others = np.flatnonzero(stays), gone[rows.codes[gone] != c]
            if len(staying) != self.counts[c] - leaving[c]:
                raise ValueError("these are not rows, once each, of the data that was prepared")
            index = np.concatenate([staying, others])
            sign = np.repeat(np.array([-1, 1], rows.X.dtype), [len(staying), len(others)])
        seen, weights = _look(rows, index, sign, W)
        shares = leaving / np.maximum(1, self.counts)
        diagonal = self._diagonal(shares, len(gone) / sum(self.counts))
        factor = SplitFactor(self, rows, index, weights, going, float(extra), diagonal)
        return (gradient + seen)[None], factor

    def _diagonal(self, shares: np.ndarray, of_all: float) -> np.ndarray:
        """Of V^T A V, if each class lost a fair sample of its rows."""
        of_class_1 = 1 - self.values - self.of_ridge
        leaves = shares[0] * self.values + shares[1] * of_class_1 + of_all * self.of_ridge
        return np.asarray(np.maximum(1 - leaves, _LEAST))


@dataclass(frozen=True)
class SplitFactor(Factor):
    """H - D - shift I, D by the smaller side."""

    class_split: ClassSplit
    rows: Rows
    index: np.ndarray
    weights: np.ndarray
    going: np.ndarray
    extra: float
    diagonal: np.ndarray

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        if not rhs.any():
            return np.zeros_like(rhs)
        d, threads, meeting = len(rhs), available_threads(), new_meeting()
        shared, parts = np.zeros((3, d)), np.zeros((threads, d))
        met = np.zeros(threads, np.bool_)

        def body(t: int) -> None:
            met[t] = _solve(
                self.rows.X, self.index, self.weights, self.rows.intercept,
                self.class_split.vectors, self.class_split.transposed, self.going, self.extra,
                self.diagonal, rhs,
                PRECISION[self.rows.X.dtype.name], shared, parts, meeting, t, threads,
            )  # fmt: skip

        run_threads(body, threads, meeting)
        if not met.all():
            raise TooFar
        return np.asarray(shared[0])

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        H, HV = self.class_split.hessian, self.class_split.hessian @ self.class_split.vectors
        X, p = self.rows.X[self.index], self.rows.X.shape[1]

        def product(v: np.ndarray) -> np.ndarray:
            """H_0 = H V diag(values) V^T H."""
            through = X @ v[:p] + (v[p] if self.rows.intercept else 0)
            signed = np.empty(len(v))
            signed[:p] = (self.weights * through) @ X
            if self.rows.intercept:
                signed[p] = (self.weights * through).sum()
            return np.asarray(H @ v - HV @ (self.going * (HV.T @ v)) - signed - self.extra * v)

        return inverse_fourth_root_by_lanczos(product, b)


def _look(
    rows: Rows, index: np.ndarray, sign: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Signed sums of (p - t) x, (d,), and each row's signed p (1 - p)."""
    m, d, threads = len(index), rows.d, available_threads()
    weights, parts = np.empty(m, rows.X.dtype), np.zeros((threads, d))
    w = W[0].astype(rows.X.dtype)

    def body(t: int) -> None:
        _look_kernel(
            rows.X, rows.codes, index, sign, m * t // threads, m * (t + 1) // threads, w,
            rows.intercept, weights, parts[t],
        )  # fmt: skip

    run_threads(body, threads)
    return parts.sum(axis=0), weights


@njit(**KERNEL)
def _four(index: np.ndarray, at: int, last: int) -> tuple[int, int, int, int]:
    """The next four rows; the last one again where there are fewer, which then must not count."""
    return index[at], index[min(at + 1, last)], index[min(at + 2, last)], index[min(at + 3, last)]


@njit(**KERNEL)
def _dots(
    X: np.ndarray, r0: int, r1: int, r2: int, r3: int, w: np.ndarray, intercept: bool
) -> tuple[float, float, float, float]:
    """x.w of four rows."""
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
def _add(
    X: np.ndarray, r0: int, r1: int, r2: int, r3: int, s: np.ndarray, intercept: bool,
    total: np.ndarray,
) -> None:  # fmt: skip
    """total += s0 x0 + s1 x1 + s2 x2 + s3 x3."""
    p = X.shape[1]
    flat = X.reshape(X.size)
    whole = p - p % (VECTOR // X.itemsize)
    add4(flat, r0 * p, r1 * p, r2 * p, r3 * p, s[0], s[1], s[2], s[3], total, whole)
    for j in range(whole, p):
        total[j] += s[0] * X[r0, j] + s[1] * X[r1, j] + s[2] * X[r2, j] + s[3] * X[r3, j]
    if intercept:
        total[p] += s[0] + s[1] + s[2] + s[3]


@njit(**KERNEL)
def _look_kernel(
    X: np.ndarray, codes: np.ndarray, index: np.ndarray, sign: np.ndarray, low: int, high: int,
    w: np.ndarray, intercept: bool, weights: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    margin, scratch = np.zeros(4, X.dtype), np.zeros(w.size, X.dtype)
    one, last = X.dtype.type(1), high - 1
    for start in range(low, high, FLUSH):
        scratch[:] = 0
        for at in range(start, min(start + FLUSH, high), 4):
            r0, r1, r2, r3 = _four(index, at, last)
            margin[0], margin[1], margin[2], margin[3] = _dots(X, r0, r1, r2, r3, w, intercept)
            sigmoid_inplace(margin, 4)
            for i in range(4):
                if at + i > last:
                    margin[i] = 0
                    continue
                weights[at + i] = sign[at + i] * margin[i] * (one - margin[i])
                margin[i] -= X.dtype.type(codes[index[at + i]] == 1)
                margin[i] *= sign[at + i]
            _add(X, r0, r1, r2, r3, margin, intercept, scratch)
        add_to(total, scratch)


@njit(**KERNEL)
def _add_products(
    X: np.ndarray, index: np.ndarray, weights: np.ndarray, low: int, high: int, v: np.ndarray,
    intercept: bool, scratch: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """total <- sum of weight x (x.v)."""
    through, last = np.zeros(4, X.dtype), high - 1
    total[:] = 0.0
    for start in range(low, high, FLUSH):
        scratch[:] = 0
        for at in range(start, min(start + FLUSH, high), 4):
            r0, r1, r2, r3 = _four(index, at, last)
            through[0], through[1], through[2], through[3] = _dots(X, r0, r1, r2, r3, v, intercept)
            for i in range(4):
                through[i] *= weights[at + i] if at + i <= last else X.dtype.type(0)
            _add(X, r0, r1, r2, r3, through, intercept, scratch)
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
def _solve(
    X: np.ndarray, index: np.ndarray, weights: np.ndarray, intercept: bool, V: np.ndarray,
    VT: np.ndarray, going: np.ndarray, extra: float, diagonal: np.ndarray, rhs: np.ndarray,
    precision: float, shared: np.ndarray, parts: np.ndarray, meeting: np.ndarray, thread: int,
    threads: int,
) -> bool:  # fmt: skip
    d, m = rhs.size, index.size
    low, high = m * thread // threads, m * (thread + 1) // threads
    first, last = d * thread // threads, d * (thread + 1) // threads
    solution, through, image = shared[0], shared[1], shared[2]
    rounded, scratch = rhs.astype(X.dtype), np.zeros(d, X.dtype)
    residual, direction, y = np.zeros(d), np.zeros(d), np.zeros(d)
    enough = rz = 0.0
    arrivals = 0
    _times(VT, first, last, rounded, image)
    arrivals += threads
    meet(meeting, arrivals)
    for step in range(_MOST_STEPS):
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
        _add_products(X, index, weights, low, high, rounded, intercept, scratch, parts[thread])
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
        curvature = 0.0
        for j in range(d):
            curvature += direction[j] * ((1.0 - going[j]) * direction[j] - image[j])
        if not curvature > 0.0:  # rounding, or what is not a number; every thread sees the same
            return False
        length = rz / curvature
        for j in range(d):
            y[j] += length * direction[j]
            residual[j] -= length * ((1.0 - going[j]) * direction[j] - image[j])
    return False
