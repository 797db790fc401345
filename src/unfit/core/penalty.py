"""The ridge penalty of the objective: how strong it is for n rows, and which columns it covers.

    penalty(w) = (1/2) sum_j diagonal_j w_j^2,    diagonal_j = per_row n + constant

`per_row` is unfit's l2: the penalty grows with the rows, and m rows take per_row m of it with them.
`constant` is scikit-learn's 1 / C: it stays when rows leave. The intercept, the last column, is
covered or not. n is the number of rows or, where they have sample weights, the sum of these: so a
row of weight 2 is that row twice.
"""

from dataclasses import dataclass

import numpy as np

Ridge = float | np.ndarray  # one number for all columns, or (d,) where they differ


@dataclass(frozen=True)
class Penalty:
    """per_row n + constant on every column; on the last one only if `intercept`.

    A model without an intercept has `intercept` True: all its columns are covered.
    """

    per_row: float
    constant: float = 0.0
    intercept: bool = True

    def ridge(self, n: float) -> float:
        """The penalty of n rows on each covered column."""
        return self.per_row * n + self.constant

    def per_row_of(self, n: float) -> float:
        """The same, for each of the rows."""
        return self.per_row + (self.constant / n if self.constant else 0.0)

    def diagonal(self, n: float, d: int) -> np.ndarray:
        """The penalty of n rows on each of d columns, (d,): 0 for an intercept left out."""
        return np.full(d, self.ridge(n)) * self.covered(d)

    def on(self, n: float, d: int) -> Ridge:
        """The diagonal, as one number where all columns have the same."""
        return self.ridge(n) * self.covered(d)

    def leaving(self, m: float, d: int) -> Ridge:
        """What leaves with m rows: on(n) - on(n - m) for every n. One number, 0, if constant."""
        if self.per_row == 0:
            return 0.0
        return self.per_row * m * self.covered(d)

    def covered(self, d: int) -> Ridge:
        """1 for a column that is penalised and 0 for one that is not; 1 where all are."""
        if self.intercept:
            return 1.0
        found = np.ones(d)
        found[-1] = 0.0
        return found

    @property
    def uniform(self) -> bool:
        """Whether what leaves with rows is a multiple of I."""
        return self.intercept or self.per_row == 0


def with_ridge(hessians: np.ndarray, ridge: Ridge) -> np.ndarray:
    """Hessians (k, d, d) with the ridge added to their diagonals, in place."""
    d = hessians.shape[-1]
    hessians.reshape(len(hessians), d * d)[:, :: d + 1] += ridge
    return hessians


def penalty_value(W: np.ndarray, ridge: Ridge) -> np.ndarray:
    """(1/2) sum_j ridge_j w_j^2 of each problem, (k,)."""
    if isinstance(ridge, np.ndarray):
        return np.asarray(0.5 * np.einsum("kd,kd->k", ridge * W, W))
    return np.asarray(0.5 * ridge * np.einsum("kd,kd->k", W, W))
