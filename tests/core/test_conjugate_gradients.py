"""Conjugate gradients against dense solves, and guides that help, mislead or come too dear."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.core.conjugate_gradients import (
    MOST_GUIDED,
    TRUSTED,
    Guidance,
    Offer,
    conjugate_gradients,
    lengths,
    unguided,
)
from unfit.core.factors import Cholesky


class Systems:
    """k positive definite matrices (d, d) with products that are counted."""

    def __init__(self, seed=0, k=1, d=30, condition=1e3):
        rng = np.random.default_rng(seed)
        self.matrices = []
        for _ in range(k):
            Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
            self.matrices.append((Q * np.geomspace(1, condition, d)) @ Q.T)
        self.rhs = rng.standard_normal((k, d))
        self.asked: list[int] = []

    def products(self, problems, V):
        self.asked.append(len(problems))
        return np.array([self.matrices[c] @ v for c, v in zip(problems, V, strict=True)])

    def factors(self):
        return [Cholesky.of(H) for H in self.matrices]


@given(seed=st.integers(0, 200), k=st.integers(1, 4), digits=st.integers(1, 10))
def test_each_problem_is_solved_to_its_own_precision(seed, k, digits):
    systems = Systems(seed, k, d=12, condition=50)
    precision = 10.0 ** -np.arange(digits, digits - k, -1).clip(1)
    found = conjugate_gradients(systems.products, unguided, systems.rhs, precision)
    for c in range(k):
        left = systems.rhs[c] - systems.matrices[c] @ found.x[c]
        np.testing.assert_allclose(left, found.left[c], atol=1e-9)
        assert np.linalg.norm(left) <= 1.01 * precision[c] * np.linalg.norm(systems.rhs[c])
    assert found.products == len(systems.asked)
    assert systems.asked == sorted(systems.asked, reverse=True)  # those that are done are left out


def test_the_inverse_as_a_guide_takes_one_product():
    systems = Systems(k=3)
    guidance = Guidance(systems.factors())
    found = guidance.solve(systems.products, np.zeros((3, 30)), systems.rhs, np.full(3, 1e-8))
    assert guidance.products == found.products == 1
    goal = [np.linalg.solve(H, r) for H, r in zip(systems.matrices, systems.rhs, strict=True)]
    np.testing.assert_allclose(found.x, goal, rtol=1e-8)


def test_a_problem_that_is_left_alone_stays_at_zero():
    systems = Systems(k=2)
    found = Guidance(None).solve(
        systems.products, np.zeros((2, 30)), systems.rhs, np.array([1.0, 1e-3])
    )
    assert not found.x[0].any()
    assert found.x[1].any()
    assert set(systems.asked) == {1}


def test_right_hand_sides_of_zero_take_no_product():
    systems = Systems(k=2)
    found = Guidance(systems.factors()).solve(
        systems.products, np.zeros((2, 30)), np.zeros((2, 30)), np.full(2, 1e-3)
    )
    assert found.products == 0
    assert not found.x.any()


def solved_repeatedly(systems, guidance, times=4, precision=1e-6):
    """Products of each of several solves."""
    taken = []
    for _ in range(times):
        k, d = systems.rhs.shape
        found = guidance.solve(
            systems.products, np.zeros((k, d)), systems.rhs, np.full(k, precision)
        )
        assert not found.missed(systems.rhs, np.full(k, 1.01 * precision))
        taken.append(found.products)
    return taken


def test_a_guide_that_misleads_is_dropped_after_a_comparison():
    systems = Systems(d=60, condition=20)
    other = Systems(1, d=60, condition=1e4).factors()
    plain = solved_repeatedly(systems, Guidance(None), 1)[0]
    guidance = Guidance(other)
    taken = solved_repeatedly(systems, guidance)
    assert taken[0] > max(plain, TRUSTED)
    assert taken[1] <= plain  # the trial ended before it had to come back to the guide
    assert guidance.guide is None
    assert taken[2:] == [plain, plain]


def test_a_guide_that_misleads_badly_is_dropped_within_the_first_system():
    systems = Systems(d=300, condition=20)
    other = Systems(1, d=300, condition=1e7).factors()
    plain = solved_repeatedly(systems, Guidance(None), 1)[0]
    guidance = Guidance(other)
    taken = solved_repeatedly(systems, guidance, 2)
    assert taken[0] <= MOST_GUIDED + 3 * plain
    assert guidance.guide is None
    assert taken[1] == plain


def test_a_guide_that_helps_a_little_survives_the_comparison():
    systems = Systems(d=200, condition=3e3)
    H = systems.matrices[0]
    rough = [Cholesky.of(H + np.diag(np.full(200, 30.0)))]
    plain = solved_repeatedly(systems, Guidance(None), 1)[0]
    guidance = Guidance(rough)
    taken = solved_repeatedly(systems, guidance)
    assert TRUSTED < taken[0] < plain
    assert guidance.guide is rough
    assert taken[2:] == [taken[0]] * 2


def test_a_guide_that_is_not_positive_definite_is_dropped_at_once():
    systems = Systems()
    guidance = Guidance(lambda problems, vectors: -vectors)
    solved_repeatedly(systems, guidance, 1)
    assert guidance.guide is None


@pytest.mark.parametrize(("worth", "made"), [(5, True), (10_000, False)])
def test_an_offer_is_taken_once_products_have_cost_as_much(worth, made):
    systems, calls = Systems(d=200, condition=3e3), []

    def make(W):
        calls.append(W)
        return systems.factors()

    guidance = Guidance(None, Offer(make=make, products=worth))
    taken = solved_repeatedly(systems, guidance, 3)
    assert len(calls) == made
    if made:
        assert taken == [worth + 1, 1, 1]
    else:
        assert taken[0] == solved_repeatedly(systems, Guidance(None), 1)[0]


def test_a_singular_matrix_leaves_the_first_direction():
    found = conjugate_gradients(
        lambda at, V: np.zeros_like(V), unguided, np.ones((1, 3)), np.array([0.1])
    )
    np.testing.assert_array_equal(found.x, np.ones((1, 3)))
    assert found.products == 1


def test_lengths():
    np.testing.assert_allclose(lengths(np.array([[3.0, 4.0], [0.0, 0.0]])), [5.0, 0.0])
