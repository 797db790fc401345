"""Rows that are mostly alike, packed: the same sums, and nothing of who has left."""

from dataclasses import replace

import numpy as np
import pytest

from unfit.core.losses import LOGISTIC, SquaredHinge
from unfit.core.objective import Rows, value_gradient_sum
from unfit.core.packed_rows import PackedRows, Packing
from unfit.engines.cpu import CpuEngine


def mostly_zeros(dtype="float32", n=500, p=40, share=0.2, classes=2) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < share)
    X[:, 5] = 0.7 * (rng.random(n) < 0.9)  # a column in which most rows have the same number
    X[:, 6] = rng.random(n) < 0.4  # and one in which fewer than half have
    X[3] = 0  # a row of nothing
    codes = rng.integers(0, classes, n).astype(np.int32)
    return Rows(X.astype(dtype), codes, True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [LOGISTIC, SquaredHinge()], ids=lambda loss: loss.name)
def test_sums_are_those_of_the_rows(dtype, k, masked, intercept, loss) -> None:
    rng = np.random.default_rng(1)
    rows = replace(mostly_zeros(dtype, classes=max(k, 2)), intercept=intercept, loss=loss)
    rows = replace(rows, sample_weight=rng.random(len(rows))) if masked else rows
    W, mask = rng.standard_normal((k, rows.d)), rng.random(len(rows)) < 0.7 if masked else None
    packed = PackedRows.of(rows.X)
    assert packed is not None
    for found, wanted in zip(
        packed.value_gradient_sum(rows, W, mask), value_gradient_sum(rows, W, mask), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    none, gradient = packed.value_gradient_sum(rows, W, mask, values_too=False)
    assert none.size == 0
    np.testing.assert_allclose(gradient, found, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_left_out_are_not_read(weighted) -> None:
    rows = mostly_zeros()
    mask, W = np.ones(len(rows), np.bool_), np.random.default_rng(3).standard_normal((1, rows.d))
    mask[[7, 64, 499]] = False
    rows.X[[7, 64, 499], 3] = np.inf, np.nan, -np.inf
    rows = replace(rows, sample_weight=np.full(len(rows), 2.0) if weighted else None)
    packed = PackedRows.of(rows.X)
    assert packed is not None
    found = packed.value_gradient_sum(rows, W, mask)
    for one, wanted in zip(found, value_gradient_sum(rows, W, mask), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-12)


def test_what_most_rows_have_is_not_kept() -> None:
    X = mostly_zeros().X
    packed = PackedRows.of(X)
    assert packed is not None
    usual, starts, _, numbers = packed.packed
    np.testing.assert_array_equal(np.flatnonzero(usual), [5])
    assert usual[5] == np.float32(0.7)
    kept = np.count_nonzero(usual != X, axis=1)
    assert np.count_nonzero(numbers) == kept.sum()
    np.testing.assert_array_equal(np.diff(starts), -(-kept // 4) * 4)  # in whole groups


def test_full_rows_and_very_wide_ones_stay_as_they_are() -> None:
    assert PackedRows.of(mostly_zeros(share=0.5).X) is None
    assert PackedRows.of(np.eye(6, dtype=np.float32)) is None  # four numbers would be kept of six
    assert PackedRows.of(np.zeros((1, (1 << 16) + 1), np.float32)) is None


def test_rows_are_packed_when_passes_have_cost_as_much() -> None:
    packing, X = Packing(passes=3), mostly_zeros().X
    assert [packing.for_pass(X) is not None for _ in range(4)] == [False, False, True, True]


def test_who_is_erased_leaves_no_number_and_no_column() -> None:
    packed = PackedRows.of(mostly_zeros().X)
    assert packed is not None
    _, starts, columns, numbers = packed.packed
    packed.erase(np.array([7, 499]))
    for row in (7, 499):
        assert not columns[starts[row] : starts[row + 1]].any()
        assert not numbers[starts[row] : starts[row + 1]].any()
    others = packed_again(np.arange(8, 499))
    np.testing.assert_array_equal(numbers[starts[8] : starts[499]], others)


def packed_again(rows: np.ndarray) -> np.ndarray:
    packed = PackedRows.of(mostly_zeros().X)
    assert packed is not None
    _, starts, _, numbers = packed.packed
    return np.concatenate([numbers[starts[row] : starts[row + 1]] for row in rows])


def test_an_engine_that_expects_passes_gives_the_same_gradient_before_and_after() -> None:
    rows = mostly_zeros(n=30_000, p=60)
    data, W = CpuEngine(rows, 2), np.random.default_rng(2).standard_normal((1, 61))
    mask = data.without(np.arange(9))
    before = data.gradient_sum(W, mask)
    data.expect_passes()
    copy = data.copied()
    for _ in range(10):
        np.testing.assert_allclose(data.gradient_sum(W, mask), before, rtol=1e-12)
    assert data._packing is not None
    assert data._packing.packed is not None
    assert copy._packing is None  # its rows are its own
    data.forget(np.arange(9))
    data.erase(np.arange(9))
    np.testing.assert_allclose(data.gradient_sum(W), before, rtol=1e-12)
