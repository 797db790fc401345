"""A verdict can fail: a model that was not made to forget is told from one that was."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import unfit
from unfit.audit import Audit, noise_check
from unfit.audit.retrained import retrain
from unfit.audit.verdict import (
    LIMIT,
    Added,
    Behaviour,
    Distances,
    Noise,
    OneRow,
    judge_distances,
    judge_noise,
)
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings

SAME = Behaviour(probabilities=0.0, acc_dis=0.0, rows_apart=0)
ONE_ROW = OneRow(low=0.5, typical=1.0, mean=1.2, high=3.0)


def made_up(n: int = 2000, columns: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns)).astype(np.float32)
    y = (X[:, :3].sum(axis=1) + rng.logistic(size=n) > 0).astype(int)
    return X / np.float32(8), y  # a declared bound: no constant is fitted


def audited(method: str, rows: list[int], forget: bool, **options: object) -> Audit:
    """An audit after `unlearn`; without `forget`, of the weights from before it."""
    X, y = made_up()
    clf = unfit.LogisticRegression(method, random_state=0, **options).fit(X, y)
    before = clf._state
    clf.unlearn(rows)
    if not forget:
        kept = {"weights": before.weights, "kept_centre": before.kept_centre}
        clf._state = replace(clf._state, statistics=None, stale_inverse=None, **kept)
    return clf.audit(random_state=1)


@pytest.mark.parametrize("method", ["fisher", "influence", "retrain"])
def test_one_row_of_many_is_seen_twenty_times_of_twenty(method: str) -> None:
    X, y = made_up()
    fitted = unfit.LogisticRegression(method, random_state=0).fit(X, y)
    trained = fitted._state
    for row in np.random.default_rng(3).choice(len(X), 20, replace=False):
        clf = copy.deepcopy(fitted).unlearn([row])
        good = clf.audit(random_state=1)
        assert good.outcome == "forgotten", good.verdict
        clf._state = replace(
            clf._state, weights=trained.weights, statistics=None, stale_inverse=None
        )
        bad = clf.audit(random_state=1)
        assert bad.outcome == "not forgotten", bad.verdict
        assert bad.influence_left == pytest.approx(1, abs=0.01)
        assert bad.acc_dis is not None
        assert bad.acc_dis <= 1  # which the paper's figure does not see


@pytest.mark.parametrize("method", ["fisher", "influence", "retrain", "deltagrad"])
def test_many_rows_are_seen(method: str) -> None:
    fast = {"epochs": 30, "batch_size": 64, "learning_rate": 1.0, "period": 2}
    options = fast if method == "deltagrad" else {}
    rows = list(range(100))
    assert audited(method, rows, forget=True, **options).outcome == "forgotten"
    assert audited(method, rows, forget=False, **options).outcome == "not forgotten"


def test_the_exact_replay_is_what_deltagrad_is_held_against() -> None:
    fast = {"epochs": 20, "batch_size": 64, "learning_rate": 1.0}
    exact = audited("deltagrad", [5], forget=True, period=1, **fast)
    assert exact.influence_left is not None
    assert exact.influence_left < 1e-3
    assert exact.outcome == "forgotten"


@pytest.mark.parametrize("method", ["retrain", "fisher", "deltagrad"])
def test_with_noise_the_weights_before_it_are_compared(method: str) -> None:
    fast = {"epochs": 20, "batch_size": 64, "learning_rate": 1.0, "period": 1}
    options = {"sigma": 0.3} | (fast if method == "deltagrad" else {})
    good = audited(method, [7], forget=True, **options)
    assert good.compared == "weights before noise"
    assert good.outcome == "forgotten"
    assert good.retrainings_differ is not None  # "weight distance 1.6" is what noise makes of it
    assert good.retrainings_differ > 3 * (good.control_distance or 0)
    assert audited(method, [7], forget=False, **options).outcome == "not forgotten"


def test_noise_hides_one_row_and_not_three_hundred() -> None:
    """Where released weights are all there is."""
    X, y = made_up()
    rows = np.flatnonzero((y == 1) & (X[:, 0] > 0))[:300]

    def outcome(rows: np.ndarray, forget: bool, sigma: float) -> Audit:
        clf = unfit.LogisticRegression("fisher", random_state=0, sigma=sigma).fit(X, y)
        before = clf._state
        clf.unlearn(rows)
        weights = clf._state.weights if forget else before.weights
        clf._state = replace(
            clf._state, weights=weights, kept_centre=None, statistics=None, stale_inverse=None
        )
        return clf.audit(random_state=1)

    for forget in (True, False):
        hidden = outcome(rows[:1], forget, 0.3)
        assert hidden.outcome == "cannot tell"
        assert "noise (sigma 0.3) hides" in hidden.reason
    assert outcome(rows, True, 0.1).outcome == "forgotten"
    assert outcome(rows, False, 0.1).outcome == "not forgotten"


def test_released_weights_that_were_left_as_they_were_are_seen_beside_a_good_centre() -> None:
    X, y = made_up()
    rows = np.flatnonzero((y == 1) & (X[:, 0] > 0))[:300]
    clf = unfit.LogisticRegression("fisher", random_state=0, sigma=0.1).fit(X, y)
    before = clf._state.weights
    clf.unlearn(rows)
    assert clf.audit(random_state=1).outcome == "forgotten"
    clf._state = replace(clf._state, weights=before)
    assert clf.audit(random_state=1).outcome == "not forgotten"


FAST = {"epochs": 20, "batch_size": 64, "learning_rate": 1.0, "period": 1}


@pytest.mark.parametrize("method", ["fisher", "retrain", "deltagrad"])
@pytest.mark.parametrize("sigma", [0.01, 0.3, 20.0])
def test_weights_in_use_that_are_not_the_centre_and_its_noise_are_seen(
    method: str, sigma: float
) -> None:
    X, y = made_up()
    options = FAST if method == "deltagrad" else {}
    clf = unfit.LogisticRegression(method, random_state=0, sigma=sigma, **options).fit(X, y)
    clf.unlearn([7])
    state = clf._state
    assert state.kept_centre is not None
    good = clf.audit(random_state=1)
    assert good.outcome == "forgotten", good.verdict
    if sigma > 0.1:  # which hides one row
        assert "measured before noise" in good.reason
    noise = state.weights - state.kept_centre
    for served in (
        100 + 100 * sigma + 0 * noise,
        state.kept_centre + 8 * noise,
        state.kept_centre + noise / 50,
        state.kept_centre.copy(),
    ):
        clf._state = replace(state, weights=served)
        bad = clf.audit(random_state=1)
        assert bad.outcome == "not forgotten", bad.verdict
        assert f"noise of the size that sigma {sigma:g} says" in bad.reason


def test_added_noise_is_what_it_is_said_to_be_or_not() -> None:
    """Against SciPy's distribution."""
    for degrees in (1, 13, 5000):
        least, most = stats.chi2.ppf(1e-6, degrees), stats.chi2.isf(1e-6, degrees)
        for length, expected in (
            (0.99 * least, False),
            (1.01 * least, True),
            (0.99 * most, True),
            (1.01 * most, False),
        ):
            added = Added(sigma=1.0, low=float(length), high=float(length), degrees=degrees)
            assert added.is_noise is expected
    assert not Added(sigma=1.0, low=np.nan, high=np.nan, degrees=3).is_noise


@pytest.mark.parametrize("limit", ["exact", "bounded", "wide"])
def test_noise_of_fisher_keeps_its_law_whatever_the_way_to_look(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == "bounded":
        monkeypatch.setattr(noise_check, "_ROOTS", 0)
    X, y = made_up(300, 30)
    data = CpuEngine(Rows(X.astype(np.float64), y.astype(np.int32), True), 2)
    method = METHODS["fisher"](Settings(l2=1e-3, sigma=0.5))
    found = retrain(method, data)
    assert found.factors is not None
    seen = found if limit != "wide" else replace(found, factors=None)
    rng = np.random.default_rng(0)
    hessian = data.hessian_sum(found.weights)[0] + 1e-3 * 300 * np.eye(31)
    root = np.real(scipy.linalg.sqrtm(hessian))
    for _ in range(50):
        state = method.release(found.weights, data, rng)
        added = noise_check.added(method, state, data, seen)
        assert added is not None
        v = (state.weights - found.weights)[0]
        exact = v @ root @ v / 0.25
        assert added.low <= exact <= added.high
        assert added.degrees == 31
        assert added.is_noise
        if limit == "exact":
            assert added.low * noise_check.SLACK == pytest.approx(exact)
    for served in (found.weights + 100, found.weights.copy()):
        changed = noise_check.added(method, replace(state, weights=served), data, seen)
        assert changed is not None
        assert not changed.is_noise


def test_influence_is_compared_with_its_own_noise_term() -> None:
    good = audited("influence", [7], forget=True, sigma=3.0)
    assert good.compared == "weights with the same noise term"
    assert good.outcome == "forgotten"
    assert audited("influence", [7], forget=False, sigma=3.0).outcome == "not forgotten"


def test_an_influence_smaller_than_rounding_cannot_be_told() -> None:
    tiny = Distances(updated=1e-13, floor=1e-12, control=1e-11, along=0.0, one_row=ONE_ROW)
    assert judge_distances(tiny, SAME, 1.0, 1).outcome == "cannot tell"


@given(st.floats(0, 2), st.integers(1, 1000))
def test_the_limit_divides_forgotten_from_not(left: float, n: int) -> None:
    d = Distances(updated=left, floor=1e-12, control=1.0, along=left, one_row=ONE_ROW)
    expected = "not forgotten" if left > LIMIT else "forgotten"
    assert judge_distances(d, SAME, 1.0, n).outcome == expected
    apart = Behaviour(probabilities=1.5, acc_dis=0.0, rows_apart=0)
    assert judge_distances(d, apart, 1.0, n).outcome == "not forgotten"
    disparate = Behaviour(probabilities=0.0, acc_dis=3.0, rows_apart=1)
    assert judge_distances(d, disparate, 1.0, n).outcome == expected  # by one row only


@pytest.mark.parametrize(
    ("updated", "n", "outcome"),
    [
        (0.01, 1, "forgotten"),
        (0.1, 1, "cannot tell"),
        (1.0, 1, "not forgotten"),
        (1.0, 50, "cannot tell"),
        (10.0, 50, "not forgotten"),
    ],
)
def test_without_the_deleted_rows_single_rows_are_the_measure(
    updated: float, n: int, outcome: str
) -> None:
    d = Distances(updated=updated, floor=1e-12, one_row=ONE_ROW)
    assert judge_distances(d, SAME, 1.0, n).outcome == outcome


def test_some_of_the_deleted_rows_cannot_condemn_for_the_others() -> None:
    d = Distances(updated=0.5, floor=1e-12, control=1.0, along=0.1, whole=False, one_row=ONE_ROW)
    assert judge_distances(d, SAME, 1.0, 9).outcome == "cannot tell"
    assert judge_distances(replace(d, along=0.9), SAME, 1.0, 9).outcome == "not forgotten"
    assert judge_distances(replace(d, updated=0.05), SAME, 1.0, 9).outcome == "forgotten"


def test_rows_that_weigh_more_than_any_clear_nobody() -> None:
    """Made-up rows enlarge the control, and with it what may be left."""
    d = Distances(updated=1.0, floor=1e-12, control=50.0, along=0.02, one_row=ONE_ROW)
    said = judge_distances(d, SAME, 1.0, 1)
    assert said.outcome == "cannot tell"
    assert "make sure that they are the deleted rows" in said.reason
    assert judge_distances(d, SAME, 1.0, 100).outcome == "forgotten"  # as many may weigh so much
    assert judge_distances(replace(d, updated=0.2), SAME, 1.0, 1).outcome == "forgotten"


def test_noise_larger_than_the_influence_is_said_in_words() -> None:
    said = judge_noise(Noise(sigma=2.0, position=0.7, spread=3.0))
    assert said.outcome == "cannot tell"
    assert "sigma 2" in said.reason
    assert "nobody could tell" in said.reason
    assert judge_noise(Noise(sigma=2.0, position=0.7, spread=0.1)).outcome == "not forgotten"
    assert judge_noise(Noise(sigma=2.0, position=0.2, spread=0.1)).outcome == "forgotten"


def test_lengths_and_influences_are_those_of_their_definitions() -> None:
    X, y = made_up(400, 5)
    data = CpuEngine(Rows(X.astype(np.float64), y.astype(np.int32), True), 2)
    found = retrain(METHODS["fisher"](Settings(l2=1e-3)), data)
    assert found.floor < 1e-9
    hessian = data.hessian_sum(found.weights)[0] + 1e-3 * 400 * np.eye(6)
    v = np.arange(6.0)[None]
    assert found.length(v) == pytest.approx(float(np.sqrt(v[0] @ hessian @ v[0])))
    rows = data.take(np.arange(8))
    each = found.influences(Rows(rows.X, rows.codes, True))
    assert each is not None
    for i in range(8):
        x = np.append(rows.X[i], 1.0)
        p = 1 / (1 + np.exp(-x @ found.weights[0]))
        expected = abs(p - rows.codes[i]) * np.sqrt(x @ np.linalg.solve(hessian, x))
        assert each[i] == pytest.approx(expected)
    extra = data.take(np.array([3]))
    without = data.shared()
    without.forget(np.array([3]))
    base = retrain(METHODS["fisher"](Settings(l2=1e-3)), without)
    again = base.control(without, extra)  # puts the row back
    np.testing.assert_allclose(again, found.weights, rtol=1e-9, atol=1e-12)


def test_a_report_from_before_such_verdicts_says_that_it_cannot_tell() -> None:
    old = {
        "n_remaining": 10,
        "n_deleted": 1,
        "accuracy_updated": 0.5,
        "accuracy_retrained": 0.5,
        "acc_err": 0.0,
        "deleted_accuracy_updated": None,
        "deleted_accuracy_retrained": None,
        "acc_dis": None,
        "acc_dis_spread": None,
        "weight_distance": 0.1,
        "residual": 0.0,
        "predictions_differ": 0.0,
        "threshold": 1.0,
        "draws": 1,
        "disparities": [],
    }
    assert Audit.of(old).passed is None
