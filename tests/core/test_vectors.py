"""Products of symmetric matrices and squares of rows, against NumPy in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.core.kernels.parallel import limited_threads
from unfit.core.kernels.vectors import squares_of_rows, symmetric_times
from unfit.core.objective import Rows, hessian_sum, value_gradient_products


@given(d=st.integers(1, 230), threads=st.integers(1, 5), seed=st.integers(0, 99))
def test_one_half_of_a_symmetric_matrix_tells_its_product(d, threads, seed):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((d, d))
    matrix, v = half + half.T, rng.standard_normal(d)
    with limited_threads(threads):
        found = symmetric_times(matrix, v)
    np.testing.assert_allclose(found, matrix @ v, rtol=1e-12, atol=1e-12 * d)


@pytest.mark.parametrize("d", [1100, 1203])  # by several threads
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-4)])
def test_a_large_matrix_by_several_threads(d, dtype, tolerance):
    rng = np.random.default_rng(d)
    half = rng.standard_normal((d, d))
    matrix, v = (half + half.T).astype(dtype), rng.standard_normal(d).astype(dtype)
    exact = matrix.astype(np.float64) @ v
    with limited_threads(3):
        found = symmetric_times(matrix, v)
    assert found.dtype == np.float64
    assert np.abs(found - exact).max() <= tolerance * np.abs(exact).max()


def test_what_lies_below_the_diagonal_is_not_read():
    rng = np.random.default_rng(0)
    half, v = rng.standard_normal((130, 130)), rng.standard_normal(130)
    matrix = half + half.T
    expected = matrix @ v
    matrix[np.tril_indices(130, -1)] = np.nan
    np.testing.assert_allclose(symmetric_times(matrix, v), expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_are_float64s(dtype):
    X = np.random.default_rng(1).standard_normal((3001, 90)).astype(dtype)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(squares_of_rows(X), (wide * wide).sum(axis=1), rtol=1e-14)


@given(seed=st.integers(0, 99), share=st.floats(0.0, 1.0), intercept=st.booleans())
def test_products_leave_out_the_rows_outside_a_mask(seed, share, intercept):
    """Whether they are skipped by an index, as many are, or by a weight of 0."""
    rng = np.random.default_rng(seed)
    rows = Rows(rng.standard_normal((61, 4)), rng.integers(0, 2, 61).astype(np.int32), intercept)
    W, v = rng.standard_normal((1, rows.d)), rng.standard_normal((1, rows.d))
    mask = rng.random(61) < share
    _, _, products = value_gradient_products(rows, W, mask)
    expected = hessian_sum(rows, W, mask)[0] @ v[0]
    np.testing.assert_allclose(products(np.array([0]), v)[0], expected, rtol=1e-9, atol=1e-10)
