"""The study on sparse rows: Figure 3's runs, the same as by hand and as of dense rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unfit.core.metrics import accuracy
from unfit.core.predictions import predict
from unfit.data.catalog import find, prepared
from unfit.data.catalog.entries import clicks
from unfit.experiments import timing
from unfit.experiments.figures.tradeoffs import SPARSE_SPEED, efficiency_certifiability
from unfit.experiments.findings import Findings, subject_of
from unfit.experiments.plans import Effort, plans
from unfit.experiments.runs import Runs
from unfit.experiments.tables import speed_ups
from unfit.experiments.tasks import groups, run_group
from unfit.experiments.workbench import Workbench
from unfit.methods import METHODS, Settings


@pytest.fixture(scope="module")
def sparse_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A click log of 600 rows and 2,048 columns."""
    folder = tmp_path_factory.mktemp("sparse")
    patch = pytest.MonkeyPatch()
    patch.setenv("UNFIT_CACHE", str(folder / "cache"))
    entry = replace(
        find("clicks"),
        name="few-clicks",
        prepare=lambda raw: clicks.generate(600, 11, 12),
        volumes=(0.01, 0.02, 0.05),
        speed_only=False,
    )
    yield Workbench(prepared.prepare(entry), folder / "models")
    patch.undo()


@pytest.mark.slow
def test_a_run_on_sparse_rows_is_what_the_method_does_by_hand(sparse_bench: Workbench) -> None:
    assert sparse_bench.sparse
    assert sparse_bench.engine.name == "sparse"
    np.testing.assert_allclose(sparse_bench.norms, 1, rtol=1e-6)
    runs = list(plans()["efficiency-certifiability"].runs(sparse_bench, Effort(1, 2)))
    assert {run.method for run in runs} == {"fisher", "influence"}  # DELTAGRAD walks through rows
    run = next(
        r
        for r in runs
        if (r.kind, r.method, r.tau, r.fraction) == ("unlearn", "fisher", "m", 0.05)
        and r.sigma == 0
    )
    ((_, row),) = run_group(sparse_bench, [run])
    deletion = sparse_bench.deletion(run.law, run.fraction, run.seed)
    method = METHODS["fisher"](Settings(solver="newton"))
    engine, rng = sparse_bench.engine, np.random.default_rng(0)
    updated = method.unlearn(method.train(engine, rng), engine, deletion.rows, rng)
    data = sparse_bench.data
    assert row["acc_test_unlearned"] == accuracy(predict(data.X_test, updated.weights), data.y_test)
    dense = Workbench(data.dense(), Path(sparse_bench._models.parent / "dense"))
    assert not dense.sparse
    np.testing.assert_allclose(dense.optimum(deletion), sparse_bench.optimum(deletion), atol=1e-7)


@pytest.mark.slow
def test_figure_3_is_drawn_of_sparse_rows(
    sparse_bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "ENOUGH", 0.0)
    plan = plans()["efficiency-certifiability"]
    wanted = [r for r in plan.runs(sparse_bench, Effort(1, 2)) if r.tau in ("m", "m/8")]
    runs = Runs(tmp_path)
    for group in groups(wanted):
        for run, measures in run_group(sparse_bench, group):
            runs.add(run, measures)
    findings = Findings(runs.frame(), (subject_of(sparse_bench.data),))
    timed = findings.timings
    assert (timed["seconds_unlearn"] > 0).all()
    assert (timed["seconds_retrain_sgd"] > 0).all()
    figure = efficiency_certifiability(findings)
    labels = {axis.get_xlabel() for axis in figure.axes} | {t.get_text() for t in figure.texts}
    assert any(SPARSE_SPEED in label for label in labels | {str(figure.get_supxlabel())})
    table = speed_ups(findings)
    assert len(table.rows) == 4
    assert "Of sparse rows, SGD is a training from nothing" in table.note


def test_streams_and_stored_runs_are_left_out(sparse_bench: Workbench) -> None:
    for name in ("pipeline", "beyond", "streams", "published-streams"):
        assert list(plans()[name].runs(sparse_bench, Effort(1, 2))) == []


def test_few_columns_are_studied_as_dense_rows(sparse_bench: Workbench, tmp_path: Path) -> None:
    narrow = replace(sparse_bench.data, X=sparse_bench.data.X[:, :500])
    narrow = replace(narrow, X_test=sparse_bench.data.X_test[:, :500])
    bench = Workbench(narrow, tmp_path)
    assert not bench.sparse
    assert bench.engine.name == "cpu"
