"""`unfit bench` with the engine "dask", and its section on a cluster of this machine."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

import clusters
from unfit.cli import app

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def bench(output: Path, *words: str):
    return CliRunner().invoke(app, ["bench", *words, "--output", str(output)])


def test_a_section_that_walks_through_rows_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("UNFIT_DASK", "tcp://127.0.0.1:1")
    found = bench(tmp_path / "b.json", "--quick", "--engine", "dask", "--section", "deltagrad")
    assert found.exit_code != 0
    assert "the engine 'dask' does not walk through rows" in found.stderr
    assert "it cannot run the section 'deltagrad'" in found.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_all_other_sections_run_on_a_cluster(monkeypatch, tmp_path):
    output = tmp_path / "b.json"
    with clusters.local(tmp_path / "workers") as running:
        monkeypatch.setenv("UNFIT_DASK", running.address)
        found = bench(output, "--quick", "--engine", "dask", "--dataset", "digits")
    assert found.exit_code == 0, found.output
    assert "left out, because the engine 'dask' does not walk through rows" in found.stderr
    sections = {row["section"] for row in json.loads(output.read_text())["rows"]}
    assert {"forgetting", "stream", "noise", "fit", "scaling"} <= sections
    assert not sections & {"accuracy", "training", "deltagrad", "batches", "memory"}


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_the_section_on_a_cluster():
    from benchmarks.cluster import cluster

    rows = list(cluster(20_000))
    assert [row.what for row in rows][:2] == ["values and gradients", "product with the Hessian"]
    assert all(row.ratio > 0 for row in rows)
