"""Rows whose label under a retraining is certain, against models drawn within the distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unfit.certify.agreement import agreement, certain, largest_disparity
from unfit.core.metrics import accuracy, accuracy_disparity
from unfit.core.objective import Rows
from unfit.core.predictions import predict


def problem(seed: int, k: int, intercept: bool, dtype: str = "float64") -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 4)).astype(dtype)
    centre = rng.standard_normal((k, 4 + intercept))
    codes = rng.integers(0, max(2, k), 200)
    return Rows(X, codes, intercept), centre


def worst_models(rows: Rows, centre: np.ndarray, distance: float) -> list[np.ndarray]:
    """For every row, the model at the distance that moves its label most."""
    X = np.column_stack([rows.X, np.ones(len(rows))]) if rows.intercept else np.asarray(rows.X)
    made = []
    for x in X:
        unit, move = x / np.linalg.norm(x), np.zeros_like(centre)
        margins = centre @ x
        if len(centre) == 1:
            move[0] = -np.sign(margins[0]) * unit * distance
        else:
            first, second = np.argsort(margins)[::-1][:2]
            move[first], move[second] = -unit * distance / 2**0.5, unit * distance / 2**0.5
        made.append(centre + move)
    return made


@given(st.integers(0, 1000), st.sampled_from([1, 3, 5]), st.booleans(), st.floats(1e-3, 0.5))
@settings(max_examples=60, deadline=None)
def test_a_certain_label_is_the_same_under_every_model_that_near(seed, k, intercept, distance):
    rows, centre = problem(seed, k, intercept)
    sure, labels = certain(rows, centre, distance), predict(rows.X, centre)
    for i, worst in enumerate(worst_models(rows, centre, 0.999999 * distance)):
        assert (predict(rows.X, worst)[sure] == labels[sure]).all()
        if not sure[i]:  # and the mask is no smaller than it must be
            beyond = worst_models(rows.take(np.array([i])), centre, 1.0001 * distance)[0]
            assert predict(rows.X, beyond)[i] != labels[i]


def test_rounding_of_float32_rows_counts():
    rows, centre = problem(0, 1, True, "float32")
    margin = np.column_stack([rows.X, np.ones(200)]).astype(np.float64) @ centre[0]
    centre[0, -1] -= margin[7] - 1e-9  # a label that float32 cannot be sure of
    assert not certain(rows, centre, 0.0)[7]
    assert certain(rows, centre, 0.0).mean() > 0.98


@pytest.mark.parametrize("k", [1, 4])
def test_agreement_counts_certain_rows_that_keep_their_label(k):
    rows, centre = problem(3, k, True)
    assert agreement(rows, centre, centre, 0.0) == 1.0
    released = centre + 0.2 * np.random.default_rng(1).standard_normal(centre.shape)
    sure = certain(rows, centre, 0.1)
    same = predict(rows.X, released) == predict(rows.X, centre)
    assert agreement(rows, released, centre, 0.1) == pytest.approx((sure & same).mean(), abs=1e-4)
    assert agreement(rows.take(np.zeros(0, np.int64)), released, centre, 0.1) is None


@pytest.mark.parametrize("k", [1, 4])
def test_no_model_that_near_has_a_larger_disparity(k):
    rows, centre = problem(5, k, False)
    bound = largest_disparity(rows, centre, 0.05)
    ours = accuracy(predict(rows.X, centre), rows.codes)
    rng = np.random.default_rng(2)
    for _ in range(300):
        step = rng.standard_normal(centre.shape)
        other = centre + 0.05 * step / np.linalg.norm(step)
        theirs = accuracy(predict(rows.X, other), rows.codes)
        assert accuracy_disparity(theirs, ours) <= bound
    assert largest_disparity(rows, centre, 0.0) == 0.0
    assert largest_disparity(rows.take(np.zeros(0, np.int64)), centre, 0.1) is None
