"""What a few rows change of functions of a diagonal: (diag + t - U^T U)^-1 at many points t.

(diag + t - U^T U)^-1 b - D b = D U^T (I - U D U^T)^-1 U D b    with D = (diag + t)^-1
"""

import numpy as np
from numba import njit

from unfit.core.kernels.cholesky import grown, solved
from unfit.core.kernels.parallel import KERNEL


@njit(**KERNEL)
def add_changes(
    diagonal: np.ndarray,
    U: np.ndarray,
    b: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """out (d,) += the sum over the points of weight times the change, for a few rows U (m, d)."""
    m, d = U.shape
    D, gap, right = np.empty(d), np.empty((m, m)), np.empty(m)
    for p in range(points.size):
        for j in range(d):
            D[j] = 1.0 / (diagonal[j] + points[p])
        for i in range(m):
            row, total = U[i], 0.0
            for j in range(d):
                total += row[j] * D[j] * b[j]
            right[i] = total
            for c in range(i + 1):
                other, inner = U[c], 0.0
                for j in range(d):
                    inner += row[j] * D[j] * other[j]
                gap[i, c] = (1.0 if i == c else 0.0) - inner
        scales = solved(grown(np.zeros((0, 0)), gap), right)
        for i in range(m):
            row, scale = U[i], weights[p] * scales[i]
            for j in range(d):
                out[j] += scale * D[j] * row[j]
