"""The logistic loss of many rows at once against extended precision; other losses one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from unfit.core.kernels.logistic import sigmoid
from unfit.core.kernels.margin import slopes_inplace, terms_inplace
from unfit.core.losses import LOSSES, Logistic

TINY = np.finfo(float).eps


@njit
def _terms(loss, margin, target, values, curvatures, count):
    terms_inplace(loss, margin, target, values, curvatures, count)


@njit
def _slopes(loss, margin, target, count):
    slopes_inplace(loss, margin, target, count)


@njit
def _sigmoid(margin):
    return sigmoid(margin)


def _found(margin, target, loss=None):
    """Values, slopes and curvatures of the kernel."""
    slope, value, curvature = margin.copy(), np.zeros_like(margin), np.zeros_like(margin)
    _terms((loss or Logistic()).compiled, slope, target, value, curvature, len(margin))
    return value, slope, curvature


def _expected(margin, target):
    m = margin.astype(np.longdouble)
    e = np.exp(-np.abs(m))
    value = np.maximum(m, 0) - target * m + np.log1p(e)
    p = np.where(m >= 0, 1, e) / (1 + e)
    return value, p - target, e / (1 + e) ** 2


def _check(margin, target):
    """Within a few roundings: of a value of the numbers it is the difference of, of a slope of 1,
    of a curvature relative to itself, where exp(-m) may be |m| roundings wrong."""
    value, slope, curvature = _found(margin, target)
    right = _expected(margin, target)
    size = np.abs(margin)
    assert (np.abs(value - right[0]) <= 2 * TINY * (1 + size)).all()
    assert (np.abs(slope - right[1]) <= 4 * TINY).all()
    assert (np.abs(curvature - right[2]) <= (4 + 2 * size) * TINY * right[2]).all()
    alone = margin.copy()
    _slopes(Logistic().compiled, alone, target, len(margin))
    np.testing.assert_allclose(alone, slope, rtol=0, atol=4 * TINY)


@pytest.mark.parametrize("spread", [1e-9, 0.1, 1.0, 5.0, 30.0, 300.0])
def test_terms_are_those_of_extended_precision(spread):
    rng = np.random.default_rng(0)
    margin = np.clip(spread * rng.standard_normal(20_001), -700, 700)
    _check(margin, (rng.random(len(margin)) < 0.5).astype(float))


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=19), st.booleans())
def test_terms_of_any_margins(margins, target):
    margin = np.array(margins)
    _check(margin, np.full(len(margin), float(target)))


def test_every_rounding_of_the_exponent_is_continuous():
    """Where 2^f changes its n, both sides agree."""
    edges = (np.arange(0, 900) + 0.5) * np.log(2)
    for margin in (edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)):
        _check(margin, np.zeros(len(margin)))
        _check(-margin, np.ones(len(margin)))


def test_far_margins_have_no_slope_left_and_what_is_not_a_number_stays_one():
    margin = np.array([1e4, -1e4, np.nan, 0.0, -0.0])
    value, slope, curvature = _found(margin, np.zeros(5))
    np.testing.assert_allclose(value[[0, 1, 3]], [1e4, 0, np.log(2)], atol=1e-300)
    np.testing.assert_allclose(slope[[0, 1, 3, 4]], [1, 0, 0.5, 0.5], atol=1e-300)
    assert (curvature[[0, 1]] < 1e-300).all()
    assert np.isnan([value[2], slope[2], curvature[2]]).all()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_no_more_rows_than_counted_are_written(count):
    margin, target = np.full(12, 0.3), np.zeros(12)
    value, curvature = np.full(12, -1.0), np.full(12, -1.0)
    _terms(Logistic().compiled, margin, target, value, curvature, count)
    assert (value[count:] == -1).all()
    assert (curvature[count:] == -1).all()
    assert (margin[count:] == 0.3).all()
    assert (value[:count] != -1).all()


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "logistic"])
def test_other_losses_are_their_own_formulae(name):
    loss, rng = LOSSES[name](), np.random.default_rng(1)
    margin, target = 2 * rng.standard_normal(100), (rng.random(100) < 0.5).astype(float)
    found = _found(margin, target, loss)
    expected = (f(margin, target) for f in (loss.value, loss.slope, loss.curvature))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-15)


def test_the_sigmoid_of_one_number_is_that_of_numpy():
    for margin in (-750.0, -20.0, -0.5, 0.0, 0.5, 20.0, 750.0):
        assert _sigmoid(margin) == pytest.approx(float(sigmoid(margin)), rel=1e-13, abs=1e-300)
