"""Streams of batches: a refit is a refit, and every policy pays for what it does."""

from dataclasses import replace
from time import sleep

import numpy as np
import pytest

from unfit.core.metrics import accuracy
from unfit.core.predictions import predict
from unfit.experiments import streaming, unlearners
from unfit.experiments.run import Run
from unfit.experiments.streaming import REFIT, streams
from unfit.experiments.unlearners import STREAM, mean_gradient, unlearner_of
from unfit.methods import State
from unfit.methods.running_guide import RunningGuide

FRACTIONS = (0.05, 0.1, 0.2)


@pytest.fixture(scope="module", params=["fisher", "newton"])
def rows(workbench, request):
    """What each policy came to, batch by batch."""
    method = request.param
    runs = [
        Run("stream", "tiny", "targeted-random", fraction, method, policy=policy, step=step)
        for policy in ("always", REFIT, "never", "0%")
        for step, fraction in enumerate(FRACTIONS, 1)
    ]
    found = {}
    for run, row in streams(workbench, runs):
        found.setdefault(run.policy, []).append(row)
    return found


def test_a_warm_refit_is_the_optimum_of_what_remains(workbench, rows):
    for fraction, row in zip(FRACTIONS, rows[REFIT], strict=True):
        deletion = workbench.deletion("targeted-random", fraction, 0)
        weights = workbench.optimum(deletion)
        labels = predict(workbench.data.X_test, weights)
        exact = accuracy(labels, np.asarray(workbench.data.y_test))
        assert row["acc_test_employed"] == pytest.approx(exact, abs=0.005)


def test_every_policy_pays_for_what_it_does(rows):
    for policy, each in rows.items():
        total = each[0]["seconds_rehearsal"] if policy == "0%" else 0.0
        for row in each:
            if policy not in ("always", REFIT):
                total += row["seconds_unlearn"] + row["seconds_prepare"]
            total += row["seconds_retrain"]
            assert row["seconds_total"] == pytest.approx(total)
    assert all(row["seconds_retrain"] == row["seconds_retrain_sgd"] for row in rows["always"])
    assert not any(row["seconds_retrain"] for row in rows["never"])
    assert any(row["retrained"] for row in rows["0%"])


def test_newton_keeps_up_with_retraining_and_is_never_prepared(workbench):
    runs = [
        Run("stream", "tiny", "targeted-random", fraction, "newton", policy="never", step=step)
        for step, fraction in enumerate(FRACTIONS, 1)
    ]
    for run, row in streams(workbench, runs):
        weights = workbench.optimum(workbench.deletion("targeted-random", run.fraction, 0))
        labels = predict(workbench.data.X_test, weights)
        exact = accuracy(labels, np.asarray(workbench.data.y_test))
        assert row["acc_test_employed"] == pytest.approx(exact, abs=0.005)
        assert row["seconds_prepare"] < 1e-4


@pytest.mark.parametrize("guided", [False, True])
def test_a_stream_stays_as_near_to_the_optimum_as_sgd(workbench, monkeypatch, guided):
    monkeypatch.setattr(unlearners, "_PASSES_SAVED", 100 if guided else 0)
    unlearner = unlearner_of(workbench, STREAM)
    assert unlearner.prepares == guided
    assert bool(unlearner.method.options.sample) == guided
    left_by_sgd = mean_gradient(workbench.engine, workbench.initial(0))
    assert unlearner.tol == unlearner.method.options.residual == pytest.approx(left_by_sgd)
    for policy in ("never", "0%"):
        runs = [
            Run("stream", "tiny", "targeted-random", fraction, STREAM, policy=policy, step=step)
            for step, fraction in enumerate(FRACTIONS, 1)
        ]
        found = list(streams(workbench, runs))
        assert len(found) == len(FRACTIONS)
        assert all(row["residual"] <= unlearner.tol for _, row in found)


def test_scores_are_those_of_the_weights_of_each_batch(workbench):
    """Batches are scored when the stream has ended: each by its own weights and rows."""
    unlearner = unlearner_of(workbench, "newton")
    retrained = [
        streaming.retrained_by_sgd(workbench, workbench.deletion("targeted-random", fraction, 0))
        for fraction in FRACTIONS
    ]
    opened = streaming.open_stream(workbench, unlearner, "targeted-random", 0)
    rows = streaming.under_policy(workbench, unlearner, opened, "always", retrained)
    for after, row in zip(retrained, rows, strict=True):
        assert row["deleted"] == len(after.deletion.rows)
        assert row["acc_test_employed"] == workbench.accuracy(after.weights)
        rest = workbench.without(after.deletion)
        assert row["residual"] == mean_gradient(rest, after.weights)


def test_weights_of_a_retraining_are_not_what_the_guide_has_seen():
    known = RunningGuide(inverses=[np.eye(2)], per_column=1, price=1.0, answered=3.0)
    known = replace(known, since=object())
    state = State("newton", np.ones((1, 2)), 9, running_guide=known)
    after = streaming._retrained(state, np.zeros((1, 2)))
    assert after.running_guide.since is None
    assert after.running_guide.answered == 3.0
    assert not after.weights.any()


@pytest.mark.parametrize(("policy", "pays"), [("never", True), ("0%", False)])
def test_the_first_preparing_is_paid_once(workbench, monkeypatch, policy, pays):
    """By whoever has not paid for it with a rehearsal."""
    unlearner = unlearner_of(workbench, "fisher")
    opened = streaming.open_stream(workbench, unlearner, "targeted-random", 0)
    retrained = [
        streaming.retrained_by_sgd(workbench, workbench.deletion("targeted-random", 0.05, 0))
    ]
    prepared = type(unlearner).prepared

    def slow(self, state, data):
        sleep(0.2)
        return prepared(self, state, data)

    monkeypatch.setattr(type(unlearner), "prepared", slow)
    (row,) = streaming.under_policy(workbench, unlearner, opened, policy, retrained)
    assert (row["seconds_prepare"] >= 0.4) == pays
    assert row["seconds_prepare"] >= 0.2
