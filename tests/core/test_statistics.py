"""Downdating, updating and the low-rank paths against sums over the rows themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_objective import problem

from unfit.core.factors import Cholesky, Inverse, Spectrum
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics, cheapest, factors_without, gradient_of_rows

L2 = 1e-2


@given(seed=st.integers(0, 500), share=st.floats(0.02, 0.9), n_classes=st.sampled_from([2, 3]))
def test_what_is_taken_off_is_what_was_there(seed, share, n_classes):
    rows, W = problem(seed, n=50, p=6, n_classes=n_classes)
    leaving = np.random.default_rng(seed).random(50) < share
    whole = Statistics.of_rows(rows, W, Penalty(L2))
    gone = Statistics.of_rows(rows.take(leaving), W, Penalty(L2))
    left = Statistics.of_rows(rows.take(~leaving), W, Penalty(L2))
    for one, other in ((whole.minus(gone), left), (left.plus(gone), whole)):
        assert one.n == other.n
        np.testing.assert_allclose(one.gradient_sum, other.gradient_sum, atol=1e-10)
        np.testing.assert_allclose(one.hessian_sum, other.hessian_sum, atol=1e-10)


def test_statistics_of_other_weights_are_refused():
    rows, W = problem()
    with pytest.raises(ValueError, match="same weights"):
        Statistics.of_rows(rows, W, Penalty(L2)).minus(Statistics.of_rows(rows, W + 1, Penalty(L2)))


@pytest.mark.parametrize("way", ["woodbury", "spectrum", "iterate"])
@given(seed=st.integers(0, 500), m=st.integers(1, 12), l2=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_every_way_gives_the_same(way, seed, m, l2):
    rows, W = problem(seed, n=200, p=60)
    roots = way == "spectrum"
    statistics = Statistics.of_rows(rows, W, Penalty(l2)).with_factors(roots)
    assert isinstance(statistics.factors[0], Spectrum if roots else Inverse)
    m = 5 * m if way == "iterate" else m
    leaving = rows.take(np.random.default_rng(seed).choice(200, m, replace=False))
    (direct,) = factors_without(statistics, leaving, "factorize")
    (cheap,) = factors_without(statistics, leaving, "woodbury" if roots else way)
    rhs, noise = np.random.default_rng(seed + 1).standard_normal((2, 61))
    solved, root = direct.solve(rhs), direct.inverse_fourth_root(noise)
    assert np.linalg.norm(solved - cheap.solve(rhs)) <= 1e-8 * np.linalg.norm(solved)
    close = 1e-8 * np.linalg.norm(root)
    assert np.linalg.norm(root - cheap.inverse_fourth_root(noise)) <= close


def test_the_way_is_chosen_by_the_numbers():
    rows, W = problem(n=400, p=59)
    bare = Statistics.of_rows(rows, W, Penalty(L2))
    ready = bare.with_factors(roots=False)
    assert cheapest(ready, 14) == "woodbury"
    assert cheapest(ready, 15) == "factorize"  # a quarter of the columns
    assert cheapest(bare, 1) == "factorize"  # nothing to correct
    small = Statistics.of_rows(rows.take(np.arange(20)), W, Penalty(L2)).with_factors(roots=False)
    assert cheapest(small, 3) == "factorize"  # a tenth of the rows
    rows, W = problem(n=1100, p=1100)
    wide = Statistics.of_rows(rows, W, Penalty(L2)).with_factors(roots=False)
    assert cheapest(wide, 31) == "woodbury"
    assert cheapest(wide, 32) == "iterate"
    assert cheapest(wide, 500) == "factorize"  # most of it would change


def test_gradient_of_rows_has_its_share_of_the_regulariser():
    rows, W = problem(n=9)
    whole = Statistics.of_rows(rows, W, Penalty(L2)).gradient_sum
    parts = sum(gradient_of_rows(rows.take(np.array([i])), W, Penalty(L2)) for i in range(9))
    np.testing.assert_allclose(parts, whole, atol=1e-12)


def test_a_hessian_that_is_not_positive_definite_is_an_error_with_a_remedy():
    with pytest.raises(np.linalg.LinAlgError, match="raise l2"):
        Cholesky.of(np.diag([1.0, -1.0]))
