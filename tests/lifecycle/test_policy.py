"""Policies are pure: these facts, this verdict, with a reason that names the numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.audit.retrained import retrain
from unfit.core.metrics import sape
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.lifecycle.drift import measured
from unfit.lifecycle.pipeline import Baseline, TestScores, open_pipeline, step
from unfit.lifecycle.policies import (
    AccuracyFloor,
    Always,
    DeletedRows,
    DeletedShare,
    Disparity,
    Distance,
    LogLoss,
    Never,
)
from unfit.lifecycle.policy import AnyOf, Facts, decide
from unfit.methods import METHODS, Settings

NAMES = ["a", "b"]
FACTS = Facts(
    rows=1000,
    deleted=30,
    initial_accuracy=0.9,
    accuracy=0.8,
    acc_err_init=5.88,
    slope=2.0,
    estimate=11.76,
    distance=0.036,
    log_loss=0.4,
    log_loss_change=-0.03,
)


@pytest.mark.parametrize(
    ("policy", "retrain", "said"),
    [
        (Disparity(10.0), True, "11.8 % is over the threshold 10 %"),
        (Disparity(12.0), False, "11.8 % is within the threshold 12 %"),
        (Disparity(10.0), True, "accuracy fell by 10 points since training"),
        (Distance(3.0), True, "3.6 % from a retraining's, over 3 %"),
        (Distance(4.0), False, "3.6 % from a retraining's, within 4 %"),
        (LogLoss(0.02), True, "log-loss fell by 0.03 since training, over 0.02"),
        (LogLoss(0.05), False, "within 0.05"),
        (AccuracyFloor(0.85), True, "0.8000 is below the floor 0.85"),
        (AccuracyFloor(0.8), False, "is not below"),
        (DeletedRows(30), True, "30 rows have gone since training, not below the limit of 30"),
        (DeletedRows(31), False, "30 rows have gone since training, below the limit of 31"),
        (
            DeletedShare(0.03),
            True,
            "3 % of the rows have gone since training, not below the limit of 3 %",
        ),
        (
            DeletedShare(0.04),
            False,
            "3 % of the rows have gone since training, below the limit of 4 %",
        ),
        (Always(), True, "every erasure"),
        (Never(), False, "never"),
        (
            AnyOf([Never(), DeletedRows(10)]),
            True,
            "30 rows have gone since training, not below the limit of 10",
        ),
        (
            AnyOf([Never(), DeletedRows(99)]),
            False,
            "never to retrain; 30 rows have gone since training, below",
        ),
    ],
)
def test_verdicts(policy: object, retrain: bool, said: str) -> None:
    verdict = decide(policy, FACTS)  # type: ignore[arg-type]
    assert verdict.retrain == retrain
    assert said in verdict.reason


def test_a_class_without_rows_leaves_no_choice() -> None:
    emptied = replace(FACTS, emptied=("secret",))
    verdict = decide(Never(), emptied)
    assert verdict.retrain
    assert "secret" not in verdict.reason  # the name may be about to be erased
    assert "secret" not in str(emptied.as_dict())


@pytest.mark.parametrize("policy", [Disparity(0), Distance(0), LogLoss(0), AccuracyFloor(1)])
def test_what_was_not_measured_decides_nothing_and_is_never_zero(policy: object) -> None:
    unknown = Facts(rows=10, deleted=1)
    verdict = decide(policy, unknown)  # type: ignore[arg-type]
    assert not verdict.retrain
    assert "not" in verdict.reason
    assert {unknown.as_dict()[name] for name in ("estimate", "slope", "accuracy")} == {None}


def test_a_rise_is_told_from_a_fall() -> None:
    rise = replace(FACTS, initial_accuracy=0.8, accuracy=0.9)
    assert rise.accuracy_change == pytest.approx(0.1)
    assert "accuracy rose by 10 points" in decide(Disparity(1.0), rise).reason


@given(st.floats(0, 100), st.floats(0, 100))
def test_any_of_retrains_when_one_does(estimate: float, threshold: float) -> None:
    facts = Facts(rows=10, deleted=1, estimate=estimate)
    both = AnyOf([Never(), Disparity(threshold)]).decide(facts)
    assert both.retrain == Disparity(threshold).decide(facts).retrain == (estimate > threshold)


def problem(n: int = 600, seed: int = 0) -> tuple[CpuEngine, Rows]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 300, 4))
    y = (X @ [1.0, -1.0, 0.5, 0] + rng.logistic(size=n + 300) > 0).astype(np.int32)
    return CpuEngine(Rows(X[:n], y[:n], True), 2), Rows(X[n:], y[n:], True)


@pytest.mark.parametrize("name", METHODS)
def test_the_rehearsal_learns_c_from_the_papers_deletion(name: str) -> None:
    data, test = problem()
    method = METHODS[name](Settings(epochs=30, batch_size=64, learning_rate=0.5))
    opened = open_pipeline(method, data, test, NAMES, np.random.default_rng(3))
    b = opened.baseline
    assert b.rows == data.n_remaining == 600  # the rehearsal has deleted nothing
    assert 0.4 < b.theta <= 0.45
    assert b.accuracy == pytest.approx(opened.initially_correct.mean())
    assert b.slope > 0
    if b.rehearsed_acc_err_init > 0.1 and b.rehearsed_acc_dis > 0.3:
        assert b.slope == pytest.approx(b.rehearsed_acc_dis / b.rehearsed_acc_err_init)


def test_a_step_measures_against_the_same_held_out_rows() -> None:
    data, test = problem()
    method = METHODS["retrain"](Settings())
    opened = open_pipeline(method, data, test, NAMES, np.random.default_rng(0))
    held_out = np.arange(50, 300)
    deleted = np.flatnonzero(data.codes == 1)[:200]
    made = step(opened, deleted, held_out, np.random.default_rng(0))
    f = made.facts
    assert f.deleted == 200
    assert f.initial_accuracy == pytest.approx(opened.initially_correct[50:].mean())
    assert f.acc_err_init == pytest.approx(sape(f.initial_accuracy, f.accuracy))
    assert f.estimate == pytest.approx(opened.baseline.slope * f.acc_err_init)
    assert data.n_remaining == 600  # nothing was changed


def test_an_emptied_class_is_a_fact_and_not_an_unlearning() -> None:
    data, test = problem()
    method = METHODS["fisher"](Settings())
    opened = open_pipeline(method, data, test, NAMES, np.random.default_rng(0))
    everyone = np.flatnonzero(data.codes == 1)
    made = step(opened, everyone, np.arange(300), np.random.default_rng(0))
    assert made.facts.emptied == ("b",)
    assert made.state is opened.state


def test_a_baseline_is_kept_as_plain_numbers() -> None:
    baseline = Baseline(
        rows=10,
        accuracy=0.5,
        slope=2.0,
        theta=0.45,
        rehearsed_acc_dis=1.0,
        rehearsed_acc_err_init=0.5,
    )
    assert Baseline.of(baseline.as_dict()) == baseline


def rare(n: int = 4000, seed: int = 1) -> tuple[CpuEngine, Rows]:
    """One row in nine is positive, and hard to tell."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 1500, 6))
    score = X @ [0.6, -0.5, 0.4, 0, 0, 0] - 2.3 + rng.logistic(size=n + 1500)
    y = (score > 0).astype(np.int32)
    return CpuEngine(Rows(X[:n], y[:n], True), 2), Rows(X[n:], y[n:], True)


@pytest.mark.parametrize(("share", "seen"), [(0.6, True), (0.0, False)])
def test_most_of_a_rare_class_is_seen_and_one_row_is_not(share: float, seen: bool) -> None:
    data, test = rare()
    method = METHODS["fisher"](Settings(), refine=True)
    opened = open_pipeline(method, data, test, NAMES, np.random.default_rng(0))
    positive = np.flatnonzero(data.codes == 1)
    deleted = positive[: max(1, int(share * len(positive)))]
    held_out = np.arange(len(test))
    before = replace(opened, state=method.prepare(opened.state, data))
    made = step(before, deleted, held_out, np.random.default_rng(0))
    facts = measured(made, before, deleted, held_out, since=0.0).facts
    assert facts.accuracy is not None
    assert facts.majority == pytest.approx(facts.accuracy, abs=0.01)  # it names one class only
    assert not Disparity(1.0).decide(facts).retrain  # whatever is forgotten
    assert Distance(5.0).decide(facts).retrain == seen
    assert LogLoss(0.02).decide(facts).retrain == seen
    exact = retrain(method, _without(data, deleted)).weights
    goal = np.linalg.norm(made.state.weights - exact) / np.linalg.norm(made.state.weights)
    assert facts.distance is not None
    assert facts.distance == pytest.approx(goal, rel=0.5, abs=1e-4)


def test_a_log_loss_that_was_noted_is_the_one_that_would_be_found() -> None:
    data, test = rare()
    method = METHODS["fisher"](Settings(), refine=True)
    opened = open_pipeline(method, data, test, NAMES, np.random.default_rng(0))
    everyone = np.arange(len(test))
    now = replace(opened, state=method.prepare(opened.state, data))
    for deleted, held_out in (
        (np.array([3, 4]), everyone),
        (np.array([5]), everyone),  # the one before has noted it
        (np.array([6, 7]), everyone[9:]),  # of other rows
        (np.array([8]), everyone[9:]),
    ):
        made = step(now, deleted, held_out, np.random.default_rng(0))
        found = measured(made, now, deleted, held_out, since=0.1)
        forgetful = replace(now, test=TestScores(now.test.rows))
        assert found.facts == measured(made, forgetful, deleted, held_out, since=0.1).facts
        data.forget(deleted)
        now = replace(now, state=found.state)


def _without(data: CpuEngine, deleted: np.ndarray) -> CpuEngine:
    other = data.shared()
    other.forget(deleted)
    return other


def test_a_log_loss_that_did_not_change_neither_rose_nor_fell() -> None:
    facts = replace(FACTS, log_loss_change=0.0)
    assert LogLoss(0.01).decide(facts).reason == "log-loss has not changed since training"
