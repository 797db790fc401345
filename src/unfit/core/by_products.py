"""Hessians known by their products alone, as factors; several problems are solved in lockstep.

Knows core.conjugate_gradients, core.factors and core.noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unfit.core.conjugate_gradients import Products, conjugate_gradients, lengths
from unfit.core.factors import Cholesky, Factor, Inverse, Product, Spectrum, TooFar
from unfit.core.noise import inverse_fourth_roots_by_lanczos


@dataclass(frozen=True, kw_only=True)
class Systems:
    """The Hessians of several problems, and a guide to their inverses.

    precision: relative, of solutions and roots. most: products beyond which there is a better way.
    dtype: of the vectors that solutions ask products for. enough (k,): residuals of each problem
    that are small enough, however small the right-hand sides are.
    """

    products: Products
    guide: Products
    precision: float
    most: int
    dtype: np.dtype
    enough: np.ndarray | None = None

    def factors(self, k: int) -> list["ByProducts"]:
        return [ByProducts(systems=self, problem=c) for c in range(k)]

    def solve(self, problems: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """H^-1 rhs of each named problem; TooFar where the guide does not lead there."""
        precision = np.full(len(rhs), self.precision)
        if self.enough is not None:
            size = np.maximum(lengths(rhs), np.finfo(np.float64).tiny)
            precision = np.clip(self.enough[problems] / size, self.precision, 1.0)
        solved = conjugate_gradients(
            lambda at, V: self.products(problems[at], V.astype(self.dtype)),
            lambda at, V: self.guide(problems[at], V),
            rhs,
            precision,
            self.most,
        )
        if solved.missed(rhs, precision):
            raise TooFar
        return solved.x

    def inverse_fourth_roots(self, problems: np.ndarray, b: np.ndarray) -> np.ndarray:
        """H^(-1/4) b of each named problem."""
        return inverse_fourth_roots_by_lanczos(
            lambda at, V: self.products(problems[at], V), b, self.precision
        )


@dataclass(frozen=True, kw_only=True)
class ByProducts(Factor):
    """The Hessian of one of the problems."""

    systems: Systems
    problem: int

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(self.systems.solve(np.array([self.problem]), rhs[None])[0])

    def inverse_fourth_root(self, b: np.ndarray) -> np.ndarray:
        return np.asarray(self.systems.inverse_fourth_roots(np.array([self.problem]), b[None])[0])

    @classmethod
    def solve_each(cls, factors: Sequence[Factor], rhs: np.ndarray) -> np.ndarray:
        systems, problems = cls._shared(factors)
        return systems.solve(problems, rhs)

    @classmethod
    def inverse_fourth_root_each(cls, factors: Sequence[Factor], b: np.ndarray) -> np.ndarray:
        systems, problems = cls._shared(factors)
        return systems.inverse_fourth_roots(problems, b)

    @staticmethod
    def _shared(factors: Sequence[Factor]) -> tuple[Systems, np.ndarray]:
        """The systems that all of them are of: their problems are solved in lockstep."""
        members = [factor for factor in factors if isinstance(factor, ByProducts)]
        assert len(members) == len(factors)
        return members[0].systems, np.array([member.problem for member in members])


def guide_of(factors: Sequence[Inverse | Spectrum | Cholesky]) -> Products:
    """About the inverses: kept ones in float32, which is enough, or factors as they are."""
    inverses = [factor for factor in factors if isinstance(factor, Inverse)]
    if len(inverses) == len(factors) > 0:

        def roughly(problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
            return inverses[0].roughly_each([inverses[c] for c in problems], vectors)

        return roughly
    ways = [_way(factor) for factor in factors]

    def solve(problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        found = [ways[c](v) for c, v in zip(problems, vectors, strict=True)]
        return np.array(found).reshape(vectors.shape)

    return solve


def _way(factor: Inverse | Spectrum | Cholesky) -> Product:
    if isinstance(factor, Inverse):
        return factor.roughly
    if isinstance(factor, Cholesky):
        return factor.solve
    Q, values = factor.vectors.astype(np.float32), factor.values

    def rotated(v: np.ndarray) -> np.ndarray:
        along = (v.astype(np.float32) @ Q) / values
        return np.asarray((Q @ along.astype(np.float32)).astype(np.float64))

    return rotated
