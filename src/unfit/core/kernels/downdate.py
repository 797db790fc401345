"""x = (H - U^T U - shift)^-1 rhs for a few rows U, when H^-1 is known: a series, in one call.

    P = H - U^T U,   P^-1 v = H^-1 v + Z^T (I - U Z^T)^-1 Z v   with Z = U H^-1
    x = P^-1 rhs + P^-1 shift P^-1 rhs + ...

Every term reads a matrix once, and threads share its rows (kernels.helpers). What is as short as a
vector is computed by the one that leads.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.cholesky import grown, solved
from unfit.core.kernels.helpers import (
    finish_part,
    new_board,
    next_part,
    open_step,
    wait_for_parts,
    wait_for_step,
)
from unfit.core.kernels.parallel import KERNEL, available_threads, run_with_helpers
from unfit.core.kernels.products import fill_products

_WORTH_A_THREAD = 1 << 18  # numbers of the matrix

Inverses = tuple[np.ndarray, np.ndarray]  # H^-1, and what is as good as it for all terms but one
# U (m, d) with rhs as one more row, the shift of every column, and the numbers of `limits`.
Asked = tuple[np.ndarray, np.ndarray, np.ndarray]
# Z with H^-1 rhs as one more row (m + 1, d), what a term starts from (1, d), and its image (1, d).
Shared = tuple[np.ndarray, np.ndarray, np.ndarray]


def solve_downdated(
    inverses: Inverses, rows: np.ndarray, shift: np.ndarray, limits: np.ndarray
) -> np.ndarray:
    """x (d,). rows: U (m, d) with rhs as one more row; shift (d,).

    limits: terms at most after the first, what they shrink by at least, the precision of x,
    relative; the least square on the diagonal of the factor of I - U Z^T, and the rounding of
    u H^-1 u for |u| = 1. NaN where a square is below what is asked, or known no better than that.
    """
    m, d = len(rows) - 1, rows.shape[1]
    if d * d < _WORTH_A_THREAD:  # to ask how many threads there are would take longer
        threads = 1
    else:
        threads = min(available_threads(), 1 + d * d // _WORTH_A_THREAD)
    of_terms = np.empty((2, 1, d), inverses[1].dtype)
    shared = np.empty((m + 1, d)), of_terms[0], of_terms[1]
    found, board = np.empty(d), new_board(threads)
    run_with_helpers(
        lambda: _solve(inverses, (rows, shift, limits), shared, found, board),
        lambda: _help(inverses, rows, shared, board),
        threads,
        board,
    )
    return found


@njit(**KERNEL)
def _dots(rows: np.ndarray, m: int, v: np.ndarray, out: np.ndarray) -> None:
    """out[i] <- rows[i].v for the first m rows."""
    for i in range(m):
        row, total = rows[i], 0.0
        for j in range(v.size):
            total += row[j] * v[j]
        out[i] = total


@njit(**KERNEL)
def _add_downdate(Z: np.ndarray, L: np.ndarray, v: np.ndarray, image: np.ndarray) -> None:
    """image += Z^T (L L^T)^-1 Z v: from H^-1 v to P^-1 v."""
    m = L.shape[0]
    through = np.empty(m)
    _dots(Z, m, v, through)
    scales = solved(L, through)
    for i in range(m):
        row, scale = Z[i], scales[i]
        for j in range(v.size):
            image[j] += scale * row[j]


@njit(**KERNEL)
def _square(v: np.ndarray) -> float:
    total = 0.0
    for j in range(v.size):
        total += v[j] * v[j]
    return total


@njit(**KERNEL)
def _factor_of_gap(rows: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The lower factor of I - U Z^T."""
    m = rows.shape[0] - 1
    gap = np.empty((m, m))
    for i in range(m):
        _dots(rows, m, Z[i], gap[i])
        for j in range(m):
            gap[i, j] = -gap[i, j]
        gap[i, i] += 1.0
    factor: np.ndarray = grown(np.zeros((0, 0)), gap)
    return factor


@njit(**KERNEL)
def _take_parts(inverses: Inverses, rows: np.ndarray, shared: Shared, board: np.ndarray) -> None:
    """Products with some rows of a matrix, for as long as the open step has any."""
    inverse, rough = inverses
    Z, term, image = shared
    d, parts = rows.shape[1], board[0, 1]
    step, part = next_part(board)
    while part >= 0:
        first, stop = d * part // parts, d * (part + 1) // parts
        if step == 0:
            fill_products(inverse, rows, Z, first, stop)
        else:
            fill_products(rough, term, image, first, stop)
        finish_part(board)
        step, part = next_part(board)


@njit(**KERNEL)
def _help(inverses: Inverses, rows: np.ndarray, shared: Shared, board: np.ndarray) -> None:
    while wait_for_parts(board):
        _take_parts(inverses, rows, shared, board)


@njit(**KERNEL)
def _step(
    number: int, inverses: Inverses, rows: np.ndarray, shared: Shared, board: np.ndarray
) -> None:
    open_step(board, number)
    _take_parts(inverses, rows, shared, board)
    wait_for_step(board)


@njit(**KERNEL)
def _solve(
    inverses: Inverses, asked: Asked, shared: Shared, x: np.ndarray, board: np.ndarray
) -> None:
    rows, shift, limits = asked
    Z, rounded, image = shared
    d, m = x.size, rows.shape[0] - 1
    _step(0, inverses, rows, shared, board)
    L = _factor_of_gap(rows, Z)
    for i in range(m):
        known = limits[4] * _square(rows[i]) <= limits[3]
        if not (known and L[i, i] * L[i, i] >= limits[3]):  # NaN is not
            x[:] = np.nan
            return
    term, scaled = Z[m].copy(), np.empty(d)
    _add_downdate(Z, L, rows[m], term)
    x[:] = term
    most, contraction, precision = int(limits[0]), limits[1], limits[2]
    for number in range(1, most + 1):
        for j in range(d):
            scaled[j] = shift[j] * term[j]
            rounded[0, j] = scaled[j]
        _step(number, inverses, rows, shared, board)
        for j in range(d):
            term[j] = image[0, j]
        _add_downdate(Z, L, scaled, term)
        for j in range(d):
            x[j] += term[j]
        if not contraction**2 * _square(term) > precision**2 * _square(x):
            return
