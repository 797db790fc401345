"""What goes wrong between processes, backups and databases, one test each."""

import shutil
import sqlite3
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from workspaces import Kept, make, signature

import people
import servers
from unfit import points
from unfit.errors import BadInput, CannotTrain, Damaged, Unavailable
from unfit.workspace import Workspace, init


def held_out(ws: Workspace, count: int) -> list[str]:
    with ws.session() as session:
        d = session.dataset()
        places = np.unique(d["subjects"][d.n_train :])[:count]
        return [d.subject_ids.text(int(p)) or "" for p in places]


def test_a_lost_database_is_said_and_nothing_is_swept(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    for path in kept.folder.glob("unfit.db*"):
        path.unlink()
    before = sorted(str(p) for p in (kept.folder / "data").rglob("*"))
    with kept.open() as ws:
        for verb in (
            ws.audit,
            ws.retrain,
            ws.prepare,
            ws.train,
            lambda: ws.forget(subjects=["p0001"], dry_run=True),
        ):
            with pytest.raises(Damaged, match="database"):
                verb()
    assert sorted(str(p) for p in (kept.folder / "data").rglob("*")) == before


def test_another_process_that_forgot_held_out_people_is_noticed(tmp_path: Path) -> None:
    table = people.people()
    who = table["person"].to_pylist()
    with make(tmp_path / "a", None, table=table).open() as probe:
        first, second, third = held_out(probe, 3)
    secret = {first: "Secret Place", second: "Shared Place", third: "Shared Place"}
    cities = [secret.get(w, c) for w, c in zip(who, table["city"].to_pylist(), strict=True)]
    kept = make(tmp_path / "w", None, table=table.set_column(6, "city", pa.array(cities)))
    vocabulary = kept.folder / "data" / "rows-1" / "vocabulary.json"
    with kept.open() as a, kept.open() as b:
        a.forget(subjects=["p0003"])  # a has everything in memory
        b.forget(subjects=[first])
        assert "Secret" not in vocabulary.read_text()
        a.forget(subjects=[second])
        assert "Secret" not in vocabulary.read_text()
        b.forget(subjects=[third])
        assert "Shared" not in vocabulary.read_text()
        a.retrain()
        with a.session() as session:
            d = session.dataset()
            names = {d.subject_ids.text(i) for i in range(len(d.subject_ids))}
            gone = sum(w in (first, second, third, "p0003") for w in who)
            assert d.n == len(who) - gone
        assert not names & {first, second, third, "p0003", None}


@pytest.mark.parametrize("by", ["subject", "row"])
def test_large_decimal_ids_are_different_people(by: str, tmp_path: Path) -> None:
    table = people.people(n=200)
    numbers = pa.array([str(10**17 + i) for i in range(200)]).cast(pa.decimal128(20, 0))
    table = table.set_column(0, "person", numbers)
    by_row = {"subject": None, "row_id": "person", "ignore": ["record"]}
    kept = make(tmp_path / "w", None, table=table, **(by_row if by == "row" else {}))
    with kept.open() as ws:
        made = ws.forget(**{"subjects" if by == "subject" else "rows": [10**17 + 5]})
        assert made.rows == 1


def test_a_retraining_that_cannot_be_does_not_hold_up_erasures(tmp_path: Path) -> None:
    table = people.people(n=120, subjects=60).select(["person", "record", "plan", "city", "label"])

    def edit(text: str) -> str:
        text = text.replace("min_rows = 1 ", "min_rows = 40")
        return text.replace('retrain_when = ["disparity"]', 'retrain_when = ["always"]')

    with make(tmp_path / "w", None, table=table, edit=edit).open() as ws:
        made = ws.forget(subjects=[f"p{i:04d}" for i in range(45)])
        assert made.action == "update"
        assert "no column is left" in made.reason
        assert ws.forget(subjects=["p0050"]).rows > 0
        assert ws.store.requests.counts()["pending"] == 0
        with pytest.raises(CannotTrain):
            ws.retrain()


def test_a_copy_elsewhere_finds_the_list_or_says_that_it_is_gone(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    shutil.copytree(kept.folder, tmp_path / "w" / "beside")
    (tmp_path / "far").mkdir()
    shutil.copytree(kept.folder, tmp_path / "far" / "away")
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
    with Workspace(tmp_path / "w" / "beside") as copy:
        assert copy.active_model().version == 2
        assert copy.forget(subjects=["p0003"]).repeated == ("p0003",)
    with Workspace(tmp_path / "far" / "away") as copy:
        for verb in (copy.active_model, lambda: copy.forget(subjects=["p0001"])):
            with pytest.raises(Unavailable, match="deletion list"):
                verb()


def test_a_folder_restored_without_its_database_forgets_again(
    trained: Kept, tmp_path: Path
) -> None:
    ours = trained.copy(tmp_path / "ours")
    shutil.copytree(ours.folder / "data", tmp_path / "backup")
    with ours.open() as ws:
        who = held_out(ws, 2)
        made = ws.forget(subjects=who[:1])
        assert made.action == "keep"
    shutil.rmtree(ours.folder / "data")
    shutil.copytree(tmp_path / "backup", ours.folder / "data")
    with ours.open() as ws:
        assert ws.forget(subjects=who).repeated == (who[0],)
        with ws.session() as session:
            assert session.dataset().subject_rows(who[0]) is None
        ws.forget(subjects=["p0003"])


def test_a_list_that_was_begun_anew_is_read_whole(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    listed = tmp_path / "w" / "ws.forgotten"
    with kept.open() as ws:
        ws.forget(subjects=["p0001"])
    shutil.copytree(kept.folder, tmp_path / "backup")
    listed.write_text("")  # lost for good, which somebody accepts
    with kept.open() as ws:
        with pytest.raises(Unavailable, match="is empty.*accept-loss"):
            ws.forget(subjects=["p0002"])
        ws.accept_loss()
        ws.forget(subjects=["p0002"])
        ws.forget(subjects=["p0003"])
    shutil.rmtree(kept.folder)
    shutil.copytree(tmp_path / "backup", kept.folder)
    with kept.open() as ws:
        ws.active_model()
        assert ws.forget(subjects=["p0002", "p0003"]).rows == 0


def test_reading_does_not_wait_for_a_writer(trained: Kept, tmp_path: Path) -> None:
    ours = trained.copy(tmp_path / "ours")
    with ours.open() as writer, writer._session.lock.held():
        found: list[int] = []

        def look() -> None:
            with ours.open() as reader:
                reader.status()
                found.append(reader.predict(people.people(n=5)).version)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(60)
        assert found == [1]


def test_statistics_of_the_database_hold_no_ids(server: servers.Server, tmp_path: Path) -> None:
    import psycopg

    kept = make(tmp_path / "w", server)
    assert kept.name is not None
    with kept.open() as ws:
        ws.submit(subjects=[f"p{i:04d}" for i in range(80)])
        with psycopg.connect(server.url(kept.name), autocommit=True) as connection:
            connection.execute("ANALYZE")
            ws.apply()
            kept_values = connection.execute(
                "SELECT count(*) FROM pg_stats WHERE tablename = 'request_items' "
                "AND attname = 'value'"
            ).fetchone()
    assert kept_values == (0,)


def test_a_reader_on_postgresql_delays_the_purge_only(
    server: servers.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr("unfit.store.connections.BUSY_SECONDS", 0.6)
    kept = make(tmp_path / "w", server)
    assert kept.name is not None
    with kept.open() as ws, psycopg.connect(server.url(kept.name)) as reader:
        reader.execute("SELECT * FROM request_items")
        made = ws.forget(subjects=["p0003"])
        assert (made.rows > 0, made.purged) == (True, False)
        reader.rollback()
        ws.prepare()
        assert not ws.status().purge_due


def test_windows_end_whoever_comes_next(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, audit_window="1h")
    moment = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=-5)))
    with Workspace(kept.folder, clock=lambda: moment) as ws:
        ws.forget(subjects=["p0003"])
        assert ws.audit().n_available > 0
    moment += timedelta(hours=2)
    with Workspace(kept.folder, clock=lambda: moment) as ws:
        ws.predict(people.people(n=5))
    assert list((kept.folder / "retained").iterdir()) == []
    with pytest.raises(ValueError, match="zone"):
        Workspace(kept.folder, clock=lambda: datetime(2030, 1, 1))


@pytest.mark.parametrize("point", ["forget.unlearned", "forget.listed", "purge.rows-erased"])
def test_a_failure_is_told_from_a_delay(
    point: str, trained: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails before the commit changes nothing; after it, it delays the purge."""

    def fail(name: str) -> None:
        if name == point:
            raise OSError(28, "No space left on device")

    with trained.copy(tmp_path / "ours").open() as ws:
        before = signature(ws)
        monkeypatch.setattr(points, "observer", fail)
        if point.startswith("purge."):
            assert not ws.forget(subjects=["p0003"]).purged
        else:
            with pytest.raises(OSError, match="No space"):
                ws.forget(subjects=["p0003"])
            after = signature(ws)
            assert (after["active"], after["requests"], after["live"]) == (
                before["active"],
                before["requests"],
                before["live"],
            )
        monkeypatch.setattr(points, "observer", None)
        ws.forget(subjects=["p0003"])
        assert not ws.status().purge_due


def test_the_same_request_in_another_order_is_answered_alike(workspace: Workspace) -> None:
    first = workspace.forget(subjects=["p0003", "nobody"], key="k")
    second = workspace.forget(subjects=["nobody", "p0003"], key="k")
    assert first.unknown == second.unknown == ("nobody",)


@pytest.mark.parametrize(
    "wrong", ["135", b"135", [None], [True], [b"x"], [""], ["a\0"], ["\udcff"]]
)
def test_what_is_no_list_of_ids_is_refused(wrong: object, workspace: Workspace) -> None:
    before = signature(workspace)
    with pytest.raises(BadInput):
        workspace.forget(subjects=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="UTF-8"):
        workspace.forget(subjects=["p0001"], key="\udcff")
    assert signature(workspace) == before


def test_subjects_are_counted_when_only_held_out_people_leave(workspace: Workspace) -> None:
    version = workspace.store.versions.active()
    assert version is not None
    before = workspace.active_model().weights
    workspace.forget(subjects=held_out(workspace, 3))
    now = workspace.store.versions.active()
    assert now is not None
    assert (now.number, now.subjects) == (version.number, version.subjects - 3)
    assert now.model_sha != version.model_sha  # it said which held-out rows were predicted right
    with workspace.session() as session:
        gone = ~session.live()[session.dataset().n_train :]
        assert not session.artifacts.arrays(now.model_sha or "")["initial_hits"][gone].any()
    np.testing.assert_array_equal(workspace.active_model().weights, before)
    workspace.forget(subjects=["p0003"])
    assert workspace.status().version.subjects == version.subjects - 4  # type: ignore[union-attr]


def test_names_that_unfit_uses_itself(tmp_path: Path) -> None:
    """A feature called label, ids called row and version, a label that is not called so."""
    table = people.people().rename_columns(
        ["version", "row", "label", "income", "member", "plan", "city", "churned"]
    )
    kept = make(
        tmp_path / "w",
        None,
        table=table,
        label="churned",
        subject="version",
        row_id="row",
        audit_window="30d",
    )
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
        assert ws.audit().audit.acc_dis is not None
        made = ws.predict(table.slice(0, 9)).table
        assert made is not None
        assert made.column_names[:4] == ["unfit_row", "row", "version", "unfit_prediction"]
        assert made["version"].to_pylist() == table["version"].to_pylist()[:9]


def test_an_auditors_file_is_read_as_the_source_was(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    table = people.people().slice(0, 6)
    ages = pa.array(["?" if i == 2 else str(40 + i) for i in range(6)])
    marked = people.write(table.set_column(2, "age", ages), tmp_path / "gone.csv")
    nobody = people.write(table.slice(0, 0), tmp_path / "none.csv")
    with kept.open() as ws:
        with pytest.raises(BadInput, match="still remembered"):
            ws.audit(deleted=marked)
        ws.forget(rows=[f"r{i:05d}" for i in range(6)])
        assert ws.audit(deleted=marked).n_available == 6
        with pytest.raises(BadInput, match="no rows"):
            ws.audit(deleted=nobody)


def test_two_workspaces_may_share_a_deletion_list(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        return text.replace('"../ws.forgotten"', '"../../all.forgotten"')

    one = make(tmp_path / "one", None, edit=edit)
    two = make(tmp_path / "two", None, edit=edit)
    with one.open() as a, two.open() as b:
        a.forget(subjects=["p0003"])
        b.forget(subjects=["p0004"])  # and catches up with the first
        assert b.forget(subjects=["p0003"]).repeated == ("p0003",)
    assert (tmp_path / "all.forgotten").read_text().count("p0003") >= 1


def test_a_list_of_another_workspace_is_refused(tmp_path: Path) -> None:
    one, two = (
        make(tmp_path / "one", None),
        make(tmp_path / "two", None, row_id=None, ignore=["record"]),
    )
    with one.open() as ws:
        ws.forget(subjects=["p0003"])
    shutil.copy(tmp_path / "one" / "ws.forgotten", tmp_path / "two" / "ws.forgotten")
    with two.open() as ws:
        before = (tmp_path / "two" / "ws.forgotten").read_text()
        for verb in (ws.active_model, lambda: ws.forget(subjects=["p0001"])):
            with pytest.raises(Unavailable, match="another workspace"):
                verb()
        assert ws.status().list_differs
    assert (tmp_path / "two" / "ws.forgotten").read_text() == before


def test_row_numbers_of_another_source_mean_nothing(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, row_id=None, ignore=["record"])
    with kept.open() as ws:
        ws.forget(rows=[5, 6])
    shutil.rmtree(kept.folder)
    source = tmp_path / "w" / "people.parquet"
    init(source, kept.folder, label="label", subject="person", ignore=["record"])
    with Workspace(kept.folder) as ws, pytest.raises(BadInput, match="names rows by their numbers"):
        ws.train()


def test_a_workspace_trained_again_from_its_source_leaves_its_rows_out(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, row_id=None, ignore=["record"])
    with kept.open() as ws:
        ws.forget(rows=[5, 6])
    for path in kept.folder.iterdir():  # everything but the choices is lost
        if path.name != "unfit.toml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with kept.open() as ws:
        assert ws.train().left_out == 2
        with ws.session() as session:
            assert not {5, 6} & set(session.dataset()["numbers"].tolist())


def test_a_window_that_is_closed_drops_what_it_kept(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, audit_window="30d")
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
    toml = kept.folder / "unfit.toml"
    toml.write_text(toml.read_text().replace('audit_window = "30d"', 'audit_window = "none"'))
    with kept.open() as ws:
        ws.active_model()
    assert list((kept.folder / "retained").iterdir()) == []


def test_predictions_do_not_replace_what_they_were_made_from(
    workspace: Workspace, tmp_path: Path
) -> None:
    asked = people.write(people.people(n=9), tmp_path / "new.csv")
    before = asked.read_bytes()
    with pytest.raises(BadInput, match="is the input"):
        workspace.predict(asked, asked)
    assert asked.read_bytes() == before


def test_categories_that_are_declared_and_strict(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        at = text.index('[columns."plan"]')
        declared = 'categories = ["basic", "plus"]'
        plan = text[at:].replace('# categories = ["a", "b"]', declared, 1)
        return text[:at] + plan.replace('unseen = "ignore"', 'unseen = "error"', 1)

    with pytest.raises(BadInput, match="'pro' is not among the declared categories"):
        make(tmp_path / "w", None, edit=edit)


def test_rows_of_a_database_need_names(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.db") as connection:
        connection.execute("CREATE TABLE t (x, label)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i % 2) for i in range(20)])
    connection.close()
    with pytest.raises(BadInput, match="--subject or --row-id"):
        init(f"sqlite:///{tmp_path}/d.db", tmp_path / "w", table="t", label="label")


def test_whole_numbers_that_name_rows_are_no_features(tmp_path: Path) -> None:
    table = people.people(n=1500).append_column("visit_id", pa.array(range(1500)))
    source = people.write(table, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="'visit_id' looks like an id"):
        init(source, tmp_path / "w", label="label", subject="person", row_id="record")


def test_odd_column_names_survive_the_configuration(tmp_path: Path) -> None:
    names = ['a "quoted" one', "with.dots", "new\nline", "del\x7fete", "ünï"]
    table = people.people().rename_columns(["person", "record", *names, "label"])
    with make(tmp_path / "w", None, table=table).open() as ws:
        assert [c.column.name for c in ws.active_model().card.encoding.columns] == names
