"""The compact product against the BFGS recursion it stands for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reference
from unfit.core.kernels.lbfgs import compact_product, invert


@given(seed=st.integers(0, 1000), pairs=st.integers(1, 2), d=st.integers(2, 30))
def test_equals_the_recursion(seed, pairs, d):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    H = A @ A.T + np.eye(d)
    S = rng.standard_normal((pairs, d))
    Y, v = S @ H, rng.standard_normal(d)
    expected = reference.lbfgs_product(S, Y, v)
    np.testing.assert_allclose(
        compact_product(S, Y, v), expected, atol=1e-8 * np.linalg.norm(expected)
    )


def test_secant_equation():
    rng = np.random.default_rng(0)
    S = rng.standard_normal((2, 6))
    Y = S @ np.diag(np.arange(1.0, 7.0))
    np.testing.assert_allclose(compact_product(S, Y, S[-1]), Y[-1], rtol=1e-10)


@given(seed=st.integers(0, 200), size=st.integers(1, 4))
def test_invert(seed, size):
    M = np.random.default_rng(seed).standard_normal((4, 4))
    M[0, 0] = 0.0  # wants a pivot
    M[:size, :size] += 3 * np.eye(size)[::-1]
    inverse = np.zeros((4, 4))
    invert(M, size, inverse)
    np.testing.assert_allclose(inverse[:size, :size] @ M[:size, :size], np.eye(size), atol=1e-8)
