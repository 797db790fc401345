"""Hessians that are known by their products alone: solved with by conjugate gradients.

    H_c v = sum curvature x (x.v) + ridge v        one pass over the rows for all problems together

Conjugate gradients run for all problems in lockstep, so that a pass serves all that have not
finished. Since H >= ridge I, a residual r leaves an error of |r| / ridge at most: a solution is
accepted when that is below PRECISION of the length it is added to, that of the weights. Roots come
from Lanczos' method, which needs products alone, too. Knows core.factors, core.noise and
core.conjugate_gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from unfit.core.conjugate_gradients import Products, conjugate_gradients, lengths, unguided
from unfit.core.factors import Factor
from unfit.core.noise import inverse_fourth_root_by_lanczos

PRECISION = 1e-9  # of a solution, relative to the weights it is added to
_LEAST = 1e-14  # of a residual, relative to the right-hand side: rounding leaves no more to gain
_MOST_STEPS = 2000


@dataclass(frozen=True, eq=False, kw_only=True)
class Hessians(Sequence[Factor]):
    """k Hessians, each with ridge I. product(problems (j,), V (j, d)) leaves the ridge out.

    scales (k,): lengths beside which solutions are to be right. guide: about their inverses.
    """

    product: Products
    ridge: float
    scales: np.ndarray
    guide: Products = unguided

    def __len__(self) -> int:
        return len(self.scales)

    @overload
    def __getitem__(self, at: int) -> Factor: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Factor]: ...
    def __getitem__(self, at: int | slice) -> Factor | Sequence[Factor]:
        if isinstance(at, slice):
            return [OneHessian(self, c) for c in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        return OneHessian(self, at)

    def times(self, problems: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The Hessian of each named problem times its vector, (j, d)."""
        return np.asarray(self.product(problems, V) + self.ridge * V)

    def solve_each(self, rhs: np.ndarray) -> np.ndarray:
        """H_c^-1 rhs_c of every problem, (k, d)."""
        return self.solve(np.arange(len(self)), rhs)

    def solve(self, problems: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """The Hessian of each named problem, solved with its vector; (j, d)."""
        size = lengths(rhs)
        enough = np.maximum(PRECISION * self.ridge * self.scales[problems], _LEAST * size)
        precision = np.minimum(1.0, enough / np.where(size > 0, size, 1.0))
        solved = conjugate_gradients(
            lambda at, V: self.times(problems[at], V),
            lambda at, V: self.guide(problems[at], V),
            rhs,
            precision,
            _MOST_STEPS,
        )
        return solved.x


@dataclass(frozen=True, eq=False)
class OneHessian(Factor):
    """One of them."""

    among: Hessians
    problem: int

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(self.among.solve(np.array([self.problem]), rhs[None])[0])

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        at = np.array([self.problem])
        return inverse_fourth_root_by_lanczos(lambda v: self.among.times(at, v[None])[0], b)


def solve_each(factors: Sequence[Factor], rhs: np.ndarray) -> np.ndarray:
    """H_c^-1 rhs_c for the factor of every problem, (k, d)."""
    if isinstance(factors, Hessians):
        return factors.solve_each(rhs)
    return np.array([factor.solve(one) for factor, one in zip(factors, rhs, strict=True)])
