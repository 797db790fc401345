"""Every registered loss passes the public contract, and a wrong one does not."""

import numpy as np
import pytest

from unfit.core.losses import LOSSES, SquaredError
from unfit.testing import check_loss


@pytest.mark.parametrize("name", LOSSES)
def test_contract(name):
    check_loss(LOSSES[name])


def test_a_wrong_slope_is_caught():
    class Wrong(SquaredError):
        @staticmethod
        def slope(margin, target):
            return 2.0 * (margin - (2.0 * target - 1.0))

    with pytest.raises(AssertionError, match="the slope is not that of the value"):
        check_loss(Wrong)


def test_a_loss_that_is_not_convex_is_caught():
    class Wave(SquaredError):
        @staticmethod
        def value(margin, target):
            return np.cos(margin) + 0.0 * target

        @staticmethod
        def slope(margin, target):
            return -np.sin(margin) + 0.0 * target

        @staticmethod
        def curvature(margin, target):
            return -np.cos(margin) + 0.0 * target

    with pytest.raises(AssertionError, match="convex"):
        check_loss(Wave)
