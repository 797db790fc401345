"""Sums over rows on their way out, by BLAS where they are wide.

Its threads wait for the next call spinning, for tens of milliseconds, and a pass by threads of our
own meanwhile takes twice as long. So these threads are ours, with BLAS on one core in each; of few
rows there is one, and of very many columns, whose sums each thread would hold, they are BLAS's own.
In the precision of the rows inside a block, float64 across.
"""

import numpy as np

from unfit.core.kernels.narrow import narrow
from unfit.core.kernels.parallel import available_threads, blas_on_one_core, run_threads
from unfit.core.objective import (
    Rows,
    block_rows,
    check_index,
    gradient_sum,
    narrow_sums,
    scaled_rows,
)

_MOST_NUMBERS = 1 << 24  # of the sums of all threads together
_WORTH_A_THREAD = 32  # rows


def sums_of_rows(rows: Rows, index: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sum slope x, (k, d), and sum curvature x x^T, (k, d, d), over the rows at an index.

    Each thread takes a part of the rows, and gathers them block by block into a scratch that stays
    in the cache.
    """
    check_index(index, len(rows))
    if narrow(rows.X, len(W)):
        return narrow_sums(rows, index, W)
    numbers = W.shape[0] * W.shape[1] ** 2
    threads = min(available_threads(), _MOST_NUMBERS // numbers, index.size // _WORTH_A_THREAD)
    if threads < 2:
        return _sums_of_part(rows, index, W)
    parts = np.array_split(index, threads)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def body(thread: int) -> None:
        found[thread] = _sums_of_part(rows, parts[thread], W)

    with blas_on_one_core():
        run_threads(body, len(parts))
    gradient, hessian = found[0]
    for thread in range(1, len(parts)):
        gradient += found[thread][0]
        hessian += found[thread][1]
    return gradient, hessian


def _sums_of_part(rows: Rows, index: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (k, d), p, step = W.shape, rows.X.shape[1], block_rows(rows)
    gradient, hessian = np.zeros((k, d)), np.zeros((k, d, d))
    size = min(step, index.size)
    scratch, scaled = np.empty((size, p), rows.X.dtype), np.empty((size, d), rows.X.dtype)
    for start in range(0, index.size, step):
        chosen = index[start : start + step]
        X = np.take(rows.X, chosen, axis=0, out=scratch[: chosen.size], mode="clip")
        weight = None if rows.sample_weight is None else rows.sample_weight[chosen]
        part = Rows(X, rows.codes[chosen], rows.intercept, rows.loss, weight)
        _add_gradient(gradient, part, W)
        roots = np.sqrt(part.curvatures(W))
        for c in range(k):
            U = scaled_rows(X, roots[:, c], rows.intercept, scaled)
            hessian[c] += U.T @ U
    return gradient, hessian


def gradient_and_roots(rows: Rows, W: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of a few rows: sum slope x (k, d), and for each problem U with rows sqrt(curvature) x."""
    curvatures = np.zeros((len(W), len(rows)))
    gradient = gradient_sum(rows, W, None, curvatures)
    roots = np.sqrt(curvatures).astype(rows.X.dtype)
    return gradient, [scaled_rows(rows.X, root, rows.intercept, None) for root in roots]


def _add_gradient(total: np.ndarray, rows: Rows, W: np.ndarray) -> None:
    _add_sloped(total, rows, rows.slopes(W))


def _add_sloped(total: np.ndarray, rows: Rows, slopes: np.ndarray) -> None:
    p = rows.X.shape[1]
    total[:, :p] += slopes.T @ rows.X
    if rows.intercept:
        total[:, p] += slopes.sum(axis=0, dtype=np.float64)
