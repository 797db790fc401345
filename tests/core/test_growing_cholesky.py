"""The factor that grows by rows, against NumPy's factor of the whole."""

import numpy as np
import pytest

from unfit.core.kernels.cholesky import grown, solved, solved_rows


@pytest.mark.parametrize("sizes", [(1,), (3, 1, 5), (40, 60)])
def test_a_factor_that_has_grown_is_that_of_the_whole(sizes: tuple[int, ...]) -> None:
    n = sum(sizes)
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, 2 * n))
    K = A @ A.T / n + np.eye(n)
    L, place = np.zeros((0, 0)), 0
    for size in sizes:
        L = grown(L, K[place : place + size, : place + size])
        place += size
    np.testing.assert_allclose(L, np.linalg.cholesky(K), rtol=1e-10, atol=1e-12)
    rhs = rng.standard_normal(n)
    np.testing.assert_allclose(solved(L, rhs), np.linalg.solve(K, rhs), rtol=1e-9, atol=1e-12)
    rows = rng.standard_normal((n, 70))
    np.testing.assert_allclose(
        solved_rows(L, rows), np.linalg.solve(K, rows), rtol=1e-9, atol=1e-12
    )


def test_a_matrix_that_is_not_positive_definite_shows_on_the_diagonal() -> None:
    L = grown(np.zeros((0, 0)), np.array([[1.0, 0.0], [2.0, 1.0]]))
    assert np.isnan(np.diag(L)).any()
