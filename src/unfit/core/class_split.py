"""Where most of a class leaves, what stays of it says as much and is less (wide rows).

With two classes, sums are kept for each. Where most of a class goes, its share is the class's sums
less those of the rows that stay, so that a deletion costs the smaller side. With V such that

    V^T H V = I,    V^T H_0 V = diag(values)          (H_0: the Hessian of class 0, no regulariser)

the Hessian of what remains, A = H - D - shift I, is in the coordinates y, x = V y,

    V^T A V y = (1 - going) y - V^T (S + extra I) V y,

S the signed sum over the rows that are looked at (+ curvature x x^T for one that leaves, - for one
that stays of a class most of which goes), `going` the whole of that class. Conjugate gradients with
the diagonal that this would have if every class lost a fair sample take a few passes over rows and
V. Rows are read where they lie: to copy them costs as much as several passes. Knows core.factors,
core.noise, core.objective and core.kernels.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unfit.core.factors import Factor, TooFar
from unfit.core.kernels.class_split import add_signed_sums, solve_split
from unfit.core.kernels.parallel import available_threads, new_meeting, run_threads
from unfit.core.noise import inverse_fourth_root_by_lanczos
from unfit.core.objective import Rows, check_index

PRECISION = {"float32": 3e-6, "float64": 1e-11}  # of |H^(-1/2) residual|, relative
_FAITHFUL = 1e-4  # that V^T H V may be off I, once V is rounded as the rows are
_LEAST = 1e-3  # of the diagonal: a class that goes altogether leaves nothing in some directions


@dataclass(frozen=True)
class ClassSplit:
    """What is kept of two classes at the weights of a model; the Hessian has the regulariser in it.

    vectors: V in the precision of the rows, and its transpose; values: of class 0; gradients (2, d)
    and counts of each class; ridge: the regulariser; of_ridge: the diagonal of V^T ridge V.
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
        cls,
        hessian: np.ndarray,
        of_class_0: np.ndarray,
        gradients: np.ndarray,
        counts: tuple[int, int],
        ridge: float,
        dtype: np.dtype,
    ) -> "ClassSplit | None":
        """None where the Hessian is so ill-conditioned that float32's V would mislead."""
        values, V = scipy.linalg.eigh(of_class_0, hessian, check_finite=False)
        of_ridge = ridge * np.einsum("ij,ij->j", V, V)
        V = np.ascontiguousarray(V, dtype)
        if np.abs(V.T @ (hessian @ V) - np.eye(len(V))).max() > _FAITHFUL:
            return None
        VT = np.ascontiguousarray(V.T)
        return cls(hessian, V, VT, values, gradients, counts, ridge, of_ridge)

    def leave(
        self, rows: Rows, remaining: np.ndarray, gone: np.ndarray, W: np.ndarray, shift: float
    ) -> tuple[np.ndarray, "SplitFactor"]:
        """The gradient (k, d) of the rows that go, and the Hessian of those that remain then.

        shift: the part of the ridge that goes with them.
        """
        check_index(gone, len(rows))
        leaving = np.bincount(rows.codes[gone], minlength=2)
        mostly = np.flatnonzero(2 * leaving > self.counts)
        if len(mostly) == 2:  # more than half of all rows: there is a better way
            raise TooFar
        if len(mostly) == 0:
            going, gradient, extra = np.zeros_like(self.values), np.zeros(rows.d), shift
            index, sign = gone, np.ones(len(gone), rows.X.dtype)
        else:
            c = int(mostly[0])  # and H_1 = H - H_0 - ridge I
            going, gradient = (1 - self.values if c else self.values), self.gradients[c]
            extra = shift - (self.ridge if c else 0.0)
            stays = remaining & (rows.codes == c)
            stays[gone] = False
            staying, others = np.flatnonzero(stays), gone[rows.codes[gone] != c]
            if len(staying) != self.counts[c] - leaving[c]:
                raise ValueError("these are not rows, once each, of the data that was prepared")
            index = np.concatenate([staying, others])
            sign = np.repeat(np.array([-1, 1], rows.X.dtype), [len(staying), len(others)])
        if rows.sample_weight is not None:
            sign = sign * rows.sample_weight[index].astype(rows.X.dtype)
        seen, weights = _signed_sums(rows, index, sign, W)
        shares = leaving / np.maximum(1, self.counts)
        diagonal = self._diagonal(shares, shift / self.ridge)
        factor = SplitFactor(self, rows, index, weights, going, float(extra), diagonal)
        return (gradient + seen)[None], factor

    def _diagonal(self, shares: np.ndarray, of_ridge: float) -> np.ndarray:
        """Of V^T A V, if each class lost a fair sample of its rows; of_ridge: its share lost."""
        of_class_1 = 1 - self.values - self.of_ridge
        leaves = shares[0] * self.values + shares[1] * of_class_1 + of_ridge * self.of_ridge
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
        vectors, parts = np.zeros((3, d)), np.zeros((threads, d))
        met = np.zeros(threads, np.bool_)

        split = self.class_split
        system = split.vectors, split.transposed, self.going, self.extra, self.diagonal
        precision, m = PRECISION[self.rows.X.dtype.name], len(self.index)

        def body(t: int) -> None:
            mine = self.index, self.weights, m * t // threads, m * (t + 1) // threads
            shared = vectors, parts, meeting, t, threads
            met[t] = solve_split(self.rows.arrays, mine, system, rhs, precision, shared)

        def alone() -> None:
            shared = np.zeros((3, d)), np.zeros((1, d)), meeting, 0, 1
            whole = self.index, self.weights, 0, m
            met[:] = solve_split(self.rows.arrays, whole, system, rhs, precision, shared)
            vectors[0] = shared[0][0]

        run_threads(body, threads, meeting, alone)
        if not met.all():
            raise TooFar
        return np.asarray(vectors[0])

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


def _signed_sums(
    rows: Rows, index: np.ndarray, sign: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Signed sums of slope x, (d,), and each row's signed curvature."""
    m, d, threads = len(index), rows.d, available_threads()
    weights, parts = np.empty(m, rows.X.dtype), np.zeros((threads, d))
    w, loss = W[0].astype(rows.X.dtype), rows.loss.compiled

    def body(t: int) -> None:
        signed = index, sign, m * t // threads, m * (t + 1) // threads
        add_signed_sums(rows.arrays, signed, loss, w, weights, parts[t])

    run_threads(body, threads)
    return parts.sum(axis=0), weights
