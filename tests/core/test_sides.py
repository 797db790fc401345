"""The smaller side of a class against the dense Hessian of what remains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from unfit.core import sides as module
from unfit.core.factors import TooFar
from unfit.core.objective import Rows
from unfit.core.sides import Sides

L2 = 1e-2


class Case:
    """Rows of two classes, some forgotten before, weights, and the sums of each class."""

    def __init__(self, seed, n=120, p=9, dtype="float64", intercept=True):
        rng = np.random.default_rng(seed)
        X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
        codes = (X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(np.int64)
        self.rng, self.rows = rng, Rows(X, codes, intercept)
        self.remaining = rng.random(n) < 0.9
        self.dense = reference.with_ones(X, intercept).astype(np.float64)
        self.W = rng.standard_normal((1, self.dense.shape[1]))
        of = [self.remaining & (codes == c) for c in (0, 1)]
        self.counts = tuple(int(mask.sum()) for mask in of)
        self.sides = Sides.of(
            self.hessian(self.remaining), self.hessian(of[0], l2=0),
            np.array([self.gradient(mask, l2=0) for mask in of]), self.counts,
            L2 * sum(self.counts), X.dtype,
        )  # fmt: skip

    def hessian(self, mask, l2=L2):
        return reference.hessian(self.W[0], self.dense[mask], l2)

    def gradient(self, mask, l2=L2):
        t = reference.targets(self.rows.codes, 0, 1)[mask]
        return reference.gradient(self.W[0], self.dense[mask], t, l2)

    def drawn(self, shares):
        """Rows that go: a share of those that remain of each class."""
        parts = []
        for c, share in enumerate(shares):
            there = np.flatnonzero(self.remaining & (self.rows.codes == c))
            parts.append(self.rng.permutation(there)[: round(share * len(there))])
        return self.rng.permutation(np.concatenate(parts))

    def left(self, gone):
        mask = self.remaining.copy()
        mask[gone] = False
        return mask

    def leave(self, gone):
        return self.sides.leave(self.rows, self.remaining, gone, self.W, L2)


@given(
    seed=st.integers(0, 1000), p=st.integers(1, 30), intercept=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    shares=st.sampled_from([(0.1, 0.1), (0.8, 0), (0, 0.7), (0.9, 0.3), (0.3, 1), (1, 0), (0, 0)]),
)  # fmt: skip
def test_gradient_and_solution_are_those_of_the_dense_sums(seed, p, intercept, dtype, shares):
    case = Case(seed, p=p, dtype=dtype, intercept=intercept)
    gone = case.drawn(shares)
    gradient, factor = case.leave(gone)
    mask = np.zeros(len(case.rows), bool)
    mask[gone] = True
    tolerance = 2e-4 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(gradient[0], case.gradient(mask, l2=0), rtol=0, atol=tolerance)
    rhs = case.rng.standard_normal(case.rows.d)
    H = case.hessian(case.left(gone))
    expected = np.linalg.solve(H, rhs)
    error = factor.solve(rhs) - expected
    assert np.sqrt(error @ H @ error) <= tolerance * np.sqrt(expected @ H @ expected)
    values, vectors = np.linalg.eigh(H)
    root = vectors @ (values**-0.25 * (vectors.T @ rhs))
    found = factor.inverse_fourth_root(rhs)
    assert np.linalg.norm(found - root) <= 10 * tolerance * np.linalg.norm(root)


def test_the_smaller_side_is_looked_at():
    case = Case(0)
    for shares, looked_at in (((0.9, 0), 0.1), ((0.2, 0), 0.2), ((0, 0.75), 0.25)):
        _, factor = case.leave(case.drawn(shares))
        n = case.counts[0 if shares[0] else 1]
        assert len(factor.index) == pytest.approx(looked_at * n, abs=1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_rows_and_vectors(threads, monkeypatch):
    monkeypatch.setattr(module, "available_threads", lambda: threads)
    case = Case(1, n=301, p=21)
    gone = case.drawn((0.8, 0.2))
    rhs = case.rng.standard_normal(case.rows.d)
    expected = np.linalg.solve(case.hessian(case.left(gone)), rhs)
    np.testing.assert_allclose(case.leave(gone)[1].solve(rhs), expected, rtol=1e-8, atol=1e-9)


def test_a_deletion_of_most_of_both_classes_is_too_far():
    case = Case(2)
    with pytest.raises(TooFar):
        case.leave(case.drawn((0.8, 0.8)))


def test_what_is_not_a_number_is_too_far():
    case = Case(3)
    _, factor = case.leave(case.drawn((0.8, 0)))
    with pytest.raises(TooFar):
        factor.solve(np.full(case.rows.d, np.nan))


def test_nothing_wanted_is_nothing_found():
    case = Case(4)
    _, factor = case.leave(case.drawn((0.8, 0)))
    assert not factor.solve(np.zeros(case.rows.d)).any()
