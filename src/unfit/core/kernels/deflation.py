"""Components along a few directions, and back: what a guide does with every residual.

By our own threads: BLAS would wake its own, which then spin beside the kernels of the products.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL

Share = tuple[int, int]


@njit(**KERNEL)
def add_components(
    vectors: np.ndarray, directions: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """out[c, a] += sum of vectors[c, i] directions[i, a] over the i of a share."""
    j, r = out.shape
    for i in range(share[0], share[1]):
        direction = directions[i]
        for c in range(j):
            value, total = vectors[c, i], out[c]
            for a in range(r):
                total[a] += value * direction[a]


@njit(**KERNEL)
def combine(
    vectors: np.ndarray,
    scales: np.ndarray,
    back: np.ndarray,
    directions: np.ndarray,
    out: np.ndarray,
    share: Share,
) -> None:
    """out[c, i] = scales[c] vectors[c, i] + sum of back[c, a] directions[i, a] over a."""
    j, r = back.shape
    for i in range(share[0], share[1]):
        direction = directions[i]
        for c in range(j):
            total, weights = 0.0, back[c]
            for a in range(r):
                total += weights[a] * direction[a]
            out[c, i] = scales[c] * vectors[c, i] + total


@njit(**KERNEL)
def add_inner(
    components: np.ndarray, curvatures: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """out[c] += sum of curvatures[i, c] z_i z_i^T over the rows i of a share; its lower half."""
    k, r = out.shape[0], components.shape[1]
    for i in range(share[0], share[1]):
        z = components[i]
        for c in range(k):
            weight = curvatures[i, c]
            if weight == 0.0:
                continue
            for a in range(r):
                scaled, total = weight * z[a], out[c, a]
                for b in range(a + 1):
                    total[b] += scaled * z[b]
