"""Erased means erased: planted bytes are found nowhere once they were forgotten."""

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from workspaces import Kept, make, signature

import people
import servers
from tiers import mostly_slow
from unfit.methods import METHODS
from unfit.workspace import Workspace

SUBJECT, RECORD, CITY, LABEL = "Canary-Subject-7Q", "canary-record-Zx", "Canary City", "canarylabel"
AGE, INCOME = 41.7251, 31.415926
OLD = 77.7251  # without whom the mean, rounded, is another
SPEEDS = {"epochs = 200": "epochs = 5", "batch_size = 512": "batch_size = 64"}


def table_with_canaries(label: str, age: float = AGE) -> pa.Table:
    """Two rows of one person whose every value is a pattern of its own."""
    table = people.people()
    planted = pa.table(
        {
            "person": [SUBJECT] * 2,
            "record": [f"{RECORD}{i}" for i in range(2)],
            "age": [age] * 2,
            "income": [INCOME] * 2,
            "member": [True] * 2,
            "plan": ["pro"] * 2,
            "city": [CITY] * 2,
            "label": [label] * 2,
        },
        schema=table.schema,
    )
    return pa.concat_tables([table.slice(0, 200), planted, table.slice(200)])


def patterns(ws: Workspace, label: str, age: float = AGE) -> dict[str, bytes]:
    """What to look for, encoded features included, taken before anything is forgotten."""
    with ws.session() as session:
        dataset = session.dataset()
        rows = dataset.subject_rows(SUBJECT)
        assert rows is not None
        assert len(rows) == 2
        values, X = dataset["values"][rows[0]], dataset["X"][rows[0]]
        scaled = {f"X{j}": x.tobytes() for j, x in enumerate(X[:2])}
    names = {"subject": SUBJECT, "record": RECORD, "city": CITY}
    if label == LABEL:
        names["label"] = LABEL
    texts = {name: text.encode() for name, text in names.items()}
    raw = {f"raw{j}": values[j].tobytes() for j in range(2)}
    wide = {f"f8 {v}": struct.pack("<d", v) for v in (age, INCOME)}
    shown = {f"text {v}": str(v).encode() for v in (age, INCOME)}
    return texts | raw | wide | shown | scaled


def found(folder: Path, wanted: dict[str, bytes]) -> dict[str, list[str]]:
    """Which patterns lie in which files."""
    hits: dict[str, list[str]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = path.read_bytes()
        for name, pattern in wanted.items():
            if pattern in content:
                hits.setdefault(name, []).append(str(path.relative_to(folder)))
    return hits


def quick(text: str) -> str:
    for old, new in SPEEDS.items():
        text = text.replace(old, new)
    return text


# Every method unlearns in the quick tier; that constants lead to a retraining is the same for all.
OUTCOMES = {"unlearned": ("yes", AGE), "class emptied": (LABEL, AGE), "mean changed": ("yes", OLD)}
CASES = [(method, outcome) for method in METHODS for outcome in OUTCOMES]
QUICK = [case for case in CASES if case[0] == "fisher" or case[1] == "unlearned"]


@pytest.mark.parametrize("case", mostly_slow(CASES, QUICK), ids="-".join)
def test_canaries_are_gone(
    case: tuple[str, str], database: servers.Server | None, tmp_path: Path
) -> None:
    method, (label, age) = case[0], OUTCOMES[case[1]]
    kept = make(
        tmp_path / "w",
        database,
        table=table_with_canaries(label, age),
        method=method,
        edit=quick,
        test_share=0.1,
    )
    with kept.open() as ws:
        wanted = patterns(ws, label, age)
        before = found(kept.folder, wanted)
        assert set(before) >= {"subject", "record", "city", "raw0", "raw1", "X0", "X1"}
        made = ws.forget(subjects=[SUBJECT])
        assert made.rows == 2
        assert made.purged
        assert made.action == ("retrain" if label == LABEL or age == OLD else "update")
        assert ("'age' changed" in made.reason) == (age == OLD)
        assert found(kept.folder, wanted) == {}  # also while the workspace is open
        ws.audit()
        ws.prepare()
    assert found(kept.folder, wanted) == {}
    assert SUBJECT in (tmp_path / "w" / "ws.forgotten").read_text()
    key = bytes.fromhex((tmp_path / "w" / "ws.forgotten.key").read_text())  # to digests of ids
    assert found(kept.folder, {"key": key, "text": key.hex().encode()}) == {}
    if kept.database is not None:
        assert _rows_in_tables(kept, wanted) == {}


def _rows_in_tables(kept: Kept, wanted: dict[str, bytes]) -> dict[str, list[str]]:
    """Looks into the files of every table of ours, after VACUUM FULL."""
    import psycopg

    assert kept.database is not None
    assert kept.name is not None
    hits: dict[str, list[str]] = {}
    with psycopg.connect(kept.database.url(kept.name), autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        connection.execute("CHECKPOINT")
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        for (name,) in tables:
            (path,) = connection.execute(f"SELECT pg_relation_filepath('{name}')").fetchone()
            content = (kept.database.folder / "data" / path).read_bytes()
            for what, pattern in wanted.items():
                if pattern in content:
                    hits.setdefault(what, []).append(name)
    return hits


def test_rows_are_kept_for_the_audit_window_in_one_place_and_no_longer(tmp_path: Path) -> None:
    window = ('audit_window = "none"', 'audit_window = "30d"')
    kept = make(
        tmp_path / "w",
        None,
        table=table_with_canaries("yes"),
        test_share=0.1,
        edit=lambda text: text.replace(*window),
    )
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    with Workspace(kept.folder, clock=lambda: moment) as ws:
        wanted = patterns(ws, "yes")
        ws.forget(subjects=[SUBJECT])
        files = {name for places in found(kept.folder, wanted).values() for name in places}
        assert files == {"retained/2.parquet"}
        assert "subject" not in found(kept.folder, wanted)  # rows, not who they were
        assert "record" not in found(kept.folder, wanted)
        report = ws.audit()
        assert report.deleted_from == "the audit window"
        assert report.n_available == 2
        assert report.audit.acc_dis is not None
        moment += timedelta(days=29)
        ws.forget(subjects=["p0001"])
        assert ws.audit().n_available > 2
        moment += timedelta(days=2)  # the first window is over, the second is not
        ws.audit()
        assert found(kept.folder, wanted) == {}
        assert [p.name for p in (kept.folder / "retained").iterdir()] == ["3.parquet"]


def test_a_category_nobody_holds_is_retired_and_predictions_go_on(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, table=table_with_canaries("yes"), test_share=0.1)
    asked = people.write(table_with_canaries("yes").slice(195, 10), tmp_path / "new.csv")
    with kept.open() as ws:
        assert ws.predict(asked).unseen == 0
        before = ws.predict(asked).table["p_yes"].to_numpy()
        ws.forget(subjects=[SUBJECT])
        after = ws.predict(asked)
        assert after.unseen == 2  # the canaries' own city
        others = np.r_[0:5, 7:10]
        np.testing.assert_allclose(
            after.table["p_yes"].to_numpy()[others], before[others], atol=0.05
        )
        again = ws.retrain()
        assert again.kind == "retrained"
        assert ws.active_model().card.encoding.columns[-1].categories.count(None) == 0


def test_the_files_of_superseded_versions_are_removed(workspace: Workspace) -> None:
    for subject in ("p0001", "p0002", "p0003"):
        workspace.forget(subjects=[subject])
    workspace.retrain()
    workspace.prepare()
    found = signature(workspace)
    assert len(found["artifacts"]) == 3
    assert len(found["data"]) == 1
    assert all(v.model_sha is None for v in workspace.store.versions.find()[:-1])


def test_a_reader_delays_the_purge_and_loses_nothing(tmp_path: Path) -> None:
    import sqlite3

    kept = make(tmp_path / "w", None)
    with kept.open() as ws:
        ws.store.database.engine.dispose()
        from unfit.store import connections

        seconds, connections.BUSY_SECONDS = connections.BUSY_SECONDS, 0.2
        try:
            with Workspace(kept.folder) as impatient:
                reader = sqlite3.connect(kept.folder / "unfit.db")
                reader.execute("BEGIN")
                reader.execute("SELECT * FROM models").fetchall()
                made = impatient.forget(subjects=["p0001"])
                assert made.rows > 0
                assert not made.purged
                assert impatient.status().purge_due
                reader.close()
                impatient.audit()
                assert not impatient.status().purge_due
        finally:
            connections.BUSY_SECONDS = seconds
