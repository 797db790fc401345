"""Streams of requests: within the tolerance of a retraining after each, at few passes."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import unfit
from unfit.methods.onestep import STREAM_TOLERANCE

TOL = 1e-8


def rows_of(d: int, classes: int = 2, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = 6 * X[:, :classes] + 0.3 * rng.standard_normal((n, classes))
    return X, score.argmax(axis=1)


def fitted(d: int, classes: int = 2, n: int = 3000, **more: object) -> unfit.LogisticRegression:
    X, y = rows_of(d, classes, n)
    return unfit.LogisticRegression(l2=1e-3, tol=TOL, dtype="float64", **more).fit(X, y)


def residual(clf: unfit.LogisticRegression) -> float:
    """|gradient| for each row that remains."""
    data, W = clf._data, clf._state.centre
    gradient = data.gradient_sum(W, None) + 1e-3 * data.n_remaining * W
    return float(np.linalg.norm(gradient)) / data.n_remaining


@pytest.mark.parametrize("method", ["fisher", "influence"])
@pytest.mark.parametrize("d", [20, 300])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_request_ends_within_the_tolerance(method: str, d: int, classes: int) -> None:
    clf = fitted(d, classes, method=method)
    order = np.random.default_rng(1).permutation(3000)
    sizes = [1] * 12 + [5] * 6 + [30] * 8 + [1] * 4 + [150] * 3
    found, place = [], 0
    for size in sizes:
        clf.unlearn(order[place : place + size])
        place += size
        found.append(residual(clf))
    allowed = STREAM_TOLERANCE * TOL
    assert np.median(found) <= allowed
    assert max(found[1:]) <= 30 * allowed  # the first is one step, as published
    X, y = rows_of(d, classes)
    keep = order[place:]
    exact = unfit.LogisticRegression(l2=1e-3, tol=1e-12, dtype="float64").fit(X[keep], y[keep])
    assert np.linalg.norm(clf.coef_ - exact.coef_) <= 1e-3 * np.linalg.norm(exact.coef_)


def test_single_rows_need_a_pass_at_less_than_half_of_them() -> None:
    clf = fitted(300, n=20_000)
    order = np.random.default_rng(2).permutation(20_000)
    read = clf._data.rows_read
    for row in order[:40]:
        clf.unlearn([row])
    assert clf._data.rows_read - read <= 19 * 20_000
    assert residual(clf) <= STREAM_TOLERANCE * TOL


def test_prepare_is_not_needed_and_changes_nothing_while_the_point_leads() -> None:
    one, other = fitted(300), fitted(300)
    for row in (4, 8, 15, 16, 23, 42):
        one.unlearn([row])
        other.unlearn([row]).prepare()
        np.testing.assert_array_equal(one.coef_, other.coef_)


def test_new_sums_are_made_when_the_passes_would_have_paid_for_them() -> None:
    """The regret of not knowing the future: never more than as much again."""
    clf = fitted(300)
    order = np.random.default_rng(3).permutation(3000)
    price = 300 / 12 * (1 + 300 / 3000)
    since = renewed = 0
    for place in range(0, 2000, 100):
        before, read = clf._state.stream, clf._data.rows_read
        clf.unlearn(order[place : place + 100])
        passes = (clf._data.rows_read - read) / clf.n_remaining_
        stream = clf._state.stream
        assert stream is not None or before is not None
        if before is not None and (stream is None or stream.statistics is not before.statistics):
            renewed += 1
            since = 0
        else:
            since += passes
            assert since <= price + 9  # and what one request takes
    assert renewed >= 1


def test_a_pickle_holds_no_rows_of_the_stream() -> None:
    X, y = rows_of(300)
    marked = 17
    X[marked] = 0.0
    X[marked, 7] = 0.123456789101112
    clf = unfit.LogisticRegression(l2=1e-3, dtype="float64").fit(X, y)
    clf.unlearn([3])
    clf.unlearn([marked])
    clf.unlearn([5])
    assert clf._state.stream is not None
    kept = pickle.dumps(clf)
    assert X[marked, 7].tobytes() not in kept
    again = pickle.loads(kept)
    assert again._state.stream.statistics is None
    again.unlearn([99])
    assert residual(again) < 1e-5


@pytest.mark.parametrize("method", ["fisher", "influence"])
def test_a_stream_goes_on_where_no_sums_lead_any_more(method: str) -> None:
    """The squared hinge's curvature jumps: every now and then a point leads nowhere."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.normal(size=(400, 8))
    y = (3 * X @ rng.normal(size=(8, 2)) + rng.gumbel(size=(400, 2))).argmax(axis=1)
    clf = unfit.LinearSVC(method, l2=1e-3, tol=TOL, dtype="float64").fit(X, y)
    found = []
    for _ in range(40):
        left = np.flatnonzero(clf.remaining_)
        clf.unlearn(rng.choice(left, rng.integers(1, 8), replace=False))
        found.append(residual(clf))
    assert max(found[3:]) <= 10 * STREAM_TOLERANCE * TOL


@pytest.mark.parametrize("method", ["fisher", "influence"])
@pytest.mark.parametrize("kind", ["sparse", "more columns than rows"])
def test_rows_without_sums_are_followed_too(method: str, kind: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 5) if kind == "sparse" else (90, 400)) / 10
    X[rng.random(X.shape) < 0.5] = 0.0
    y = X[:, 0] + 0.05 * rng.standard_normal(len(X)) > 0
    rows = csr_array(X) if kind == "sparse" else X
    clf = unfit.LogisticRegression(method, l2=1e-3, tol=TOL, dtype="float64").fit(rows, y)
    for i in range(20):
        clf.unlearn([i])
        if i:
            assert residual(clf) <= STREAM_TOLERANCE * TOL


@pytest.mark.parametrize("method", ["fisher", "influence", "newton", "retrain"])
def test_a_column_that_nobody_has_a_value_in_any_more_has_no_weight(method: str) -> None:
    X, y = rows_of(20)
    X[:, 3] = X[:, 5] = 0.0
    X[[7, 9], 3], X[[7, 8], 5] = 0.4, 0.3
    weight = np.ones(len(y))
    weight[8] = 0.0  # does not count
    clf = unfit.LogisticRegression(method, l2=1e-3, dtype="float64")
    clf.fit(X, y, sample_weight=weight)
    clf.unlearn([7])
    assert clf.coef_[0, 3] != 0
    assert clf.coef_[0, 5] == 0
    clf.unlearn([9, 100])
    assert clf.coef_[0, 3] == clf.coef_[0, 5] == 0
    clf.unlearn([11])
    assert clf.coef_[0, 3] == clf.coef_[0, 5] == 0
    assert np.count_nonzero(clf.coef_) == 18
