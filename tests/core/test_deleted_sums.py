"""Sums over rows that leave, narrow and wide, against the plain formulae."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from unfit.core import deleted_sums
from unfit.core.deleted_sums import sums_of_rows
from unfit.core.kernels import narrow
from unfit.core.objective import Rows, hessian_sum


def problem(rng, n, p, n_classes, dtype, intercept):
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    codes = rng.integers(0, n_classes, n)
    W = rng.standard_normal((1 if n_classes == 2 else n_classes, p + intercept))
    return Rows(X, codes, intercept), W


def plain(rows, index, W):
    """By the formulae, in float64."""
    X = reference.with_ones(rows.X, rows.intercept)[index].astype(np.float64)
    gradient = [
        reference.gradient(w, X, reference.targets(rows.codes, c, len(W))[index], 0)
        for c, w in enumerate(W)
    ]
    return np.array(gradient), np.array([reference.hessian(w, X, 0) for w in W])


def assert_sums(found, expected, dtype, count):
    tolerance = (1e-6 if dtype == "float32" else 1e-12) * max(1, count)
    for sums, correct in zip(found, expected, strict=True):
        np.testing.assert_allclose(sums, correct, rtol=0, atol=tolerance)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 150),
    p=st.integers(1, 70),
    n_classes=st.sampled_from([2, 3]),
    dtype=st.sampled_from(["float32", "float64"]),
    intercept=st.booleans(),
    share=st.sampled_from([0, 0.1, 0.7, 1]),
)
def test_sums_at_an_index_are_those_of_the_plain_formulae(
    seed, n, p, n_classes, dtype, intercept, share
):
    rng = np.random.default_rng(seed)
    rows, W = problem(rng, n, p, n_classes, dtype, intercept)
    index = rng.permutation(n)[: round(share * n)]
    found = sums_of_rows(rows, index, W)
    assert_sums(found, plain(rows, index, W), dtype, len(index))
    assert np.array_equal(found[1], found[1].swapaxes(1, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [120, 127, 128, 200, 255, 256, 300])
def test_narrow_and_wide_rows_are_summed_alike(p, dtype):
    """p on both sides of where the kernel hands over to BLAS."""
    rng = np.random.default_rng(p)
    rows, W = problem(rng, 500, p, 2, dtype, True)
    index = rng.permutation(500)[:333]
    assert_sums(sums_of_rows(rows, index, W), plain(rows, index, W), dtype, 333)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_rows(threads, monkeypatch):
    monkeypatch.setattr(narrow, "available_threads", lambda: threads)
    monkeypatch.setattr(narrow, "_WORTH_A_THREAD", 1)
    rng = np.random.default_rng(0)
    rows, W = problem(rng, 301, 9, 3, "float64", True)
    index = rng.permutation(301)[:200]
    assert_sums(sums_of_rows(rows, index, W), plain(rows, index, W), "float64", 200)


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("count", [20, 64, 200])
def test_threads_share_wide_rows(cores, count, monkeypatch):
    monkeypatch.setattr(deleted_sums, "available_threads", lambda: cores)
    parts = []
    part = deleted_sums._sums_of_part
    monkeypatch.setattr(
        deleted_sums,
        "_sums_of_part",
        lambda rows, index, W: parts.append(len(index)) or part(rows, index, W),
    )
    rng = np.random.default_rng(0)
    rows, W = problem(rng, 301, 300, 3, "float64", True)
    index = rng.permutation(301)[:count]
    assert_sums(sums_of_rows(rows, index, W), plain(rows, index, W), "float64", count)
    assert sum(parts) == count
    assert len(parts) == max(1, min(cores, count // 32))


def test_sums_that_many_threads_would_hold_are_made_by_one(monkeypatch):
    monkeypatch.setattr(deleted_sums, "available_threads", lambda: 8)
    monkeypatch.setattr(deleted_sums, "_MOST_NUMBERS", 301**2)
    monkeypatch.setattr(deleted_sums, "run_threads", None)
    rng = np.random.default_rng(0)
    rows, W = problem(rng, 301, 300, 2, "float64", True)
    index = np.arange(301)
    assert_sums(sums_of_rows(rows, index, W), plain(rows, index, W), "float64", 301)


def test_float32_sums_of_many_rows_keep_their_digits():
    rng = np.random.default_rng(0)
    rows, W = problem(rng, 400_000, 3, 2, "float32", True)
    everything = np.arange(400_000)
    gradient, hessian = plain(rows, everything, W)
    np.testing.assert_allclose(hessian_sum(rows, W), hessian, rtol=0, atol=1e-6 * hessian.max())
    found = sums_of_rows(rows, everything, W)[0]
    np.testing.assert_allclose(found, gradient, rtol=0, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_outer_products_of_every_width(dtype):
    rng = np.random.default_rng(0)
    lanes = narrow.VECTOR // np.dtype(dtype).itemsize
    for width in range(lanes, 12 * lanes + 1, lanes):
        U = rng.standard_normal((9, width)).astype(dtype)
        for count in (0, 1, 5, 9):
            total = np.zeros((width, width), dtype)
            narrow._add_outer(U, count, total)
            expected = np.triu(U[:count].astype(np.float64).T @ U[:count])
            np.testing.assert_allclose(np.triu(total), expected, rtol=0, atol=1e-5)


def test_many_problems_of_many_columns_are_for_blas():
    X = np.zeros((10, 200), np.float32)
    assert narrow.narrow(X, 1)
    assert not narrow.narrow(X, 10)


@pytest.mark.parametrize("order", ["F", "strided"])
def test_rows_that_do_not_lie_one_after_the_other(order):
    rng = np.random.default_rng(0)
    rows, W = problem(rng, 90, 6, 2, "float64", True)
    X = np.asfortranarray(rows.X) if order == "F" else np.repeat(rows.X, 2, axis=1)[:, ::2]
    odd = Rows(X, rows.codes, True)
    index = rng.permutation(90)[:40]
    assert_sums(sums_of_rows(odd, index, W), plain(rows, index, W), "float64", 40)
    np.testing.assert_allclose(hessian_sum(odd, W), hessian_sum(rows, W), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [4, 300])
@pytest.mark.parametrize("wrong", [-1, 10])
def test_an_index_outside_the_rows_is_refused(p, wrong):
    rows, W = problem(np.random.default_rng(0), 10, p, 2, "float32", False)
    with pytest.raises(IndexError, match="of 10"):
        sums_of_rows(rows, np.array([0, wrong]), W)
