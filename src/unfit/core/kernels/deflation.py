"""Components along a few directions, and back: what a guide does with every residual.

By our own threads: BLAS would wake its own, which then spin beside the kernels of the products.
"""

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL

Share = tuple[int, int]


_BLOCK = 512  # columns at a time, of which vectors and directions stay in the cache


@njit(**KERNEL)
def add_components(
    vectors: np.ndarray, directions: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """out[c, a] += sum of vectors[c, i] directions[a, i] over the i of a share."""
    j, r = out.shape
    for start in range(share[0], share[1], _BLOCK):
        stop = min(start + _BLOCK, share[1])
        for c in range(j):
            vector = vectors[c, start:stop]
            for a in range(r):
                direction, total = directions[a, start:stop], 0.0
                for i in range(vector.size):
                    total += vector[i] * direction[i]
                out[c, a] += total


@njit(**KERNEL)
def combine(
    vectors: np.ndarray,
    scales: np.ndarray,
    back: np.ndarray,
    directions: np.ndarray,
    out: np.ndarray,
    share: Share,
) -> None:
    """out[c, i] = scales[c] vectors[c, i] + sum of back[c, a] directions[a, i] over a."""
    j, r = back.shape
    for start in range(share[0], share[1], _BLOCK):
        stop = min(start + _BLOCK, share[1])
        for c in range(j):
            vector, new = vectors[c, start:stop], out[c, start:stop]
            for i in range(vector.size):
                new[i] = scales[c] * vector[i]
            for a in range(0, r - 1, 2):
                one, other = directions[a, start:stop], directions[a + 1, start:stop]
                of_one, of_other = back[c, a], back[c, a + 1]
                for i in range(vector.size):
                    new[i] += of_one * one[i] + of_other * other[i]
            if r % 2:
                one, of_one = directions[r - 1, start:stop], back[c, r - 1]
                for i in range(vector.size):
                    new[i] += of_one * one[i]


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
