"""x = (H - D - shift)^-1 rhs for many rows that leave, when H^-1 is known: one call.

Conjugate gradients with H^-1 as guide. D, the Hessian of the rows that leave, is known by its
products, each a reading of these rows. The preconditioned residual z = H^-1 r has H z = r, so that
products with H come by the same recurrence as the directions, for nothing. Threads share rows and
matrix (kernels.helpers); what is as short as a vector is computed by the one that leads.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.helpers import (
    finish_part,
    new_board,
    next_part,
    open_step,
    parts_of,
    wait_for_parts,
    wait_for_step,
)
from unfit.core.kernels.parallel import (
    KERNEL,
    available_threads,
    run_parts,
    run_with_helpers,
    threads_and_parts,
)
from unfit.core.kernels.rows import RowArrays
from unfit.core.kernels.sums import add_weighted_products
from unfit.core.kernels.vectors import add_half_product, shares_of_half

_WORTH_A_THREAD = 1 << 18  # numbers of the matrix and of the rows

WeightedRows = tuple[RowArrays, np.ndarray]  # rows, and the curvature of each as (1, m)
# What products are asked of: a residual (d,), by H^-1, and a direction (1, d), by D, as rows are
# stored; and what they came to, both (parts, d).
Shared = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_BY_INVERSE, _BY_ROWS = 0, 1  # which of them a step is about


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
    x, residual, board = np.zeros(d), rhs / scale, new_board(threads)
    parts = parts_of(board)
    direction = np.empty((1, d), leaving[0][0].dtype)
    shared = residual, direction, np.empty((parts, d)), np.empty((parts, d))
    bounds = shares_of_half(d, parts)
    asked = shift, float(limits[0]), limits[1]
    run_with_helpers(
        lambda: _solve(inverse, leaving, asked, shared, x, (bounds, board)),
        lambda: _help(inverse, leaving, shared, bounds, board),
        threads,
        board,
    )
    return np.asarray(scale * x)


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
    """out <- the sum over parts."""
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
def _take_parts(
    inverse: np.ndarray,
    leaving: WeightedRows,
    shared: Shared,
    bounds: np.ndarray,
    board: np.ndarray,
) -> None:
    """Products with some of the matrix or of the rows, for as long as the open step has any."""
    rows, weights = leaving
    residual, direction, guided, images = shared
    m, parts = weights.shape[1], board[0, 1]
    asked, nobody = (np.zeros(1, np.intp), direction), np.empty(0, np.intp)
    step, part = next_part(board)
    while part >= 0:
        if step % 2 == _BY_INVERSE:
            guided[part, :] = 0.0
            add_half_product(inverse, residual, guided[part], (bounds[part], bounds[part + 1]))
        else:
            images[part, :] = 0.0
            chosen = nobody, m * part // parts, m * (part + 1) // parts
            add_weighted_products(rows, weights, asked, chosen, images[part : part + 1])
        finish_part(board)
        step, part = next_part(board)


@njit(**KERNEL)
def _help(
    inverse: np.ndarray,
    leaving: WeightedRows,
    shared: Shared,
    bounds: np.ndarray,
    board: np.ndarray,
) -> None:
    while wait_for_parts(board):
        _take_parts(inverse, leaving, shared, bounds, board)


@njit(**KERNEL)
def _solve(
    inverse: np.ndarray,
    leaving: WeightedRows,
    asked: tuple[np.ndarray, float, float],
    shared: Shared,
    x: np.ndarray,
    crew: tuple[np.ndarray, np.ndarray],
) -> None:
    """asked: the shift, steps at most, and the precision; shared: begins with the right-hand side,
    which becomes the residual. x: zeros. crew: where parts of the matrix begin, and the board."""
    shift, most, precision = asked
    residual, rounded, guided, images = shared
    bounds, board = crew
    d = x.size
    size = np.sqrt(_dot(residual, residual))
    straight = residual.copy()  # H direction
    direction, z, image = np.empty(d), np.empty(d), np.empty(d)
    rz = 0.0
    for step in range(int(most)):
        open_step(board, 2 * step + _BY_INVERSE)
        _take_parts(inverse, leaving, shared, bounds, board)
        wait_for_step(board)
        _total(guided, z)
        before, rz = rz, _dot(residual, z)
        if step == 0:
            direction[:] = z
        else:
            for j in range(d):
                direction[j] = z[j] + (rz / before) * direction[j]
                straight[j] = residual[j] + (rz / before) * straight[j]
        for j in range(d):
            rounded[0, j] = direction[j]
        open_step(board, 2 * step + _BY_ROWS)
        _take_parts(inverse, leaving, shared, bounds, board)
        wait_for_step(board)
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
        if np.sqrt(_dot(residual, residual)) <= precision * size:
            return
    x[:] = np.nan
