"""Runs against the same thing done by hand, and noise that is nobody else's."""

import numpy as np
import pytest

from unfit.core.metrics import accuracy, sape
from unfit.core.predictions import predict
from unfit.errors import BadInput
from unfit.experiments import timing
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.deletions import count_of
from unfit.experiments.plans import Effort, plans, read_plan
from unfit.experiments.runs import Run
from unfit.experiments.tasks import group_of, groups, run_group
from unfit.experiments.workbench import Workbench
from unfit.methods import METHODS, Settings


def unlearn(workbench, method, tau, sigma=0.0, fraction=0.1, seed=0):
    run = Run("unlearn", "tiny", "targeted-informed", fraction, method, tau, sigma, seed)
    ((_, row),) = run_group(workbench, [run])
    return row


def test_a_run_is_what_the_method_does_by_hand(workbench):
    row = unlearn(workbench, "fisher", "m/4")
    deletion = workbench.deletion("targeted-informed", 0.1, 0)
    settings = Settings(solver="sgd", epochs=5, batch_size=32, burn_in=5, deletion_batch_size=10)
    method = METHODS["fisher"](settings)
    state = method.train(workbench.engine, workbench.initial_randomness(0))
    np.testing.assert_array_equal(state.weights, workbench.initial(0))
    updated = method.unlearn(state, workbench.engine, deletion.rows, np.random.default_rng(0))
    data = workbench.data
    test = accuracy(predict(data.X_test, updated.weights), data.y_test)
    best = accuracy(predict(data.X_test, workbench.retrained(deletion)), data.y_test)
    assert row["deleted"] == 40
    assert row["acc_test_unlearned"] == test
    assert row["acc_err"] == sape(best, test)


def test_deltagrad_starts_from_the_model_that_all_share(workbench):
    state = workbench.trained_by(CONTENDERS["deltagrad"], 0.0, 0)
    np.testing.assert_allclose(state.weights, workbench.initial(0), rtol=1e-6)
    assert state.run is not None


def test_noise_is_drawn_anew_for_training_and_retraining(workbench):
    deletion = workbench.deletion("targeted-informed", 0.1, 0)
    nothing = workbench.deletion("targeted-informed", 0.0, 0)
    for contender in CONTENDERS.values():
        if contender.method.noise == "end":
            continue
        trained = workbench.trained_by(contender, 1.0, 0).weights - workbench.initial(0)
        again = workbench.trained_by(contender, 1.0, 0).weights - workbench.initial(0)
        np.testing.assert_allclose(trained, again, rtol=1e-9)  # the same run, the same noise
        other = workbench.trained_by(contender, 1.0, 1).weights - workbench.initial(1)
        retrained = workbench.retrained_by(contender, 1.0, deletion) - workbench.retrained(deletion)
        for noise in (other, retrained):
            assert np.linalg.norm(trained - noise) > 0.3 * np.linalg.norm(trained)
    assert len(nothing.rows) == 0


@pytest.mark.slow
def test_noise_at_the_end_shares_one_unlearning(workbench):
    runs = [
        Run("unlearn", "tiny", "targeted-informed", 0.1, "deltagrad", "T0=5", sigma)
        for sigma in (0.0, 0.1, 10.0)
    ]
    assert len(groups(runs)) == 1
    rows = [row for _, row in run_group(workbench, runs)]
    assert rows[2]["distance"] > 2 * rows[0]["distance"]
    fisher = [
        Run("unlearn", "tiny", "targeted-informed", 0.1, "fisher", "m", s) for s in (0.0, 1.0)
    ]
    assert len(groups(fisher)) == 2
    assert group_of(fisher[0]) != group_of(fisher[1])


def test_models_are_trained_once_and_found_on_disk(workbench):
    deletion = workbench.deletion("uniform-random", 0.2, 0)
    weights = workbench.retrained(deletion)
    files = {path: path.stat().st_mtime_ns for path in workbench._models.iterdir()}
    other = Workbench(workbench.data, workbench._models)
    np.testing.assert_array_equal(other.retrained(deletion), weights)
    assert files == {path: path.stat().st_mtime_ns for path in workbench._models.iterdir()}
    for path in files:
        path.write_bytes(b"cut off")  # what cannot be read is trained again
    np.testing.assert_array_equal(other.retrained(deletion), weights)


def test_a_deletion_beyond_the_law_is_all_there_is(workbench):
    most = workbench.most("targeted-random")
    runs = {
        run
        for run in plans()["deletion-laws"].runs(workbench, Effort())
        if run.law == "targeted-random" and run.seed == 0
    }
    assert max(run.fraction for run in runs) == pytest.approx(min(0.5, most))
    with pytest.raises(BadInput, match="cannot delete"):
        workbench.deletion("targeted-random", 0.9, 0)


def test_less_effort_is_a_part_of_the_whole(workbench):
    for plan in plans().values():
        whole = set(plan.runs(workbench, Effort()))
        some = set(plan.runs(workbench, Effort(1, 2)))
        kinds = ("stream",)  # a stream of fewer batches is another stream
        assert {run for run in some if run.kind not in kinds} <= whole


def test_a_wrong_plan_is_said_to_be_so():
    text = "kind: figure\ntitle: x\nruns:\n  - kind: {}\n    {}: [1]\n"
    with pytest.raises(BadInput, match=r"x\.yaml: unknown kind of run 'train2'"):
        read_plan("x", text.format("train2", "sigmas"))
    with pytest.raises(BadInput, match=r"x\.yaml: a run of kind train has no 'laws'"):
        read_plan("x", text.format("train", "laws"))


def test_few_rows_are_drawn_more_often(workbench):
    text = (
        "kind: table\ntitle: x\nruns:\n  - kind: retrain\n    laws: [uniform-random]\n"
        "    fractions: [0.01, 0.25]\n    seeds: 2\n    rows: 30\n"
    )
    for effort, most in ((Effort(), 99), (Effort(seeds=3), 3)):
        runs = list(read_plan("x", text).runs(workbench, effort))
        for fraction in (0.01, 0.25):
            each = count_of(fraction, workbench.data.n)
            seeds = [run.seed for run in runs if run.fraction == fraction]
            assert seeds == list(range(min(most, max(2, -(-30 // each)))))


@pytest.mark.parametrize("method", ["influence", "deltagrad"])
def test_slow_unlearning_is_timed_beside_sgd(workbench, method, monkeypatch):
    """Retraining is measured again, right after it, and only where the two take about as long."""
    asked = []
    by_sgd = timing._sgd

    def counted(*given):
        work = by_sgd(*given)
        return lambda: (asked.append(1), work())

    monkeypatch.setattr(timing, "_sgd", counted)
    monkeypatch.setattr(timing, "ENOUGH", np.inf)
    tau = CONTENDERS[method].taus[-1].name
    run = Run("timing", "tiny", "targeted-informed", 0.1, method, tau, 0.0, 0)
    for alike in (0, 10**9):
        asked.clear()
        monkeypatch.setattr(timing, "ALIKE", alike)
        ((_, row),) = run_group(workbench, [run])
        assert len(asked) == timing.AT_MOST * (2 if alike else 1)
        assert row["seconds_unlearn"] > 0
        assert row["seconds_retrain_sgd"] > 0
