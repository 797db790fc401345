"""A workspace whose sums are made by a cluster: the same weights, the same promises, no bytes."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certified import make_certified
from sparse_people import make_sparse
from test_purge import SUBJECT, found, patterns, table_with_canaries
from workspaces import Kept, make, signature

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

from pyarrow import parquet

import clusters
import people
from unfit.data.sources import Source
from unfit.data.sources.parquet_file import ParquetSource
from unfit.engines import Dask
from unfit.errors import BadInput, Damaged, Unavailable
from unfit.workspace import Workspace, prediction
from unfit.workspace.audit import Evidence, Report

GONE = ["p0003", "p0017"]


def on(cluster: clusters.Running, shards: int = 4) -> Callable[[str], str]:
    """unfit.toml of a workspace on a cluster."""
    return lambda text: text.replace(
        '[engine]\nname = ""', f'[engine]\nname = "dask"\naddress = "{cluster.address}"'
    ).replace("# shards = 12", f"shards = {shards}")


def moved(kept: Kept, cluster: clusters.Running) -> Kept:
    """A workspace made in one process, on a cluster from now on."""
    toml = kept.folder / "unfit.toml"
    toml.write_text(on(cluster)(toml.read_text()))
    assert '"dask"' in toml.read_text()
    return kept


def weights(ws: Workspace) -> np.ndarray:
    return ws.active_model().weights


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return bool(np.linalg.norm(ours - theirs) <= 1e-8 * np.linalg.norm(theirs))


@pytest.mark.parametrize(
    ("method", "kind"),
    [(m, "dense") for m in ("fisher", "influence", "newton", "retrain")] + [("fisher", "sparse")],
)
def test_the_same_versions_as_in_one_process(
    method: str, kind: str, cluster: clusters.Running, tmp_path: Path
) -> None:
    def made(name: str, edit: Callable[[str], str] | None) -> Kept:
        if kind == "sparse":
            return make_sparse(tmp_path / name, method=method, edit=edit)
        return make(tmp_path / name, None, method=method, edit=edit)

    ours, theirs = made("ours", on(cluster)), made("theirs", lambda text: text)
    with ours.open() as ws, theirs.open() as other:
        assert same(weights(ws), weights(other))
        for subject in GONE:
            done = [each.forget(subjects=[subject]) for each in (ws, other)]
            assert done[0].action == done[1].action
            assert done[0].purged
            assert same(weights(ws), weights(other))
        verdicts = [each.audit().audit.verdict for each in (ws, other)]
        assert verdicts[0] == verdicts[1]
        for each in (ws, other):
            each.retrain()
        assert same(weights(ws), weights(other))
    with ours.open() as ws:  # another process finds the same
        ws.forget(subjects=["p0020"])


def test_workers_read_encode_and_predict_at_once(
    cluster: clusters.Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, seen = people.people(n=900), []
    kept = [
        make(tmp_path / name, None, trained=False, table=table, edit=edit)
        for name, edit in (("ours", on(cluster)), ("theirs", lambda text: text))
    ]
    for one in kept:
        parquet.write_table(table, one.folder.parent / "people.parquet", row_group_size=100)
    with kept[0].open() as ws, kept[1].open() as other:
        ws.train(lambda *at: seen.append(at))
        other.train()
        read = [done for stage, done, _ in seen if stage == "reading"]
        assert (len(read), read[-1]) == (8, 900)  # nine row groups in eight parts
        assert same(weights(ws), weights(other))
        monkeypatch.setattr(prediction, "LARGE", 0)
        new = people.write(people.people(n=50, seed=2), tmp_path / "few.parquet")
        parquet.write_table(people.people(n=700, seed=2), new, row_group_size=60)
        cluster.kill(0)
        found = [each.predict(new) for each in (ws, other)]
    assert found[0].rows == found[1].rows == 700
    labels = [one.table["prediction"].to_pylist() for one in found if one.table is not None]
    assert labels[0] == labels[1]
    folders = [one.folder / "data" / "rows-1" for one in kept]
    for path in sorted(folders[1].iterdir()):
        assert (folders[0] / path.name).read_bytes() == path.read_bytes()


def test_a_file_that_workers_cannot_see_is_read_here(
    cluster: clusters.Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "LARGE", 0)
    kept = make(tmp_path / "w", None, edit=on(cluster))
    path = tmp_path / "new.parquet"
    parquet.write_table(people.people(n=300, seed=2), path, row_group_size=60)
    lost = ParquetSource.parts

    def elsewhere(self: ParquetSource, most: int) -> Sequence[Source]:
        parts = lost(self, most)
        for part in parts:
            part._path = Path("/nowhere/new.parquet")
        return parts

    monkeypatch.setattr(ParquetSource, "parts", elsewhere)
    with kept.open() as ws:
        assert ws.predict(path).rows == 300


def test_certified_versions(cluster: clusters.Running, tmp_path: Path) -> None:
    kept = make_certified(tmp_path / "w", edit=on(cluster))
    with kept.open() as ws:
        made = ws.forget(subjects=GONE)
        assert made.purged
        with ws.session() as session:
            releases = session.open_model().releases
        assert releases is not None
        assert ws.audit().audit.verdict.startswith("forgotten")


def test_canaries_are_gone_from_the_workspace_and_the_workers(
    cluster: clusters.Running, tmp_path: Path
) -> None:
    kept = make(
        tmp_path / "w", None, table=table_with_canaries("yes"), edit=on(cluster), test_share=0.1
    )
    with kept.open() as ws:
        wanted = patterns(ws, "yes")
        assert set(found(kept.folder, wanted)) >= {"subject", "raw0", "X0", "X1"}
        cluster.kill(0)
        made = ws.forget(subjects=[SUBJECT])
        assert made.rows == 2
        assert made.purged
        cluster.kill(1)
        ws.prepare()
        ws.audit()
        assert found(kept.folder, wanted) == {}
    assert found(kept.folder, wanted) == {}
    assert found(cluster.folder, wanted) == {}


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.2])
def test_a_worker_killed_in_an_audit(
    moment: float, cluster: clusters.Running, tmp_path: Path
) -> None:
    kept = moved(make(tmp_path / "w", None), cluster)
    with kept.open() as ws:
        ws.forget(subjects=GONE)
        before = weights(ws)
        killer = threading.Timer(moment, cluster.kill)
        killer.start()
        found = ws.audit().audit
        killer.join()
        assert found.verdict.startswith("forgotten")
        np.testing.assert_array_equal(weights(ws), before)


def test_an_audit_beside_an_erasure_begins_again(
    cluster: clusters.Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = moved(make(tmp_path / "w", None), cluster)
    weigh, gone = Evidence.weigh, [[name] for name in GONE]

    def weighed(self: Evidence, *args: Any) -> Report:
        if gone:
            ws.forget(subjects=gone.pop())
        return weigh(self, *args)

    monkeypatch.setattr(Evidence, "weigh", weighed)
    with kept.open() as ws:
        found = ws.audit()
        version = ws.store.versions.active()
        assert version is not None
        assert (found.version, gone) == (version.number, [])
        assert found.verdict.startswith("forgotten")
        gone += [[f"p00{i}{j}" for j in range(10)] for i in range(2, 5)]
        with pytest.raises(Unavailable, match="another version came while the audit read"):
            ws.audit()


def test_deltagrad_is_refused(cluster: clusters.Running, tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, method="deltagrad", trained=False, edit=on(cluster))
    with kept.open() as ws:
        with pytest.raises(Unavailable, match="engine 'dask' cannot"):
            ws.train()
        assert ws.store.versions.active() is None


def cut(folder: Path) -> None:
    os.truncate(folder / "X.bin", (folder / "X.bin").stat().st_size - 4)


def swap(folder: Path) -> None:
    content = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(content, indent=1))


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda folder: (folder / "X.bin").unlink(), "X.bin is missing"),
        (cut, "X.bin has .* bytes instead of"),
        (swap, "holds other rows than it did"),
    ],
    ids=["missing", "cut", "swapped"],
)
def test_a_shard_that_is_not_as_it_was_is_refused(
    harm: Callable[[Path], None], sentence: str, cluster: clusters.Running, tmp_path: Path
) -> None:
    kept = moved(make(tmp_path / "w", None, method="newton"), cluster)
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
        version = ws.store.versions.active()
        assert version is not None
        folder = ws.layout.generation(version.generation or "")
        shutil.copytree(folder, tmp_path / "safe")
        harm(folder)
        with pytest.raises(Damaged, match=sentence):
            ws.forget(subjects=["p0017"])
        assert ws.store.versions.active() == version
        shutil.copytree(tmp_path / "safe", folder, dirs_exist_ok=True)
    with kept.open() as ws:
        assert ws.forget(subjects=["p0017"]).purged


@pytest.mark.parametrize("name", ["dask", ""])
def test_settings_apply_to_the_cluster_that_the_environment_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = make(tmp_path / "w", None)
    toml = kept.folder / "unfit.toml"
    for old, new in (
        ('[engine]\nname = ""', f'[engine]\nname = "{name}"'),
        ("# shards = 12", "shards = 5"),
        ("allow_plaintext = false", "allow_plaintext = true"),
    ):
        assert old in toml.read_text()
        toml.write_text(toml.read_text().replace(old, new))
    monkeypatch.setenv("UNFIT_ENGINE", "dask")
    monkeypatch.setenv("UNFIT_DASK", "tcp://scheduler:8786")
    with kept.open() as ws, ws.session() as session:
        chosen = session.engine_choice()
        assert chosen == Dask("tcp://scheduler:8786", shards=5, allow_plaintext=True)


@pytest.mark.slow
def test_no_scheduler_is_a_sentence_and_changes_nothing(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    toml = kept.folder / "unfit.toml"
    away = '[engine]\nname = "dask"\naddress = "tcp://127.0.0.1:9"'
    toml.write_text(toml.read_text().replace('[engine]\nname = ""', away))
    with kept.open() as ws:
        before = signature(ws)["active"]
        with pytest.raises(Unavailable, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
            ws.forget(subjects=["p0003"])
        assert signature(ws)["active"] == before
        assert len(weights(ws)) == 1  # who predicts needs no cluster


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('name = "dask"\naddress = "tcp://10.0.0.7:8786"', "does not use TLS"),
        ('name = "dask"\naddress = "scheduler"', "is not the address of a Dask scheduler"),
        ('address = "tls://scheduler:8786"', 'set name = "dask"'),
    ],
)
def test_addresses_that_are_refused(lines: str, sentence: str, tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    toml = kept.folder / "unfit.toml"
    toml.write_text(toml.read_text().replace('[engine]\nname = ""', f"[engine]\n{lines}"))
    with kept.open() as ws, pytest.raises(BadInput, match=f"unfit.toml: engine.*{sentence}"):
        ws.forget(subjects=["p0003"])
