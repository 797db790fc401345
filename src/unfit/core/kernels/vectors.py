"""Steps of conjugate gradients on a few long vectors, each by one reading of what it changes.

`at` names, for each of j compact vectors (j, d), the row of the whole ones (k, d) it belongs to.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from unfit.core.kernels.parallel import KERNEL, available_threads, run_threads

_WORTH_A_THREAD = 1 << 18  # multiply-adds

Share = tuple[int, int]


def by_threads(
    n: int, work: int, shape: tuple[int, ...], body: Callable[[np.ndarray, Share], None]
) -> np.ndarray:
    """body(out, share) of every thread, out (threads, *shape) zeros; work: for each of the n."""
    threads = min(available_threads(), 1 + n * work // _WORTH_A_THREAD)
    out = np.zeros((threads, *shape))
    run_threads(lambda t: body(out[t], (n * t // threads, n * (t + 1) // threads)), threads)
    return out


@njit(**KERNEL)
def add_dots(
    whole: np.ndarray, at: np.ndarray, compact: np.ndarray, out: np.ndarray, share: Share
) -> None:
    """out[c] += whole[at[c]] . compact[c] over a share of the columns."""
    for c in range(at.size):
        one, other, total = whole[at[c]], compact[c], 0.0
        for i in range(share[0], share[1]):
            total += one[i] * other[i]
        out[c] += total


@njit(**KERNEL)
def advance(
    moved: tuple[np.ndarray, np.ndarray, np.ndarray],
    at: np.ndarray,
    steps: np.ndarray,
    images: np.ndarray,
    out: np.ndarray,
    share: Share,
) -> None:
    """x += step direction and left -= step image; out[c] += |left|^2. moved: x, left, direction."""
    for c in range(at.size):
        x, left, direction = moved[0][at[c]], moved[1][at[c]], moved[2][at[c]]
        image, step, total = images[c], steps[c], 0.0
        for i in range(share[0], share[1]):
            x[i] += step * direction[i]
            rest = left[i] - step * image[i]
            left[i] = rest
            total += rest * rest
        out[c] += total


@njit(**KERNEL)
def turn(
    directions: np.ndarray, at: np.ndarray, ratios: np.ndarray, z: np.ndarray, share: Share
) -> None:
    """direction = z + ratio direction."""
    for c in range(at.size):
        direction, new, ratio = directions[at[c]], z[c], ratios[c]
        for i in range(share[0], share[1]):
            direction[i] = new[i] + ratio * direction[i]
