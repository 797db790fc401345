"""Noise, and the inverse fourth root of a Hessian times a vector.

FISHER publishes w + sigma F^(-1/4) b with b standard normal, whose covariance is sigma^2 F^(-1/2).
`eigh` costs about 10 d^3; Lanczos a few dozen products with F, and needs nothing but the product.
Randomness is a Generator that is handed in, or the system's own (`secret_normal`). Knows
core.kernels.
"""

import math
import os
from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.special import ndtri

from unfit.core.kernels.diagonal_less import add_changes

EIGH_UP_TO = 256  # columns; beyond it a few dozen products are cheaper than 10 d^3
TOLERANCE = 1e-10
_AT_ONCE = 1 << 16  # numbers


def secret_normal(shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers from the system's randomness, and from no generator of ours.

    A generator has a state of a few hundred bits, and a release shows ten bits of each weight's
    noise to whoever knows the weights before it: enough to find the state of one that was not made
    to withstand that, and so to tell true weights from others. Each number is made of 64 random
    bits: a sign, and the place in the tail.
    """
    out = np.empty(math.prod(shape))
    for start in range(0, out.size, _AT_ONCE):
        part = out[start : start + _AT_ONCE]
        bits = np.frombuffer(os.urandom(part.nbytes), np.uint64)
        tail = (bits >> np.uint64(1)) * 2.0**-64 + 2.0**-65
        np.copysign(ndtri(tail), (bits & np.uint64(1)) - 0.5, out=part)
    return out.reshape(shape)


def standard_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def inverse_fourth_root_times(F: np.ndarray, b: np.ndarray) -> np.ndarray:
    """F^(-1/4) b for a symmetric positive definite F, by the cheaper way for its size."""
    if len(F) <= EIGH_UP_TO:
        return inverse_fourth_root_by_eigh(F, b)
    return inverse_fourth_root_by_lanczos(lambda v: F @ v, b)


def inverse_fourth_root_by_eigh(F: np.ndarray, b: np.ndarray) -> np.ndarray:
    values, vectors = scipy.linalg.eigh(F, check_finite=False)
    return np.asarray(vectors @ (values**-0.25 * (vectors.T @ b)))


def inverse_fourth_root_downdated(
    diagonal: np.ndarray, U: np.ndarray, b: np.ndarray, tolerance: float = TOLERANCE
) -> np.ndarray:
    """(diag - U U^T)^(-1/4) b for a positive diagonal and very few columns U.

    A^(-1/4) = sin(pi/4)/pi integral over t > 0 of t^(-1/4) (A + t)^-1. The diagonal's own share of
    it is known; what U changes, D U (I - U^T D U)^-1 U^T D b with D = (diag + t)^-1, is integrated
    by the trapezoidal rule in log t. It falls like t^(3/4) and t^(-5/4) and is analytic in a strip
    of half-width pi, so a few dozen nodes give the tolerance.
    """
    digits = -np.log(tolerance)
    low = np.log(diagonal.min()) - digits / 0.75
    high = np.log(diagonal.max()) + digits / 1.25
    nodes = int(np.ceil((high - low) * digits / (2 * np.pi**2))) + 1
    step = (high - low) / (nodes - 1)
    t = np.exp(low + step * np.arange(nodes))
    weights = np.sin(np.pi / 4) / np.pi * step * t**0.75
    root = diagonal**-0.25 * b
    add_changes(diagonal, np.ascontiguousarray(U.T), b, t, weights, root)
    return np.asarray(root)


def inverse_fourth_root_by_lanczos(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    tolerance: float = TOLERANCE,
) -> np.ndarray:
    """F^(-1/4) b from products v -> F v; see Krylov."""
    space = Krylov(b, tolerance)
    while space.answer is None:
        space.extend(product(space.direction))
    return np.asarray(space.answer)


def inverse_fourth_roots_by_lanczos(
    products: Callable[[np.ndarray, np.ndarray], np.ndarray],
    b: np.ndarray,
    tolerance: float = TOLERANCE,
) -> np.ndarray:
    """The same for several problems in lockstep: products(problems, V) of all that are not done."""
    spaces = [Krylov(row, tolerance) for row in b]
    while True:
        at = [c for c, space in enumerate(spaces) if space.answer is None]
        if not at:
            return np.array([space.answer for space in spaces])
        images = products(np.array(at), np.array([spaces[c].direction for c in at]))
        for c, image in zip(at, images, strict=True):
            spaces[c].extend(image)


class Krylov:
    """f(F) b ~ |b| Q f(T) e_1 on the space of b, F b, F F b ... for f(x) = x^(-1/4), by Lanczos.

    Full reorthogonalisation; there is an answer once it moves by less than `tolerance` between two
    looks, at the latest when the space is all of R^d, where it is exact.
    """

    def __init__(self, b: np.ndarray, tolerance: float) -> None:
        self._norm, self._tolerance, self._size = float(np.linalg.norm(b)), tolerance, 1
        self.answer: np.ndarray | None = np.zeros_like(b) if self._norm == 0.0 else None
        self._basis = np.empty((min(b.size, 64), b.size))
        self._basis[0] = b / (self._norm or 1.0)
        self._diagonal: list[float] = []
        self._off_diagonal: list[float] = []
        self._previous = np.zeros(0)

    @property
    def direction(self) -> np.ndarray:
        """The vector whose product comes next."""
        return np.asarray(self._basis[self._size - 1])

    def extend(self, image: np.ndarray) -> None:
        """Take the product of F with the direction."""
        size, d = self._size, self._basis.shape[1]
        self._diagonal.append(float(self.direction @ image))
        known = self._basis[:size]
        r = image - known.T @ (known @ image)
        r -= known.T @ (known @ r)
        beta = float(np.linalg.norm(r))
        exhausted = size == d or beta <= 1e-14 * abs(self._diagonal[0])
        if (exhausted or size % 4 == 0) and self._settled(exhausted):
            return
        self._off_diagonal.append(beta)
        if size == len(self._basis):
            more = np.empty((min(size, d - size), d))
            self._basis = np.concatenate([self._basis, more])
        self._basis[size] = r / beta
        self._size += 1

    def _settled(self, exhausted: bool) -> bool:
        values, vectors = scipy.linalg.eigh_tridiagonal(self._diagonal, self._off_diagonal)
        coordinates = vectors @ (values**-0.25 * vectors[0])
        moved = coordinates.copy()
        moved[: self._previous.size] -= self._previous
        near = np.linalg.norm(moved) <= self._tolerance * np.linalg.norm(coordinates)
        if exhausted or near:
            self.answer = np.asarray(self._norm * (coordinates @ self._basis[: coordinates.size]))
        self._previous = coordinates
        return self.answer is not None
