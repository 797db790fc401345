import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from unfit.core.metrics import (
    accuracy,
    accuracy_disparity,
    accuracy_error,
    auc,
    log_loss,
    majority_rate,
    quality,
    sape,
)

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


def some_predictions(classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with ties, zeros and ones among them, and codes of every class."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), 60).round(1)
    p[:, 0] = (1 - p[:, 1:].sum(axis=1)).clip(0)
    p /= p.sum(axis=1, keepdims=True)
    return p, np.concatenate([np.arange(classes), rng.integers(0, classes, 60 - classes)])


@given(st.integers(2, 5), st.integers(0, 1000))
def test_log_loss_and_auc_are_those_of_scikit_learn(classes: int, seed: int) -> None:
    p, codes = some_predictions(classes, seed)
    known = np.arange(classes)
    assert log_loss(p, codes) == pytest.approx(reference.log_loss(codes, p, labels=known))
    if classes == 2:
        expected = reference.roc_auc_score(codes, p[:, 1])
    else:
        each = [reference.roc_auc_score(codes == c, p[:, c]) for c in range(classes)]
        expected = np.mean(each)
    assert auc(p, codes) == pytest.approx(expected)


def test_accuracy_stands_beside_the_majority_rate() -> None:
    codes = np.array([0] * 9 + [1])
    found = quality(np.tile([0.9, 0.1], (10, 1)), codes)
    assert (found.accuracy, found.majority, found.auc) == (0.9, 0.9, 0.5)
    assert majority_rate(np.array([-1, 0, 0, 1])) == 0.5  # an unknown label is nobody's majority


def test_what_cannot_be_said_is_none() -> None:
    empty = quality(np.zeros((0, 2)), np.zeros(0, np.int64))
    assert (empty.accuracy, empty.majority, empty.log_loss, empty.auc) == (None,) * 4
    one_class = quality(np.full((3, 2), 0.5), np.ones(3, np.int64))
    assert one_class.auc is None
    assert one_class.log_loss == pytest.approx(np.log(2))
    assert log_loss(np.full((2, 2), 0.5), np.array([-1, -1])) is None
