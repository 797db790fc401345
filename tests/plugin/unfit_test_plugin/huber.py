"""A loss from outside: the pseudo-Huber loss of labels of -1 and 1."""

from typing import Any

import numpy as np

from unfit.core.losses import Loss


class PseudoHuber(Loss):
    """sqrt(1 + (m - y)^2) - 1 with y = 2 t - 1."""

    name = "pseudo-huber"
    title = "Pseudo-Huber"
    max_curvature = 1.0
    max_slope = 1.0

    @staticmethod
    def value(margin: Any, target: Any) -> Any:
        return np.sqrt(1.0 + (margin - (2.0 * target - 1.0)) ** 2) - 1.0

    @staticmethod
    def slope(margin: Any, target: Any) -> Any:
        error = margin - (2.0 * target - 1.0)
        return error / np.sqrt(1.0 + error**2)

    @staticmethod
    def curvature(margin: Any, target: Any) -> Any:
        error = margin - (2.0 * target - 1.0)
        return (1.0 + error**2) ** -1.5
