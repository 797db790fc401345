"""Linear systems known by their products, several at a time, with a guide that must earn its keep.

    H x = rhs  until  |rhs - H x| <= precision |rhs|

Problems go in lockstep, since a product is one pass over the rows for all of them. A guide is about
H^-1: a factor of each problem, or a function. It is trusted as long as conjugate gradients need
few products with it; beyond TRUSTED they are tried without, and the way of fewer products stays.
Where there is no guide, one may be on offer: it is made once the products have cost as much as it
does, so that at most twice the work of the better way is done. Knows core.factors and core.kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from unfit.core.factors import Factor
from unfit.core.kernels.vectors import add_dots, advance, by_threads, turn

MOST_PRODUCTS = 1000  # of one system
TRUSTED = 12  # products of one system above which a guide is compared with none
MOST_GUIDED = 50  # of these, beyond which a guide is compared with none at once
_TINY = np.finfo(np.float64).tiny

# (problems (j,), vectors (j, d)) -> (j, d): of each named problem, a matrix times its vector
Products = Callable[[np.ndarray, np.ndarray], np.ndarray]
Guide = Products | Sequence[Factor]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A guide that can be made, and how many products cost as much as to make it."""

    make: Callable[[np.ndarray], Guide]  # from the weights (k, d)
    products: int


@dataclass(frozen=True, kw_only=True)
class Solved:
    """x (j, d), what is left of the right-hand sides (j, d), and the number of products."""

    x: np.ndarray
    left: np.ndarray
    products: int
    indefinite: bool = False  # the guide is not positive definite, and no guide

    def products_per_digit(self, rhs: np.ndarray, precision: np.ndarray) -> float:
        """Of the problem that converges slowest, among those that were to be solved."""
        asked = precision < 1
        share = lengths(self.left[asked]) / np.maximum(lengths(rhs[asked]), _TINY)
        return float(self.products / -np.log10(np.clip(share.max(initial=0.0), 1e-16, 0.99)))

    def further(self, rhs: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """The precision, relative to what is left."""
        left = np.maximum(lengths(self.left), _TINY)
        return np.asarray(np.minimum(1.0, precision * lengths(rhs) / left))

    def followed_by(self, rest: "Solved") -> "Solved":
        """With the solution for what was left."""
        taken = self.products + rest.products
        return Solved(x=self.x + rest.x, left=rest.left, products=taken)

    def missed(self, rhs: np.ndarray, precision: np.ndarray) -> bool:
        """Whether any problem is not solved to the precision."""
        return bool((lengths(self.left) > precision * lengths(rhs)).any())


@runtime_checkable
class Solving(Protocol):
    """Products that can go through all steps of conjugate gradients themselves."""

    def solve(
        self, guide: Products, rhs: np.ndarray, precision: np.ndarray, most: int
    ) -> Solved | None:
        """What `conjugate_gradients` returns; None where it cannot be done with this guide."""
        ...


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("kd,kd->k", vectors, vectors)))


def unguided(problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return vectors


def conjugate_gradients(
    products: Products,
    guide: Products,
    rhs: np.ndarray,
    precision: np.ndarray,
    most: int = MOST_PRODUCTS,
) -> Solved:
    """x (j, d) with |rhs - H x| <= precision |rhs| for j problems, by a pass over the rows each.

    A problem along whose direction the curvature is not positive, which is rounding, stays where it
    is, or at the first direction if it did not get further. Products that know a faster way to the
    same steps (`solve` of Solving) are asked first.
    """
    if isinstance(products, Solving):
        solved = products.solve(guide, rhs, precision, most)
        if solved is not None:
            return solved
    x, left = np.zeros(rhs.shape), np.array(rhs, dtype=np.float64)
    enough = precision * lengths(rhs)
    going = lengths(left) > enough
    # a copy: left changes in place
    direction = np.array(guide(np.arange(len(rhs)), left), dtype=np.float64)
    along = np.einsum("kd,kd->k", left, direction)
    indefinite, taken = bool((along[going] <= 0).any()), 0
    while going.any() and taken < most and not indefinite:
        at = np.flatnonzero(going)
        image = _plain(products(at, _chosen(direction, at)))
        taken += 1
        curvature = _dots(direction, at, image)
        flat = curvature <= 0
        if taken == 1:
            x[at[flat]] = direction[at[flat]]
        steps = np.where(flat, 0.0, along[at] / np.where(flat, 1.0, curvature))
        squares = _advanced((x, left, direction), at, steps, image)
        going[at] = ~flat & (np.sqrt(squares) > enough[at])
        at = np.flatnonzero(going)
        if at.size == 0:
            break
        z = _plain(guide(at, _chosen(left, at)))
        before, along[at] = along[at], _dots(left, at, z)
        indefinite = bool((along[at] <= 0).any())
        _turn(direction, at, along[at] / before, z)
    return Solved(x=x, left=left, products=taken, indefinite=indefinite)


def _plain(vectors: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(vectors, dtype=np.float64)


def _chosen(vectors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Some of the vectors; no copy where they are all."""
    return vectors if len(at) == len(vectors) else vectors[at]


def _dots(whole: np.ndarray, at: np.ndarray, compact: np.ndarray) -> np.ndarray:
    j, d = compact.shape
    parts = by_threads(d, j, (j,), lambda out, s: add_dots(whole, at, compact, out, s))
    return np.asarray(parts.sum(axis=0))


def _advanced(
    moved: tuple[np.ndarray, np.ndarray, np.ndarray],
    at: np.ndarray,
    steps: np.ndarray,
    image: np.ndarray,
) -> np.ndarray:
    """x and left after a step; the squares of what is left."""
    j, d = image.shape
    parts = by_threads(d, 2 * j, (j,), lambda out, s: advance(moved, at, steps, image, out, s))
    return np.asarray(parts.sum(axis=0))


def _turn(directions: np.ndarray, at: np.ndarray, ratios: np.ndarray, z: np.ndarray) -> None:
    j, d = z.shape
    by_threads(d, j, (), lambda _, s: turn(directions, at, ratios, z, s))


class Guidance:
    """Solves one system after the other, with the guide or without, as takes fewer products."""

    def __init__(self, guide: Guide | None, offer: Offer | None = None) -> None:
        self.products = 0  # so far
        self.guide = guide
        self._offer = offer if guide is None else None
        self._with: float | None = None  # products a digit with the guide, once they were many
        self._without: float | None = None  # and without it, where that was tried

    def solve(
        self, products: Products, W: np.ndarray, rhs: np.ndarray, precision: np.ndarray
    ) -> Solved:
        """H x = rhs (k, d) at the weights W; a problem with precision 1 is left alone."""
        if self.guide is None:
            most = MOST_PRODUCTS
            if self._offer is not None:
                most = max(1, self._offer.products - self.products)
            solved = self._run(products, unguided, rhs, precision, most)
            if self._offer is None or not solved.missed(rhs, precision):
                return solved
            self._without = solved.products_per_digit(rhs, precision)
            self.guide, self._offer = self._offer.make(W), None
            return self._continued(solved, products, rhs, precision)
        if self._with is not None and self._without is None:
            return self._compared(products, rhs, precision)
        return self._guided(products, rhs, precision)

    def _guided(self, products: Products, rhs: np.ndarray, precision: np.ndarray) -> Solved:
        most = MOST_GUIDED if self._without is None else MOST_PRODUCTS
        solved = self._run(products, _called(self.guide), rhs, precision, most)
        if solved.indefinite:
            self.guide = None
            return self._run(products, unguided, rhs, precision)
        if self._without is None and solved.missed(rhs, precision):
            self._with = solved.products_per_digit(rhs, precision)
            further = solved.further(rhs, precision)
            return solved.followed_by(self._compared(products, solved.left, further))
        if solved.products > TRUSTED:
            self._with = solved.products_per_digit(rhs, precision)
            if self._without is not None and self._without <= self._with:
                self.guide = None
        return solved

    def _compared(self, products: Products, rhs: np.ndarray, precision: np.ndarray) -> Solved:
        """Without the guide, for as many products as it would take; then on with the better."""
        assert self._with is not None
        most = max(1, int(np.ceil(self._with * -np.log10(precision.min()))))
        plain = self._run(products, unguided, rhs, precision, most)
        self._without = plain.products_per_digit(rhs, precision)
        if self._without <= self._with:
            self.guide = None
        if not plain.missed(rhs, precision):
            return plain
        return self._continued(plain, products, rhs, precision)

    def _continued(
        self, solved: Solved, products: Products, rhs: np.ndarray, precision: np.ndarray
    ) -> Solved:
        guide = unguided if self.guide is None else _called(self.guide)
        rest = self._run(products, guide, solved.left, solved.further(rhs, precision))
        if rest.indefinite:
            self.guide = None
        return solved.followed_by(rest)

    def _run(
        self,
        products: Products,
        guide: Products,
        rhs: np.ndarray,
        precision: np.ndarray,
        most: int = MOST_PRODUCTS,
    ) -> Solved:
        solved = conjugate_gradients(products, guide, rhs, precision, most)
        self.products += solved.products
        return solved


def _called(guide: Guide | None) -> Products:
    assert guide is not None
    if callable(guide):
        return guide
    factors = guide

    def solve(problems: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        if len(problems) == 0:
            return vectors
        return factors[0].solve_each([factors[c] for c in problems], vectors)

    return solve
