"""The contract of a loss."""

import numpy as np

from unfit.core.losses import Loss
from unfit.core.objective import value_gradient_sum
from unfit.methods import METHODS
from unfit.testing.cases import Case, require_same, rng
from unfit.testing.engines import check_sums
from unfit.testing.methods import (
    check_nothing_deleted_changes_nothing,
    check_one_request_or_two,
    check_row_added_twice_and_deleted_once,
    check_rows_in_another_order_give_the_same_model,
    check_unlearn_is_closer_than_doing_nothing,
)


def check_loss(loss: type[Loss]) -> None:
    """The contract of a loss: it is convex, its formulae are each other's derivatives, for numbers,
    arrays and kernels alike; and rows can be unlearned with it."""
    made = loss()
    margin = np.linspace(-6, 6, 4001)  # no kink is hit by a difference but by chance
    step = margin[1] - margin[0]
    for target in (0.0, 1.0):
        t = np.full_like(margin, target)
        value, slope, curvature = (f(margin, t) for f in (made.value, made.slope, made.curvature))
        assert np.isfinite(value).all(), "the value is not finite"
        middle = (value[2:] - value[:-2]) / (2 * step)
        gap = np.abs(middle - slope[1:-1]).max()
        assert gap <= 1e-2 * max(1.0, np.abs(slope).max()), "the slope is not that of the value"
        rise = (slope[2:] - slope[:-2]) / (2 * step)
        kinks = np.abs(rise - curvature[1:-1]) > 1e-2 * max(1.0, curvature.max())
        assert kinks.mean() <= 0.01, "the curvature is not the slope of the slope"
        both = made.slope_and_curvature(margin, t)
        assert np.array_equal(both[0], slope), "slope_and_curvature gives another slope"
        assert np.array_equal(both[1], curvature), "slope_and_curvature gives another curvature"
        assert curvature.min() >= 0, "a loss must be convex"
        assert curvature.max() <= loss.max_curvature * (1 + 1e-9), "max_curvature is exceeded"
        assert np.abs(slope).max() <= loss.max_slope * (1 + 1e-9), "max_slope is exceeded"
        assert float(made.slope(margin[7], target)) == slope[7], "a number and an array differ"
    chance = made.probability(margin)
    assert ((chance >= 0) & (chance <= 1)).all(), "a probability is between 0 and 1"
    assert (np.diff(chance) >= 0).all(), "the probability falls with the margin"
    for case in [Case(dtype, k, made) for dtype in ("float32", "float64") for k in (2, 3)]:
        _check_kernels(case)
        retrain = METHODS["retrain"]
        check_nothing_deleted_changes_nothing(retrain, case)
        check_one_request_or_two(retrain, case)
        check_row_added_twice_and_deleted_once(retrain, case)
        check_rows_in_another_order_give_the_same_model(retrain, case)
        check_unlearn_is_closer_than_doing_nothing(METHODS["fisher"], case)


def _check_kernels(case: Case) -> None:
    """Compiled sums against the formulae in NumPy."""
    data, rows = case.data(), case.rows()
    W = rng(1).standard_normal((data.k, data.d))
    check_sums(data, rows, W, case.tolerance)
    _, gradient = value_gradient_sum(rows, W)
    require_same(data.sums_of(W, np.arange(400))[0], gradient, case.tolerance, "narrow sums")
