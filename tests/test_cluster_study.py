"""tools/cluster_study.py and cluster_faults.py: what docs/scaling.md states is measured by code
that measures it."""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import cluster_faults  # noqa: E402
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
    assert ours["forget_1"]["shards_held"] == [1] * 5
    assert ours["forget_1"]["shards_mapped"] == [1] * 5
    assert len(ours["memory_mb"]["workers"]) == 2


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_growth_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder, picture = str(tmp_path / "rows"), tmp_path / "growth.png"
    run(monkeypatch, "make", folder, "--rows", str(N))
    run(monkeypatch, "growth", folder)
    capsys.readouterr()
    run(monkeypatch, "draw", folder, "--picture", str(picture))
    found = json.loads(capsys.readouterr().out)
    assert picture.read_bytes().startswith(b"\x89PNG")
    measured = json.loads((tmp_path / "rows" / "growth.json").read_text())
    assert [int(n) for n in measured] == [N // 4, N // 2, N]
    for name, line in found.items():
        for n, one in measured.items():
            expected = line["s_per_million_rows"] * int(n) / 1e6 + line["fixed_s"]
            most = max(each[name] for each in measured.values())
            assert abs(expected - one[name]) <= line["off"] * most * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_killed_workers_change_no_weight(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    cluster_study.make(folder, N)
    found = cluster_faults.worker_killed(folder, None, times=2)
    assert found["kills"] == 2
    assert found["worst_distance"] <= 1e-8


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_a_worker_that_is_not_heard_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_faults, "TTL", 2)
    monkeypatch.setattr(cluster_faults, "SILENT", 6)
    folder = tmp_path / "rows"
    cluster_study.make(folder, N)
    found = cluster_faults.partitioned(folder, None, times=1)
    assert found["tries"][0]["distance"] <= 1e-8


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_the_error_of_a_hessian_in_float32_is_below_what_is_allowed_for(tmp_path: Path) -> None:
    from unfit.methods.foresight import ROUGH

    folder = tmp_path / "rows"
    cluster_study.make(folder, N)
    found = cluster_study.rough(folder, None)
    assert 0 < found["off"] < ROUGH[cluster_study.np.dtype("float32")]


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_a_killed_scheduler_is_a_sentence_and_the_next_try_ends(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    cluster_study.make(folder, N)
    found = cluster_faults.scheduler_killed(folder, None, times=1)
    for one in found["tries"]:
        assert re.fullmatch(
            r"Unavailable: (no Dask scheduler answers at|the scheduler at) .*", one["said"]
        )
        assert one["again"] <= 1e-8
