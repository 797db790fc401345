"""Solving without rows that leave, by the inverse from before: against NumPy's solution."""

import numpy as np
import pytest

from unfit.core import factors
from unfit.core.factors import Inverse, Spectrum, TooFar
from unfit.core.kernels import corrected, downdate
from unfit.core.kernels.downdate import solve_downdated
from unfit.core.kernels.vectors import shares_of_half
from unfit.core.losses import LOGISTIC
from unfit.core.objective import Rows

N, LAM = 400, 0.05


def problem(d: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A Hessian of N rows, the m of them that leave, and a right-hand side."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) / np.sqrt(d)
    return X.T @ X + LAM * N * np.eye(d), X[:m], rng.standard_normal(d)


def without(hessian: np.ndarray, U: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
    return hessian - U.T @ U - np.diag(np.broadcast_to(shift, len(hessian)))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both solvers with so many threads, however small the problem."""
    for module in (downdate, corrected):
        monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
        monkeypatch.setattr(module, "available_threads", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize("m", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("d", [1, 3, 64, 130])
def test_few_rows_leave(threads: int, d: int, m: int) -> None:
    hessian, U, rhs = problem(d, m, seed=d + m)
    for shift in (LAM * m, np.where(np.arange(d) == d - 1, 0.0, LAM * m), 0.0):
        found = Inverse.of(hessian).without(U, shift, m / N).solve(rhs)
        expected = np.linalg.solve(without(hessian, U, shift), rhs)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("intercept_too", [True, False])
@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0])
def test_the_ridge_of_one_row_may_be_away_already(
    threads: int, m: int, intercept_too: bool, weight: float
) -> None:
    """weight: of the rows that leave, where one of mean weight is away."""
    hessian, U, rhs = problem(130, m, seed=m)
    covered = np.ones(130)
    covered[-1] = intercept_too
    hessian -= np.diag(LAM * N * (1 - covered))
    one, shift = LAM * covered, LAM * weight * m * covered
    inverse = Inverse.of(hessian, one, 1 / (N - 1))
    np.testing.assert_allclose(inverse.inverse @ (hessian - np.diag(one)), np.eye(130), atol=1e-9)
    expected = np.linalg.solve(without(hessian, U, shift), rhs)
    found = inverse.without(U, shift, weight * m / N).solve(rhs)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    rows = Rows(U, np.zeros(m, np.int32), False, LOGISTIC)
    found = inverse.corrected((rows.arrays, np.ones((1, m))), shift, 1e-11).solve(rhs)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_one_row_is_solved_without_by_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    hessian, U, rhs = problem(64, 1, seed=4)
    asked = []

    def solve(inverses, rows, shift, limits):  # type: ignore[no-untyped-def]
        asked.append(limits[0])
        return solve_downdated(inverses, rows, shift, limits)

    monkeypatch.setattr(factors, "solve_downdated", solve)
    for kept in (Inverse.of(hessian, LAM, 1 / (N - 1)), Inverse.of(hessian)):
        found = kept.without(U, LAM, 1 / N).solve(rhs)
        np.testing.assert_allclose(found, np.linalg.solve(without(hessian, U, LAM), rhs), rtol=1e-8)
    assert asked[0] == 0 < asked[1]


def test_every_thread_comes_to_the_same(threads: int) -> None:
    hessian, U, rhs = problem(130, 3, seed=1)
    inverse = np.linalg.inv(hessian)
    rows, shift = np.vstack([U, rhs]), np.full(130, LAM * 3)
    solutions = [
        solve_downdated(
            (inverse, inverse.astype(np.float32)), rows, shift, np.array([9.0, 0, 0, 0, 0])
        )
        for _ in range(20)
    ]
    assert all((one == solutions[0]).all() for one in solutions)


def test_what_is_not_positive_definite_is_not_solved() -> None:
    hessian, U, rhs = problem(30, 2, seed=2)
    for kept in (Inverse.of(hessian), Spectrum.of(hessian)):
        with pytest.raises(TooFar):
            kept.without(100 * U, 0.0, 2 / N).solve(rhs)


def test_a_row_with_nearly_all_of_the_curvature_is_not_taken_off() -> None:
    hessian, U, rhs = problem(30, 1, seed=3)
    heavy = 1e3 * U
    for kept in (Inverse.of(hessian + heavy.T @ heavy), Spectrum.of(hessian + heavy.T @ heavy)):
        with pytest.raises(TooFar):
            kept.without(heavy, 0.0, 1 / N).solve(rhs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 30, 150])
@pytest.mark.parametrize("intercept", [False, True])
def test_many_rows_leave(threads: int, m: int, intercept: bool, dtype: type) -> None:
    hessian, leaving, rhs = problem(65, m, seed=m)
    X = leaving[:, : 65 - intercept].astype(dtype)
    rows = Rows(X, np.zeros(m, np.int32), intercept, LOGISTIC)
    weights = np.random.default_rng(m).uniform(0, 0.05 if intercept else 0.5, m)
    whole = np.column_stack([X, np.ones(m)]) if intercept else X
    U = np.sqrt(weights)[:, None] * whole
    precision = 1e-11 if dtype is np.float64 else 3e-7
    factor = Inverse.of(hessian).corrected((rows.arrays, weights[None]), LAM * m, precision)
    left = without(hessian, U, LAM * m)
    found = factor.solve(rhs)
    assert np.linalg.norm(left @ found - rhs) <= 5 * precision * np.linalg.norm(rhs)
    values, vectors = np.linalg.eigh(left)
    root = vectors @ (values**-0.25 * (vectors.T @ rhs))
    np.testing.assert_allclose(factor.inverse_fourth_root(rhs), root, rtol=0, atol=2e-5)
    assert not factor.solve(np.zeros(65)).any()


def test_where_steps_do_not_lead_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unfit.core.factors._MAX_STEPS", 2)
    hessian, leaving, rhs = problem(65, 150, seed=5)
    rows = Rows(leaving, np.zeros(150, np.int32), False, LOGISTIC)
    factor = Inverse.of(hessian).corrected((rows.arrays, np.full((1, 150), 0.5)), 0.0, 1e-11)
    with pytest.raises(TooFar):
        factor.solve(rhs)


@pytest.mark.parametrize("tiny", [1e-165, 1e-300])
def test_right_hand_sides_whose_squares_underflow_are_solved_for(tiny: float) -> None:
    hessian, leaving, rhs = problem(65, 150, seed=6)
    rows = Rows(leaving, np.zeros(150, np.int32), False, LOGISTIC)
    factor = Inverse.of(hessian).corrected((rows.arrays, np.full((1, 150), 0.1)), 0.0, 1e-11)
    np.testing.assert_allclose(factor.solve(tiny * rhs), tiny * factor.solve(rhs), rtol=1e-6)


def test_more_threads_than_rows_of_the_matrix_share_it() -> None:
    for d in range(1, 40):
        for several in range(1, 17):
            bounds = shares_of_half(d, several)
            assert (np.diff(bounds) >= 0).all()
            assert bounds[0] == 0
            assert bounds[-1] == d


def test_weights_that_take_away_more_than_there_is_are_noticed() -> None:
    hessian, leaving, rhs = problem(65, 150, seed=7)
    rows = Rows(leaving, np.zeros(150, np.int32), False, LOGISTIC)
    with pytest.raises(TooFar):
        Inverse.of(hessian).corrected((rows.arrays, np.full((1, 150), 50.0)), 0.0, 1e-11).solve(rhs)
