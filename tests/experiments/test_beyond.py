"""Certified unlearning beside the methods of the paper, on a data set that needs no file."""

from pathlib import Path

import numpy as np
import pytest

from unfit.certify.accountant import mu_of
from unfit.data import catalog
from unfit.experiments.beyond import beyond
from unfit.experiments.plans import CERTIFIED, Effort, plans
from unfit.experiments.workbench import Workbench


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, float], dict]:
    """The runs of the middle volume, by method and sigma."""
    models: Path = tmp_path_factory.mktemp("models")
    workbench = Workbench(catalog.load("breast-cancer"), models)
    wanted = list(plans()["beyond"].runs(workbench, Effort(seeds=1)))
    fractions = sorted({run.fraction for run in wanted})
    assert len(fractions) == 5
    assert fractions[0] == pytest.approx(1 / workbench.data.n)
    runs = [run for run in wanted if run.fraction == fractions[3]]
    return {(run.method, run.sigma): measures for run, measures in beyond(workbench, runs)}


@pytest.mark.slow
def test_certified_releases_keep_what_they_claim_and_lose_nothing(found) -> None:
    ours = found[CERTIFIED, 1e-3]
    assert 0 < ours["mu"] <= mu_of(1.0, 1e-5)
    assert ours["epsilon_found"] <= ours["epsilon_claimed"] == 1.0
    assert ours["acc_err"] < 0.5
    assert ours["acc_dis"] < 1.0


@pytest.mark.slow
def test_the_papers_methods_are_measured_with_their_own_noise(found) -> None:
    for method in ("fisher", "influence", "deltagrad"):
        small, large = found[method, 1.0], found[method, 100.0]
        assert large["acc_err"] > small["acc_err"]  # noise costs accuracy
        assert large["acc_err"] > 5
        assert small["deleted"] == large["deleted"]
        assert np.isfinite(small["mu"])
    assert found["deltagrad", 1.0]["label"] == "audited only"
    assert found["deltagrad", 1.0]["mu"] == pytest.approx(100 * found["deltagrad", 100.0]["mu"])
    assert found["deltagrad", 1.0]["epsilon_claimed"] is None
    assert "Guo 2020" in found["influence", 1.0]["label"]
    assert found["fisher", 1.0]["label"].startswith("heuristic noise as published")
