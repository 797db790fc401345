"""Factors that know products alone, against dense ones."""

import numpy as np
import pytest

from unfit.core.by_products import Systems, guide_of
from unfit.core.factors import Cholesky, Inverse, Spectrum, TooFar

K, D = 3, 40


def matrices(seed=0, condition=300.0):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(K):
        Q = np.linalg.qr(rng.standard_normal((D, D)))[0]
        found.append((Q * np.geomspace(1, condition, D)) @ Q.T)
    return found


def systems(hessians, guide=None, most=200, precision=1e-11):
    asked = []

    def products(problems, V):
        asked.append(problems.tolist())
        return np.array([hessians[c] @ v for c, v in zip(problems, V, strict=True)])

    guide = guide or (lambda problems, V: V)
    made = Systems(
        products=products, guide=guide, precision=precision, most=most, dtype=np.dtype(np.float64)
    )
    return made, asked


def solve_each(factors, rhs):
    return factors[0].solve_each(factors, rhs)


def inverse_fourth_root_each(factors, b):
    return factors[0].inverse_fourth_root_each(factors, b)


def test_problems_are_solved_in_lockstep():
    hessians, rhs = matrices(), np.random.default_rng(1).standard_normal((K, D))
    made, asked = systems(hessians)
    found = solve_each(made.factors(K), rhs)
    dense = solve_each([Cholesky.of(h) for h in hessians], rhs)
    np.testing.assert_allclose(found, dense, rtol=1e-8)
    assert asked[0] == [0, 1, 2]
    np.testing.assert_allclose(made.factors(K)[2].solve(rhs[2]), dense[2], rtol=1e-8)


def test_roots_are_found_in_lockstep():
    hessians, b = matrices(), np.random.default_rng(1).standard_normal((K, D))
    made, asked = systems(hessians)
    found = inverse_fourth_root_each(made.factors(K), b)
    dense = inverse_fourth_root_each([Cholesky.of(h) for h in hessians], b)
    np.testing.assert_allclose(found, dense, rtol=1e-8)
    assert asked[0] == [0, 1, 2]
    assert len(asked) <= D
    np.testing.assert_allclose(made.factors(K)[1].inverse_fourth_root(b[1]), dense[1], rtol=1e-8)


def test_too_many_products_are_refused():
    made, asked = systems(matrices(), most=5)
    with pytest.raises(TooFar):
        solve_each(made.factors(K), np.ones((K, D)))
    assert len(asked) == 5


@pytest.mark.parametrize("kind", [Inverse, Spectrum, Cholesky])
def test_a_factor_of_nearly_the_same_matrix_guides(kind):
    hessians = matrices()
    near = [h + 0.01 * np.diag(np.linspace(0, 1, D)) for h in hessians]
    made, asked = systems(hessians, guide_of([kind.of(h) for h in near]), precision=1e-8)
    rhs = np.random.default_rng(1).standard_normal((K, D))
    found = solve_each(made.factors(K), rhs)
    goal = [np.linalg.solve(h, r) for h, r in zip(hessians, rhs, strict=True)]
    np.testing.assert_allclose(found, goal, atol=1e-6)
    assert len(asked) <= 8
    plain, unguided = systems(hessians, precision=1e-8)
    solve_each(plain.factors(K), rhs)
    assert len(asked) < 0.3 * len(unguided)
