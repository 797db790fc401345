"""delta(epsilon; mu) and its inverses, against 60 digits."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.certify.accountant import delta_of, epsilon_of, joint_mu, mu_of

MUS = st.floats(math.log(1e-6), math.log(10)).map(math.exp)


def exact(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@given(MUS, st.floats(0, 38))
def test_delta_is_exact_to_ten_digits(mu: float, deviations: float) -> None:
    """epsilon = deviations x mu: beyond 38 standard deviations delta is no number any more."""
    epsilon = deviations * mu
    expected = exact(epsilon, mu)
    if expected > 1e-290:
        assert abs(delta_of(epsilon, mu) / expected - 1) < 1e-10


@given(MUS)
def test_at_epsilon_0_delta_is_the_distance_of_two_gaussians(mu: float) -> None:
    assert delta_of(0.0, mu) == pytest.approx(math.erf(mu / 2 / math.sqrt(2)), rel=1e-12)


@given(MUS, MUS, st.floats(0, 5))
def test_delta_grows_with_mu_and_falls_with_epsilon(one: float, other: float, e: float) -> None:
    low, high = sorted((one, other))
    assert delta_of(e, low) <= delta_of(e, high) * (1 + 1e-10)
    assert delta_of(e + 0.1, low) <= delta_of(e, low) * (1 + 1e-10)


@pytest.mark.parametrize(("delta", "mu"), [(1e-4, 0.3139), (1e-5, 0.2681), (1e-6, 0.2367)])
def test_what_epsilon_1_allows(delta: float, mu: float) -> None:
    assert mu_of(1.0, delta) == pytest.approx(mu, abs=5e-5)


@given(st.just(0.0) | st.floats(1e-9, 20), st.floats(math.log(1e-12), math.log(0.5)).map(math.exp))
def test_inverses_are_on_the_safe_side_and_close(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert delta_of(epsilon, mu * (1 + 1e-9)) > delta
    again = epsilon_of(mu, delta)
    assert delta_of(again, mu) <= delta * (1 + 1e-12)
    assert again == pytest.approx(epsilon, rel=1e-7, abs=1e-7)


def test_edges() -> None:
    assert delta_of(1.0, 0.0) == 0.0
    assert delta_of(1.0, math.inf) == 1.0
    assert epsilon_of(0.0, 1e-5) == 0.0
    assert epsilon_of(1e-9, 1e-5) == 0.0
    assert math.isinf(epsilon_of(math.inf, 1e-5))
    assert delta_of(0.5, 40.0) == pytest.approx(1.0)
    assert delta_of(1e9, 1e5) == pytest.approx(1.0)  # e^epsilon is more than a number can hold
    assert delta_of(50.0, 1.0) == 0.0 or delta_of(50.0, 1.0) < 1e-300
    assert joint_mu([]) == 0.0
    assert joint_mu([3.0, 4.0]) == 5.0


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 1e-5), (math.nan, 1e-5), (101, 1e-5)])
def test_what_is_no_epsilon_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be between 0 and 100"):
        mu_of(epsilon, delta)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_what_is_no_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        mu_of(1.0, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 5e-324), (0.0, 1e-300), (1.0, 9e-31)])
def test_a_delta_that_is_too_small_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="delta must be at least 1e-30"):
        mu_of(epsilon, delta)


@pytest.mark.parametrize("epsilon", [1e-12, 5e-324])
def test_an_epsilon_next_to_0_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be 0, or at least 1e-09"):
        mu_of(epsilon, 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0, 100.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-5, 0.999])
def test_the_ends_of_what_can_be_promised(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert exact(epsilon, mu) <= delta * (1 + 1e-12)
    for each in (mu / 64, mu, 8 * mu):
        again = epsilon_of(each, delta)
        assert exact(again, each) <= delta * (1 + 1e-12)


def test_the_search_for_epsilon_ends() -> None:
    found = epsilon_of(1.4e-12, 7.9e-32)
    assert exact(found, 1.4e-12) <= 7.9e-32
