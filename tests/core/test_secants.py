"""Secants against the BFGS update of dense inverses, and what makes a guide trustworthy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.core.secants import MOST, Secants


def problems(seed, k=2, d=8):
    """Hessians (k, d, d), and guides that are inverses of other ones."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((2, k, d, 2 * d))
    hessians = np.einsum("aknp,akmp->aknm", spread, spread) / d + np.eye(d)
    return hessians[0], np.linalg.inv(hessians[1]), rng


def times(matrices):
    return lambda vectors: np.einsum("knm,km->kn", matrices, vectors)


def updated(inverse, step, change):
    """The textbook's update of one inverse."""
    share = 1 / (step @ change)
    left = np.eye(len(step)) - share * np.outer(step, change)
    return left @ inverse @ left.T + share * np.outer(step, step)


@given(seed=st.integers(0, 300), k=st.integers(1, 3), pairs=st.integers(0, MOST))
def test_products_are_those_of_dense_updates(seed, k, pairs):
    hessians, inverses, rng = problems(seed, k)
    secants, dense = Secants(), list(inverses)
    for _ in range(pairs):
        step = rng.standard_normal((k, 8))
        change = times(hessians)(step)
        secants = secants.with_pair(step, change)
        dense = [updated(P, s, y) for P, s, y in zip(dense, step, change, strict=True)]
        np.testing.assert_allclose(secants.solve(times(inverses), change), step, rtol=1e-7)
    vectors = rng.standard_normal((k, 8))
    found = secants.solve(times(inverses), vectors)
    np.testing.assert_allclose(found, times(np.array(dense))(vectors), rtol=1e-6, atol=1e-9)
    assert (np.einsum("kd,kd->k", found, vectors) > 0).all()  # positive definite


def test_the_last_pairs_are_kept():
    hessians, inverses, rng = problems(0)
    steps = rng.standard_normal((MOST + 3, 2, 8))
    all_of_them, last = Secants(), Secants()
    for number, step in enumerate(steps):
        all_of_them = all_of_them.with_pair(step, times(hessians)(step))
        if number >= 3:
            last = last.with_pair(step, times(hessians)(step))
    assert len(all_of_them.pairs) == MOST
    vectors = rng.standard_normal((2, 8))
    np.testing.assert_array_equal(
        all_of_them.solve(times(inverses), vectors), last.solve(times(inverses), vectors)
    )


@pytest.mark.parametrize("seen", [0.0, -1.0, 1e-320])
def test_a_step_without_curvature_teaches_its_problem_nothing(seen):
    """It would make the guide indefinite; the problem beside it learns all the same."""
    hessians, inverses, rng = problems(1)
    step = rng.standard_normal((2, 8))
    change = times(hessians)(step)
    change[0] = seen * step[0]
    secants = Secants().with_pair(step, change)
    vectors = rng.standard_normal((2, 8))
    found = secants.solve(times(inverses), vectors)
    np.testing.assert_array_equal(found[0], times(inverses)(vectors)[0])
    assert not np.array_equal(found[1], times(inverses)(vectors)[1])


def test_rounding_teaches_nothing():
    """A change that is almost at right angles to the step is what rounding leaves of none."""
    _, inverses, rng = problems(3)
    step = rng.standard_normal((2, 8))
    across = rng.standard_normal((2, 8))
    along = np.einsum("kd,kd->k", across, step) / np.einsum("kd,kd->k", step, step)
    change = across - (1 - 1e-9) * along[:, None] * step
    vectors = rng.standard_normal((2, 8))
    found = Secants().with_pair(step, change).solve(times(inverses), vectors)
    np.testing.assert_array_equal(found, times(inverses)(vectors))


def test_nothing_that_is_given_is_written_to():
    hessians, inverses, rng = problems(2)
    step, vectors = rng.standard_normal((2, 2, 8))
    change = times(hessians)(step)
    before = step.copy(), change.copy(), vectors.copy()
    Secants().with_pair(step, change).solve(times(inverses), vectors)
    for was, now in zip(before, (step, change, vectors), strict=True):
        np.testing.assert_array_equal(was, now)
