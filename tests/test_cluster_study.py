"""tools/cluster_study.py: what docs/scaling.md states is measured by code that measures it."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import cluster_study  # noqa: E402

N = 30_000


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["cluster_study.py", *words])
    cluster_study.main()


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_the_cluster_and_one_process_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "rows")
    run(monkeypatch, "make", folder, "--rows", str(N))
    for what in ("cluster", "one", "compare"):
        capsys.readouterr()
        run(monkeypatch, what, folder)
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == [N, N]
    assert found["forget_1_weights"] <= 1e-8
    assert found["forget_10000_weights"] <= 1e-8
    ours = json.loads((tmp_path / "rows" / "cluster.json").read_text())
    assert ours["forget_1_shards"] == [1, 6]
    assert len(ours["workers_mb"]) == 2


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_killed_workers_change_no_weight(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    cluster_study.make(folder, N)
    found = cluster_study.killed(folder, None, times=2)
    assert found["kills"] >= 2
    assert found["worst_distance"] <= 1e-8
