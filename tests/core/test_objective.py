"""Sums against finite differences, dense formulae and identities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

import reference
from unfit.core.objective import (
    Rows,
    gram_sum,
    hessian_sum,
    value_gradient_products,
    value_gradient_sum,
)


def problem(seed=0, n=37, p=5, n_classes=2, dtype=np.float64, intercept=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(dtype)
    codes = rng.integers(0, n_classes, n).astype(np.int32)
    k = 1 if n_classes == 2 else n_classes
    return Rows(X, codes, intercept), rng.standard_normal((k, p + intercept))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_gradient_is_the_derivative_of_the_value(n_classes, intercept):
    rows, W = problem(n_classes=n_classes, intercept=intercept)
    _, gradient = value_gradient_sum(rows, W)
    for c in range(len(W)):

        def at(w, c=c):
            moved = W.copy()
            moved[c] = w
            return value_gradient_sum(rows, moved)[0][c]

        numeric = approx_fprime(W[c], at, 1e-7)
        np.testing.assert_allclose(gradient[c], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_hessian_is_the_derivative_of_the_gradient(intercept):
    rows, W = problem(intercept=intercept)
    H = hessian_sum(rows, W)[0]
    for j in range(W.shape[1]):
        step = np.zeros_like(W)
        step[0, j] = 1e-6
        forward, backward = (value_gradient_sum(rows, W + s * step)[1][0] for s in (1, -1))
        np.testing.assert_allclose(H[j], (forward - backward) / 2e-6, rtol=1e-6, atol=1e-6)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 60),
    p=st.integers(1, 40),
    n_classes=st.sampled_from([2, 3]),
    dtype=st.sampled_from(["float32", "float64"]),
    intercept=st.booleans(),
)
def test_sums_are_those_of_the_plain_formulae(seed, n, p, n_classes, dtype, intercept):
    rows, W = problem(seed, n, p, n_classes, dtype, intercept)
    mask = np.random.default_rng(seed).random(n) < 0.6
    X, k = reference.with_ones(rows.X, intercept)[mask], len(W)
    values, gradient = value_gradient_sum(rows, W, mask)
    H = hessian_sum(rows, W, mask)
    loose = {"rtol": 1e-4, "atol": 1e-3} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-9}
    for c in range(k):
        t = reference.targets(rows.codes, c, k)[mask]
        np.testing.assert_allclose(values[c], reference.value(W[c], X, t, 0), rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(
            gradient[c], reference.gradient(W[c], X, t, 0), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(H[c], reference.hessian(W[c], X, 0), **loose)
    np.testing.assert_allclose(gram_sum(rows, mask), X.T @ X, **loose)


def test_float32_rows_are_summed_in_float64():
    # A float32 sum of 200,000 gradients would be off by far more than this.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 3)).astype(np.float32)
    codes = rng.integers(0, 2, 200_000).astype(np.int32)
    W = rng.standard_normal((1, 4))
    expected = reference.gradient(W[0], reference.with_ones(X, True), codes == 1, 0)
    _, gradient = value_gradient_sum(Rows(X, codes, True), W)
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-10)


def test_extreme_margins_stay_finite():
    rows = Rows(np.array([[1e4], [-1e4]]), np.array([0, 1], np.int32), False)
    values, gradient = value_gradient_sum(rows, np.array([[1.0]]))
    assert values[0] == pytest.approx(2e4)
    assert gradient[0, 0] == pytest.approx(2e4)
    assert np.isfinite(hessian_sum(rows, np.array([[1.0]]))).all()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_the_hessian_are_the_hessians(intercept, dtype):
    rng = np.random.default_rng(0)
    rows = Rows(rng.standard_normal((4103, 7)).astype(dtype), rng.integers(0, 3, 4103), intercept)
    W = rng.standard_normal((3, rows.d)) / 3
    mask = rng.random(4103) < 0.8
    for keep in (None, mask):
        value, gradient, products = value_gradient_products(rows, W, keep)
        expected = value_gradient_sum(rows, W, keep)
        np.testing.assert_array_equal(value, expected[0])
        np.testing.assert_array_equal(gradient, expected[1])
        H = hessian_sum(rows, W, keep)
        tolerance = 1e-10 if dtype == np.float64 else 1e-5
        for problems in (np.arange(3), np.array([2]), np.array([2, 0])):
            V = rng.standard_normal((len(problems), rows.d))
            goal = np.array([H[c] @ v for c, v in zip(problems, V, strict=True)])
            scale = tolerance * np.abs(H).max()
            found = products(problems, V)
            np.testing.assert_allclose(found, goal, rtol=tolerance, atol=scale)


def test_a_product_is_as_precise_as_its_vectors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_003, 5)).astype(np.float32)
    rows = Rows(X, rng.integers(0, 2, len(X)).astype(np.int32), True)
    W, v = rng.standard_normal((1, 6)), rng.standard_normal((1, 6))
    exact = hessian_sum(Rows(X.astype(np.float64), rows.codes, True), W)[0] @ v[0]
    _, _, products = value_gradient_products(rows, W)
    np.testing.assert_allclose(products([0], v)[0], exact, rtol=1e-12)
    rough = products([0], v.astype(np.float32))
    assert rough.dtype == np.float64
    np.testing.assert_allclose(rough[0], exact, rtol=1e-5)
