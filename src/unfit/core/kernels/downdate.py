"""x = (H - U^T U - shift)^-1 rhs for a few rows U, when H^-1 is known: a series, in one call.

    P = H - U^T U,   P^-1 v = H^-1 v + Z^T (I - U Z^T)^-1 Z v   with Z = U H^-1
    x = P^-1 rhs + P^-1 shift P^-1 rhs + ...

Every term reads a matrix once; threads share its rows and meet after it. What is as short as a
vector each thread computes for itself, so that nobody waits for anybody.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.cholesky import grown, solved
from unfit.core.kernels.parallel import (
    KERNEL,
    available_threads,
    meet,
    new_meeting,
    run_threads,
)
from unfit.core.kernels.products import fill_products

_WORTH_A_THREAD = 1 << 18  # numbers of the matrix

Inverses = tuple[np.ndarray, np.ndarray]  # H^-1, and what is as good as it for all terms but one
# U (m, d) with rhs as one more row, the shift of every column, and the numbers of `limits`.
Asked = tuple[np.ndarray, np.ndarray, np.ndarray]


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
    shared = np.empty((m + 1, d)), np.empty((2, d), inverses[1].dtype)
    found, meeting = np.empty((threads, d)), new_meeting()
    asked = rows, shift, limits

    def body(thread: int) -> None:
        _solve(inverses, asked, shared, (found[thread], meeting, thread, threads))

    def alone() -> None:
        _solve(inverses, asked, shared, (found[0], meeting, 0, 1))

    run_threads(body, threads, meeting, alone)
    return np.asarray(found[0])


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
def _solve(
    inverses: Inverses,
    asked: Asked,
    shared: tuple[np.ndarray, np.ndarray],
    crew: tuple[np.ndarray, np.ndarray, int, int],
) -> None:
    """shared: Z with H^-1 rhs as one more row, and (2, d) H^-1 times what a term starts from, by
    turns, so that nobody overwrites what another still reads. crew: a thread's own x (d,), where
    threads meet, which one this is, and how many there are.
    """
    inverse, rough = inverses
    rows, shift, limits = asked
    Z, images = shared
    x, meeting, thread, threads = crew
    d, m = x.size, rows.shape[0] - 1
    first, stop = d * thread // threads, d * (thread + 1) // threads
    fill_products(inverse, rows, Z, first, stop)
    arrivals = threads
    if threads > 1:
        meet(meeting, arrivals)
    L = _factor_of_gap(rows, Z)
    for i in range(m):
        known = limits[4] * _square(rows[i]) <= limits[3]
        if not (known and L[i, i] * L[i, i] >= limits[3]):  # NaN is not
            x[:] = np.nan
            return
    term, scaled, rounded = Z[m].copy(), np.empty(d), np.empty((1, d), rough.dtype)
    _add_downdate(Z, L, rows[m], term)
    x[:] = term
    most, contraction, precision = int(limits[0]), limits[1], limits[2]
    for number in range(most):
        for j in range(d):
            scaled[j] = shift[j] * term[j]
            rounded[0, j] = scaled[j]
        half = number % 2
        fill_products(rough, rounded, images[half : half + 1], first, stop)
        arrivals += threads
        if threads > 1:
            meet(meeting, arrivals)
        for j in range(d):
            term[j] = images[half, j]
        _add_downdate(Z, L, scaled, term)
        for j in range(d):
            x[j] += term[j]
        if not contraction**2 * _square(term) > precision**2 * _square(x):
            return
