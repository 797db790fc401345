"""Noise, and the inverse fourth root of a Hessian times a vector.

FISHER publishes w + sigma F^(-1/4) b with b standard normal, whose covariance is sigma^2 F^(-1/2).
`eigh` costs about 10 d^3; Lanczos a few dozen products with F, and needs nothing but the product.
Randomness is a Generator that is handed in.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg

EIGH_UP_TO = 256  # columns; beyond it a few dozen products are cheaper than 10 d^3
TOLERANCE = 1e-10


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
    t = np.exp(np.linspace(low, high, nodes))
    step = (high - low) / (nodes - 1)
    D = 1.0 / (diagonal + t[:, None])
    d, m = U.shape
    squares = (U[:, :, None] * U[:, None, :]).reshape(d, m * m)
    gap = np.eye(m) - (D @ squares).reshape(nodes, m, m)
    inner = np.linalg.solve(gap, (D @ (U * b[:, None]))[:, :, None])[:, :, 0]
    weights = np.sin(np.pi / 4) / np.pi * step * t**0.75
    change = (U * (D.T @ (weights[:, None] * inner))).sum(axis=1)
    return np.asarray(diagonal**-0.25 * b + change)


def inverse_fourth_root_by_lanczos(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    tolerance: float = TOLERANCE,
) -> np.ndarray:
    """F^(-1/4) b from products v -> F v: f(F) b ~ |b| Q f(T) e_1 on the Krylov space of b.

    Full reorthogonalisation; stops when the answer moves by less than `tolerance` between two
    looks, at the latest when the space is all of R^d, where it is exact.
    """
    d = b.size
    norm = float(np.linalg.norm(b))
    if norm == 0.0:
        return np.zeros_like(b)
    basis = np.empty((min(d, 64), d))
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    basis[0] = b / norm
    previous = np.zeros(0)
    for size in range(1, d + 1):
        q = basis[size - 1]
        r = product(q)
        diagonal.append(float(q @ r))
        known = basis[:size]
        r = r - known.T @ (known @ r)
        r -= known.T @ (known @ r)
        beta = float(np.linalg.norm(r))
        exhausted = size == d or beta <= 1e-14 * abs(diagonal[0])
        if exhausted or size % 4 == 0:
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal)
            coordinates = vectors @ (values**-0.25 * vectors[0])
            moved = coordinates.copy()
            moved[: previous.size] -= previous
            if exhausted or np.linalg.norm(moved) <= tolerance * np.linalg.norm(coordinates):
                break
            previous = coordinates
        off_diagonal.append(beta)
        if size == len(basis):
            basis = np.concatenate([basis, np.empty((min(size, d - size), d))])
        basis[size] = r / beta
    return np.asarray(norm * (coordinates @ basis[: coordinates.size]))
