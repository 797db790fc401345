import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.core.metrics import accuracy, accuracy_disparity, accuracy_error, sape

shares = st.floats(0, 1)


@given(shares, shares)
def test_sape_is_symmetric_and_bounded(a, b):
    assert sape(a, b) == sape(b, a)
    assert 0 <= sape(a, b) <= 100 + 1e-9
    assert sape(a, a) == 0


def test_values():
    assert sape(0, 0) == 0
    assert sape(0, 0.5) == 100
    assert sape(0.6, 0.4) == pytest.approx(20)
    assert accuracy_error(0.87, 0.913) == pytest.approx(100 * 0.043 / 1.783)
    assert accuracy_disparity(0.65, 0.777) == pytest.approx(100 * 0.127 / 1.427)
    assert accuracy(np.array([0, 1, 1]), np.array([0, 1, 0])) == pytest.approx(2 / 3)
