"""The smaller side of a class against the dense Hessian of what remains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from unfit.core import class_split as module
from unfit.core.class_split import ClassSplit
from unfit.core.factors import TooFar
from unfit.core.objective import Rows

L2 = 1e-2


class Case:
    """Rows of two classes, some forgotten before, weights, and the sums of each class."""

    def __init__(self, seed, n=120, p=9, dtype="float64", intercept=True, X=None, l2=L2):
        rng = np.random.default_rng(seed)
        if X is None:
            X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
        n, self.l2 = len(X), l2
        codes = (X[:, 0] + 0.3 * rng.standard_normal(n) > 0).astype(np.int64)
        self.rng, self.rows = rng, Rows(X, codes, intercept)
        self.remaining = rng.random(n) < 0.9
        self.dense = reference.with_ones(X, intercept).astype(np.float64)
        self.W = rng.standard_normal((1, self.dense.shape[1]))
        of = [self.remaining & (codes == c) for c in (0, 1)]
        self.counts = tuple(int(mask.sum()) for mask in of)
        self.class_split = ClassSplit.of(
            self.hessian(self.remaining),
            self.hessian(of[0], l2=0),
            np.array([self.gradient(mask, l2=0) for mask in of]),
            self.counts,
            l2 * sum(self.counts),
            X.dtype,
        )

    def hessian(self, mask, l2=None):
        return reference.hessian(self.W[0], self.dense[mask], self.l2 if l2 is None else l2)

    def gradient(self, mask, l2=None):
        t = reference.targets(self.rows.codes, 0, 1)[mask]
        return reference.gradient(self.W[0], self.dense[mask], t, self.l2 if l2 is None else l2)

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
        return self.class_split.leave(self.rows, self.remaining, gone, self.W, self.l2 * len(gone))


@given(
    seed=st.integers(0, 1000),
    p=st.integers(1, 30),
    intercept=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    shares=st.sampled_from([(0.1, 0.1), (0.8, 0), (0, 0.7), (0.9, 0.3), (0.3, 1), (1, 0), (0, 0)]),
)
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


@pytest.mark.parametrize("shares", [(0.95, 0), (0.2, 0.99)])
def test_float32_rows_like_those_of_pictures(shares):
    """Wide, correlated, of length 1 at most, little regularised, and most of a class gone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 40)) @ rng.standard_normal((40, 600))
    X += 0.3 * rng.standard_normal(X.shape)
    X /= np.linalg.norm(X, axis=1).max()
    case = Case(0, X=X.astype(np.float32), l2=1e-4)
    gone = case.drawn(shares)
    gradient, factor = case.leave(gone)
    mask = np.zeros(len(X), bool)
    mask[gone] = True
    correct = case.gradient(mask, l2=0)
    assert np.linalg.norm(gradient[0] - correct) <= 1e-5 * np.linalg.norm(correct)
    expected = np.linalg.solve(case.hessian(case.left(gone)), correct)
    found = factor.solve(correct)
    assert np.linalg.norm(found - expected) <= 2e-5 * np.linalg.norm(expected)


def test_what_float32_cannot_hold_is_not_made():
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.standard_normal((20, 20)))
    X = (rng.standard_normal((300, 20)) * np.geomspace(1, 1e-5, 20)) @ turned
    assert Case(0, X=X.astype(np.float32), l2=1e-12).class_split is None
    assert Case(0, X=X, l2=1e-12).class_split is not None


@pytest.mark.parametrize("wrong", [[-1], [120], [3, 3]])
def test_rows_that_are_not_there_once_are_refused(wrong):
    case = Case(5)
    there = np.flatnonzero(case.remaining & (case.rows.codes == case.rows.codes[3]))
    gone = np.concatenate([there[there != 3], wrong])
    case.remaining[3] = True
    with pytest.raises((IndexError, ValueError), match="rows"):
        case.leave(gone)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
def test_an_index_may_be_of_any_whole_numbers(kind):
    case = Case(6)
    gone = case.drawn((0.8, 0.1))
    gradient, _ = case.leave(gone.astype(kind))
    np.testing.assert_allclose(gradient, case.leave(gone)[0], rtol=1e-12)


def test_rows_may_be_read_only():
    case = Case(7)
    case.rows.X.flags.writeable = case.rows.codes.flags.writeable = False
    gone = case.drawn((0.8, 0))
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
