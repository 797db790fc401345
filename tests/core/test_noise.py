"""Roots against each other and against powers; the law of the noise at a fixed seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unfit.core.noise import (
    inverse_fourth_root_by_eigh,
    inverse_fourth_root_by_lanczos,
    inverse_fourth_root_downdated,
    inverse_fourth_root_times,
    secret_normal,
)


def spd(seed, d, condition):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return Q @ np.diag(np.geomspace(1, condition, d)) @ Q.T, rng.standard_normal(d)


@given(
    seed=st.integers(0, 300), d=st.integers(1, 120), condition=st.sampled_from([1, 10, 1e3, 1e5])
)
def test_lanczos_equals_eigh(seed, d, condition):
    F, b = spd(seed, d, condition)
    exact = inverse_fourth_root_by_eigh(F, b)
    ours = inverse_fourth_root_by_lanczos(lambda v: F @ v, b)
    assert np.linalg.norm(ours - exact) <= 1e-8 * np.linalg.norm(exact)


def test_four_times_the_root_is_the_inverse():
    F, b = spd(1, 30, 100)
    x = b
    for _ in range(4):
        x = inverse_fourth_root_by_eigh(F, x)
    np.testing.assert_allclose(x, np.linalg.solve(F, b), rtol=1e-9)


@pytest.mark.parametrize("d", [40, 300])
def test_both_ways_by_size(d):
    F, b = spd(2, d, 1e3)
    np.testing.assert_allclose(
        inverse_fourth_root_times(F, b), inverse_fourth_root_by_eigh(F, b), rtol=1e-6, atol=1e-8
    )


@given(seed=st.integers(0, 300), m=st.integers(1, 8), condition=st.sampled_from([1, 100, 1e4]))
def test_downdated_equals_eigh(seed, m, condition):
    rng = np.random.default_rng(seed)
    diagonal = rng.permutation(np.geomspace(1, condition, 30))
    U = rng.standard_normal((30, m))
    U *= 0.9 * np.sqrt(1 / np.linalg.eigvalsh(U.T @ (U / diagonal[:, None])).max())
    b = rng.standard_normal(30)
    exact = inverse_fourth_root_by_eigh(np.diag(diagonal) - U @ U.T, b)
    ours = inverse_fourth_root_downdated(diagonal, U, b)
    assert np.linalg.norm(ours - exact) <= 1e-8 * np.linalg.norm(exact)


def test_zero_vector():
    assert not inverse_fourth_root_by_lanczos(lambda v: 2 * v, np.zeros(5)).any()


def test_secret_noise_is_never_the_same_and_normal_out_to_its_tails():
    firsts = {float(secret_normal((1,))[0]) for _ in range(1000)}
    assert len(firsts) == 1000
    pairs = secret_normal((2, 200_000))
    assert abs(np.corrcoef(pairs)[0, 1]) < 0.02
    assert stats.kstest(pairs[0], "norm").pvalue > 1e-6
    beyond = np.count_nonzero(np.abs(pairs) > 4)  # 25 are expected
    assert stats.binomtest(beyond, pairs.size, 2 * stats.norm.sf(4)).pvalue > 1e-6


@pytest.mark.parametrize(
    ("bits", "value"),
    [
        (0, stats.norm.ppf(2.0**-65)),  # the lowest bit is the sign, and 0 is minus
        (1, -stats.norm.ppf(2.0**-65)),
        (2**64 - 1, 0.0),
        (2**63, stats.norm.ppf(0.25)),
        (2**63 + 1, -stats.norm.ppf(0.25)),
    ],
)
def test_every_bit_of_secret_noise_counts(monkeypatch, bits, value):
    """Against the quantiles of the normal law."""
    drawn = np.array([bits], np.uint64).tobytes()
    monkeypatch.setattr("os.urandom", lambda size: (drawn * size)[:size])
    assert secret_normal((1, 3)) == pytest.approx(np.full((1, 3), value), rel=1e-12, abs=1e-15)
