"""x = (H - D - shift)^-1 rhs for many rows that leave, when H^-1 is known: one call.

Conjugate gradients with H^-1 as guide. D, the Hessian of the rows that leave, is known by its
products, each a reading of these rows. The preconditioned residual z = H^-1 r has H z = r, so that
products with H come by the same recurrence as the directions, for nothing. Threads share rows and
matrix, and meet twice a step; what is as short as a vector each computes for itself.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import (
    KERNEL,
    available_threads,
    meet,
    new_meeting,
    run_parts,
    run_threads,
    threads_and_parts,
)
from unfit.core.kernels.rows import RowArrays
from unfit.core.kernels.sums import add_weighted_products
from unfit.core.kernels.vectors import add_half_product, shares_of_half

_WORTH_A_THREAD = 1 << 18  # numbers of the matrix and of the rows

WeightedRows = tuple[RowArrays, np.ndarray]  # rows, and the curvature of each as (1, m)
# Of all threads: D times a direction and H^-1 times a residual, both (threads, d).
Parts = tuple[np.ndarray, np.ndarray]


def solve_corrected(
    inverse: np.ndarray,
    leaving: WeightedRows,
    shift: np.ndarray,
    rhs: np.ndarray,
    limits: tuple[int, float],
) -> np.ndarray:
    """x (d,) with a residual of at most precision |rhs|; NaN where so many steps do not lead there,
    or what remains is seen not to be positive definite.

    inverse: H^-1, symmetric; shift (d,); limits: steps at most, and the precision.
    """
    d, m = len(rhs), leaving[1].shape[1]
    scale = np.abs(rhs).max(initial=0.0)
    if scale == 0.0:
        return np.zeros(d)
    threads = min(available_threads(), 1 + d * (d + m) // _WORTH_A_THREAD)
    found, meeting = np.empty((threads, d)), new_meeting()
    parts, bounds = _room(threads, d), shares_of_half(d, threads)
    asked = shift, rhs / scale, np.array([limits[0], limits[1]])

    def body(thread: int) -> None:
        crew = bounds, meeting, thread, threads
        _solve(inverse, leaving, asked, parts, found[thread], crew)

    def alone() -> None:
        crew = shares_of_half(d, 1), meeting, 0, 1
        _solve(inverse, leaving, asked, _room(1, d), found[0], crew)

    run_threads(body, threads, meeting, alone)
    return np.asarray(scale * found[0])


def _room(threads: int, d: int) -> Parts:
    return np.zeros((threads, d)), np.zeros((threads, d))


def weighted_product(leaving: WeightedRows, v: np.ndarray) -> np.ndarray:
    """D v, (d,)."""
    rows, weights = leaving
    m = weights.shape[1]
    threads, parts = threads_and_parts(m * len(v), _WORTH_A_THREAD)
    sums, nobody = np.zeros((parts, 1, len(v))), np.empty(0, np.intp)
    asked = np.zeros(1, np.intp), v[None].astype(rows[0].dtype)

    def body(part: int) -> None:
        chosen = nobody, m * part // parts, m * (part + 1) // parts
        add_weighted_products(rows, weights, asked, chosen, sums[part])

    run_parts(body, parts, threads)
    return np.asarray(sums.sum(axis=0)[0])


@njit(**KERNEL)
def _total(parts: np.ndarray, out: np.ndarray) -> None:
    """out <- the sum over threads."""
    for j in range(out.size):
        out[j] = parts[0, j]
    for t in range(1, parts.shape[0]):
        for j in range(out.size):
            out[j] += parts[t, j]


@njit(**KERNEL)
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(**KERNEL)
def _solve(
    inverse: np.ndarray,
    leaving: WeightedRows,
    asked: tuple[np.ndarray, np.ndarray, np.ndarray],
    parts: Parts,
    x: np.ndarray,
    crew: tuple[np.ndarray, np.ndarray, int, int],
) -> None:
    """asked: shift, rhs and limits; x: a thread's own. crew: the share of the matrix of each
    thread, where they meet, which one this is, and how many there are."""
    rows, weights = leaving
    shift, rhs, limits = asked
    images, guided = parts
    bounds, meeting, thread, threads = crew
    m, d = weights.shape[1], x.size
    low, high = m * thread // threads, m * (thread + 1) // threads
    half = bounds[thread], bounds[thread + 1]
    arrivals = 0
    x[:] = 0.0
    size = np.sqrt(_dot(rhs, rhs))
    residual, straight = rhs.copy(), rhs.copy()  # straight = H direction
    direction, z, image = np.empty(d), np.empty(d), np.empty(d)
    given, index = np.empty((1, d), rows[0].dtype), np.empty(0, np.intp)
    asked_products = np.zeros(1, np.intp), given
    mine, mine_guided = images[thread : thread + 1], guided[thread]
    rz = 0.0
    for step in range(int(limits[0])):
        mine_guided[:] = 0.0
        add_half_product(inverse, residual, mine_guided, half)
        arrivals += threads
        if threads > 1:
            meet(meeting, arrivals)
        _total(guided, z)
        before, rz = rz, _dot(residual, z)
        if step == 0:
            direction[:] = z
        else:
            for j in range(d):
                direction[j] = z[j] + (rz / before) * direction[j]
                straight[j] = residual[j] + (rz / before) * straight[j]
        for j in range(d):
            given[0, j] = direction[j]
        mine[:] = 0.0
        add_weighted_products(rows, weights, asked_products, (index, low, high), mine)
        arrivals += threads
        if threads > 1:
            meet(meeting, arrivals)
        _total(images, image)
        for j in range(d):
            image[j] = straight[j] - image[j] - shift[j] * direction[j]
        curvature = _dot(direction, image)
        if not curvature > 0.0:
            break
        length = rz / curvature
        for j in range(d):
            x[j] += length * direction[j]
            residual[j] -= length * image[j]
        if np.sqrt(_dot(residual, residual)) <= limits[1] * size:
            return
    x[:] = np.nan
