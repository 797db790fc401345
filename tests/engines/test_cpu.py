"""The CPU engine: sums over what remains, and the layout SGD walks through."""

import numpy as np
import pytest

from unfit.core.objective import Rows, all_different, gram_sum, hessian_sum, value_gradient_sum
from unfit.engines.base import Engine
from unfit.engines.cpu import CpuEngine


@pytest.fixture(params=["float32", "float64"])
def engine(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 21)).astype(request.param)
    return CpuEngine(Rows(X, rng.integers(0, 3, 5000).astype(np.int32), True), 3)


def test_it_is_an_engine(engine):
    accepted: Engine = engine
    assert (accepted.d, accepted.k, accepted.n_remaining) == (22, 3, 5000)


def test_sums_follow_the_rows_that_remain(engine):
    W = np.random.default_rng(1).standard_normal((3, 22)) / 10
    gone = np.random.default_rng(2).choice(5000, 1234, replace=False)
    mask = engine.without(gone)
    assert engine.remaining.all()
    asked = engine.gradient_sum(W, mask), engine.hessian_sum(W, mask), engine.gram_sum(mask)
    engine.forget(gone)
    assert engine.n_remaining == 3766
    rest: Rows = engine.take(np.flatnonzero(engine.remaining))
    tolerance = 1e-3 if rest.X.dtype == np.float32 else 1e-9
    expected = value_gradient_sum(rest, W)[1], hessian_sum(rest, W), gram_sum(rest)
    now = engine.gradient_sum(W), engine.hessian_sum(W), engine.gram_sum()
    for before, after, goal in zip(asked, now, expected, strict=True):
        np.testing.assert_allclose(before, goal, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(after, goal, rtol=tolerance, atol=tolerance)


def test_the_layout_is_padded_aligned_and_in_the_order_asked_for(engine):
    row_of = np.random.default_rng(3).permutation(5000)[:4000].astype(np.int32)
    layout = engine.lay_out(row_of)
    assert layout.X.shape[1] * layout.X.itemsize % 32 == 0
    assert layout.X.shape[1] < 22 + 8
    assert layout.X.ctypes.data % 64 == 0
    assert layout.X.flags.c_contiguous
    np.testing.assert_array_equal(layout.X[:, :21], engine.rows.X[row_of])
    assert (layout.X[:, 21] == 1).all()
    assert not layout.X[:, 22:].any()
    np.testing.assert_array_equal(layout.codes, engine.rows.codes[row_of])
    assert engine.lay_out(row_of) is layout
    assert engine.lay_out(row_of.copy()) is not layout


def test_a_layout_without_intercept():
    X = np.ones((10, 16), np.float32)
    layout = CpuEngine(Rows(X, np.zeros(10, np.int32), False), 2).lay_out(
        np.arange(10, dtype=np.int32)
    )
    assert layout.X.shape == (10, 16)


@pytest.mark.parametrize("m", [0, 1, 3, 60, 128])
@pytest.mark.parametrize("n", [200, 128, 1_000_000])
def test_repeated_places_are_seen(m, n):
    places = np.random.default_rng(m).permutation(n)[:m]
    assert all_different(places, n)
    assert m == 0 or not all_different(np.append(places, places[-1]), n)
    assert m == 0 or not all_different(np.append(places[0], places), n)


def test_emptied_columns_are_those_that_counting_finds():
    rng = np.random.default_rng(4)
    X = (rng.random((200, 12)) < np.linspace(0, 0.1, 12)) * rng.standard_normal((200, 12))
    weight = (rng.random(200) < 0.9).astype(float)
    data = CpuEngine(Rows(X, rng.integers(0, 2, 200), True, sample_weight=weight), 2)
    first = before = (X[weight > 0] != 0).any(axis=0)
    for _ in range(60):
        left = np.flatnonzero(data.remaining)
        trial = rng.choice(left, 3, replace=False)  # a request that is given up
        data.shared().emptied_columns(trial)
        data.emptied_columns(trial)
        gone = rng.choice(left, 3, replace=False)
        found = data.emptied_columns(gone)
        counts = data.without(gone) & (weight > 0)
        now = (X[counts] != 0).any(axis=0)
        assert set(np.flatnonzero(before & ~now)) <= set(found)
        assert not now[found].any()
        data.forget(gone)
        before = now
    assert not before.all()
    assert set(found) >= set(np.flatnonzero(~before & first))
