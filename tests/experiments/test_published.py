"""What stands beside published values is made as was published: laws, scaling, steps, streams."""

from dataclasses import replace

import numpy as np
import pytest

from unfit.core.metrics import sape
from unfit.data.catalog import CATALOG, Parts, Prepared, Training
from unfit.data.catalog.entries import cifar2, mnist
from unfit.estimator import LogisticRegression
from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.plans import Effort, plans
from unfit.experiments.positions import Course, counts_of
from unfit.experiments.run import Run
from unfit.experiments.tasks import run_group
from unfit.methods import METHODS, Settings


def test_two_digits_are_scaled_by_the_largest_norm_of_all_ten():
    rng = np.random.default_rng(0)
    raw = {}
    for part, n in (("train", 60), ("test", 20)):
        raw[f"x_{part}"] = rng.integers(0, 256, (n, 784)).astype(np.uint8)
        raw[f"y_{part}"] = np.arange(n) % 10
    raw["x_train"][5] = 255  # a five
    ten, two = mnist.ten(raw), mnist.three_eight(raw)
    kept = np.isin(raw["y_train"], (3, 8))
    np.testing.assert_array_equal(two.X, ten.X[kept])
    np.testing.assert_array_equal(two.X_test, ten.X_test[np.isin(raw["y_test"], (3, 8))])
    assert np.linalg.norm(two.X, axis=1).max() < 0.95
    assert np.linalg.norm(ten.X, axis=1).max() == pytest.approx(1)


def test_cats_and_ships_are_scaled_by_the_norm_of_all_ten_classes():
    raw = {"x_train": np.full((4, 3072), 255, np.uint8), "y_train": np.array([3, 8, 3, 8])}
    raw |= {"x_test": raw["x_train"], "y_test": raw["y_train"]}
    parts = cifar2.prepare(raw)
    assert np.linalg.norm(parts.X[0]) == pytest.approx(np.sqrt(3072) / 54.77, rel=1e-5)


def test_a_subset_of_higgs_is_trained_for_as_many_steps_as_the_whole():
    entry = CATALOG["higgs"]
    assert entry.intercept
    assert entry.theta == 0.35
    whole = entry.training.steps(entry.rows)
    assert whole == 386_720
    y = np.arange(84_627) % 2
    rows = np.zeros((84_627, 1), np.float32)
    subset = Prepared(entry, **Parts(rows, y, rows[:2], y[:2]).arrays())
    assert subset.training.epochs == 2330
    assert subset.training.steps(84_627) == pytest.approx(whole, rel=0.001)
    assert Training(20, 512, 5).for_subset(400, 400).epochs == 20


def test_mnist_s_estimate_is_judged_at_the_published_fractions():
    class Ten:
        name, sparse = "mnist", False

        class data:  # noqa: N801
            entry, n = CATALOG["mnist"], 60_000

        def most(self, law):
            return 0.1021

    for name in ("correlation", "estimator-error"):
        runs = list(plans()[name].runs(Ten(), Effort()))
        assert sorted({run.fraction for run in runs}) == [0.01, 0.05, 0.1]


def test_noise_in_every_mini_batch_stands_beside_published_values(workbench):
    fisher = CONTENDERS["fisher"]
    assert workbench.method(fisher, 1.0, "m/8", 40).settings.noise_per_batch
    assert not workbench.method(fisher, 1.0, "m/8", 40, "product").settings.noise_per_batch
    case = ("unlearn", "tiny", "targeted-informed", 0.1, "fisher")
    for sigma, alike in ((0.0, True), (10.0, False)):
        runs = [Run(*case, "m/8", sigma, manner=manner) for manner in ("-", "product")]
        one, other = (row["distance"] for _, row in run_group(workbench, runs))
        assert (one == other) is alike  # without noise there is one manner


def test_mini_batches_follow_the_order_given(workbench):
    """The largest norm first: another order of the same rows is another path."""
    rows = workbench.deletion("targeted-informed", 0.2, 0).rows
    norms = workbench.norms[rows]
    assert (np.diff(norms) <= 0).all()
    assert (np.diff(rows) < 0).any()
    settings = Settings(solver="sgd", epochs=5, batch_size=32, deletion_batch_size=10)
    method = METHODS["influence"](settings)
    state = method.train(workbench.engine, np.random.default_rng(0))
    by_hand, data = state, workbench.engine.shared()
    for start in range(0, len(rows), 10):
        batch = rows[start : start + 10]
        by_hand = method.unlearn(by_hand, data, batch, np.random.default_rng(0))
        data.forget(batch)
    once = method.unlearn(state, workbench.engine, rows, np.random.default_rng(0))
    np.testing.assert_allclose(once.weights, by_hand.weights, rtol=1e-6)
    other = method.unlearn(state, workbench.engine, np.sort(rows), np.random.default_rng(0))
    assert np.abs(other.weights - once.weights).max() > 1e-3 * np.abs(once.weights).max()


def test_the_estimator_s_mini_batches_follow_the_order_given():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 5))
    y = (X @ np.ones(5) + rng.standard_normal(400) > 0).astype(int)
    rows = np.flatnonzero(y == 0)
    rows = rows[np.argsort(-np.linalg.norm(X[rows], axis=1))][:60]
    given, split, shuffled = (
        LogisticRegression("influence", l2=1e-3, deletion_batch_size=10).fit(X, y) for _ in range(3)
    )
    for start in range(0, 60, 10):
        split.unlearn(rows[start : start + 10])
        split._state = replace(split._state, stream=None)  # no request before this one
    np.testing.assert_allclose(given.unlearn(rows).coef_, split.coef_, rtol=1e-8)
    assert np.abs(shuffled.unlearn(np.sort(rows)).coef_ - given.coef_).max() > 1e-4


def test_published_streams_are_read_with_their_positions():
    found = {(s.dataset, s.law, s.threshold): s for s in published.streams()}
    stream = found["mnist-b", "targeted-informed", 0.5]
    assert stream.positions == (2500, 3200, 3600, 4000, 4300, 4493)
    assert (stream.batch, stream.fraction) == (100, 0.375)
    assert len(found["covtype", "targeted-informed", 5.0].positions) == 4
    assert counts_of(Course(0.375, 100), 11_982)[-2:] == [4400, 4493]
    assert len(counts_of(Course(0.2, 100), 10_000)) == 20


def test_a_stream_retrains_where_the_rule_says(workbench):
    """Both manners against the rule applied by hand to models made one after the other."""
    runs = [
        Run("positions", "tiny", "targeted-informed", method="fisher", policy=policy, manner=manner)
        for policy in ("0.5%", "1000%")
        for manner in ("published", "rehearsed", "product")
    ]
    rows = dict(run_group(workbench, runs))
    slope = rows[runs[0]]["slope"]
    counts = counts_of(Course(0.2, 4), workbench.data.n)
    order = workbench.deletion("targeted-informed", 0.2, 0).rows
    method = workbench.method(CONTENDERS["fisher"], 0.0)
    for manner in ("published", "rehearsed", "product"):
        state = workbench.trained_by(CONTENDERS["fisher"], 0.0, 0)
        data, gone, where = workbench.engine.shared(), 0, []
        reference = workbench.accuracy(state.weights)
        for count in counts:
            state = method.unlearn(state, data, order[gone:count], np.random.default_rng(0))
            data.forget(order[gone:count])
            gone = count
            if slope * sape(reference, workbench.accuracy(state.weights)) > 0.5:
                where.append(count)
                deletion = workbench.deletion("targeted-informed", count / workbench.data.n, 0)
                weights = workbench.retrained(deletion)
                reference = workbench.accuracy(weights)
                if manner == "product":
                    state = type(state)("fisher", weights, data.n_remaining)
        (row,) = (row for run, row in rows.items() if run.manner == manner and run.policy == "0.5%")
        assert row["positions"] == " ".join(map(str, where))
        assert row["retrainings"] == len(where) > 0
        (never,) = (
            row for run, row in rows.items() if run.manner == manner and run.policy == "1000%"
        )
        assert never["retrainings"] == 0
    ends = {row["acc_test_unlearned"] for run, row in rows.items() if run.manner == "published"}
    assert len(ends) == 1  # as published: the same unlearned model whatever the threshold
