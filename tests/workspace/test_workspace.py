"""The verbs of a workspace against what can be computed without one."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from workspaces import Kept, make, signature

import people
import unfit
from unfit.errors import BadInput, CannotTrain, Unavailable
from unfit.lifecycle import policies
from unfit.methods import METHODS
from unfit.workspace import Workspace, init

QUICK = {"epochs = 200": "epochs = 20", "batch_size = 512": "batch_size = 64"}


def quick(text: str) -> str:
    for old, new in QUICK.items():
        text = text.replace(old, new)
    return text


def with_policy(*names: str, **values: object) -> Callable[[str], str]:
    def edit(text: str) -> str:
        listed = ", ".join(f'"{name}"' for name in names)
        text = text.replace('retrain_when = ["disparity"]', f"retrain_when = [{listed}]")
        for key, value in values.items():
            start = text.index(f"\n{key} = ", text.index("[policy]")) + 1
            text = text[:start] + f"{key} = {value}\n# " + text[start:]
        return text

    return edit


def rows_of(ws: Workspace, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Encoded rows and class codes of a part that are still there."""
    with ws.session() as session:
        d, loaded = session.dataset(), session.open_model()
        where = slice(0, d.n_train) if part == "train" else slice(d.n_train, d.n)
        live = d.live[where]
        return d["X"][where][live], loaded.class_of_label[d["labels"][where]][live]


def weights(ws: Workspace) -> np.ndarray:
    return ws.active_model().weights


@pytest.mark.parametrize("classes", [2, 3])
def test_training_is_the_estimator_on_the_encoded_rows(classes: int, tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, table=people.people(classes=classes))
    with kept.open() as ws:
        X, y = rows_of(ws, "train")
        reference = unfit.LogisticRegression().fit(X, y)
        found = weights(ws)
        np.testing.assert_allclose(found[:, :-1], reference.coef_, atol=1e-8)
        np.testing.assert_allclose(found[:, -1], reference.intercept_, atol=1e-8)
        X_test, y_test = rows_of(ws, "test")
        version = ws.store.versions.active()
        assert version is not None
        assert version.accuracy == pytest.approx(reference.score(X_test, y_test))


@pytest.mark.parametrize("method", METHODS)
def test_forgetting_is_the_estimators_unlearning(method: str, tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, method=method, edit=quick)
    with kept.open() as ws:
        X, y = rows_of(ws, "train")
        with ws.session() as session:
            d, loaded = session.dataset(), session.open_model()
            rows = d.subject_rows("p0003")
            assert rows is not None
            rows = rows[rows < d.n_train]
            assert len(rows)
            state, method_ = loaded.state, loaded.method
            expected = method_.unlearn(
                method_.prepare(state, loaded.data.shared()),
                loaded.data.shared(),
                rows,
                session.rng(2),
            )
        made = ws.forget(subjects=["p0003"])
        assert (made.action, made.version) == ("update", 2)
        np.testing.assert_allclose(weights(ws), expected.weights, rtol=1e-8, atol=1e-12)
        if method in ("fisher", "retrain"):
            X, y = rows_of(ws, "train")
            again = unfit.LogisticRegression().fit(X, y)
            np.testing.assert_allclose(weights(ws)[0, :-1], again.coef_[0], atol=2e-4)


@pytest.mark.parametrize("method", METHODS)
def test_a_new_process_goes_on_where_the_last_one_stopped(method: str, tmp_path: Path) -> None:
    one = make(tmp_path / "one", None, method=method, edit=quick)
    other = one.copy(tmp_path / "other")
    people_ = ["p0001", "p0002", "p0005"]
    with one.open() as ws:
        for who in people_:
            ws.forget(subjects=[who])
        expected = weights(ws)
    for who in people_:
        with other.open() as ws:
            ws.forget(subjects=[who])
            ws.prepare()
    with other.open() as ws:
        np.testing.assert_allclose(weights(ws), expected, rtol=1e-9, atol=1e-12)


def test_waiting_requests_are_taken_together(trained: Kept, tmp_path: Path) -> None:
    with trained.copy(tmp_path / "w").open() as ws:
        for who in ("p0001", "p0002", "p0003"):
            ws.submit(subjects=[who])
        made = ws.forget(subjects=["p0004"])
        assert made.version == 2
        assert ws.store.requests.counts() == {
            "pending": 0,
            "applied": 4,
            "unmatched": 0,
            "cancelled": 0,
        }


def test_unknown_and_repeated_ids_are_reported_and_strict_refuses_them(
    trained: Kept, tmp_path: Path
) -> None:
    with trained.copy(tmp_path / "w").open() as ws:
        made = ws.forget(subjects=["p0001", "nobody", "p0001"], rows=["r00000", "x"])
        assert (set(made.unknown), made.repeated) == ({"nobody", "x"}, ("p0001",))
        again = ws.forget(subjects=["p0001"], rows=["r00000"])
        assert (again.rows, set(again.repeated)) == (0, {"p0001", "r00000"})
        assert again.action == "keep"
        before = signature(ws)
        for wrong in ("nobody", "p0001"):
            with pytest.raises(BadInput, match=wrong):
                ws.forget(subjects=["p0002", wrong], strict=True)
            assert signature(ws) == before
        assert ws.forget(subjects=["p0002"], strict=True).rows > 0


def test_rows_of_a_forgotten_subject_are_known_to_be_gone(workspace: Workspace) -> None:
    with workspace.session() as session:
        d = session.dataset()
        numbers = d["numbers"][d.subject_rows("p0001")]
    workspace.forget(subjects=["p0001"])
    rows = [f"r{i:05d}" for i in numbers]
    assert workspace.forget(rows=rows).repeated == tuple(rows)


def test_a_subject_whose_rows_went_one_by_one_is_gone(workspace: Workspace) -> None:
    with workspace.session() as session:
        d = session.dataset()
        numbers = d["numbers"][d.subject_rows("p0001")]
    for i in numbers:
        workspace.forget(rows=[f"r{i:05d}"])
    assert workspace.forget(subjects=["p0001"]).repeated == ("p0001",)


def test_a_key_is_one_request(trained: Kept, tmp_path: Path) -> None:
    with trained.copy(tmp_path / "w").open() as ws:
        first = ws.forget(subjects=["p0001", "nobody"], key="k")
        second = ws.forget(subjects=["nobody", "p0001"], key="k")
        assert (first.rows, first.version) == (second.rows, second.version)
        assert (first.replayed, second.replayed) == (False, True)
        with pytest.raises(BadInput, match="another request"):
            ws.forget(subjects=["p0002"], key="k")


def test_a_dry_run_changes_nothing_and_foresees_what_happens(workspace: Workspace) -> None:
    before = signature(workspace)
    foreseen = workspace.forget(subjects=["p0001", "nobody"], dry_run=True)
    assert signature(workspace) == before
    made = workspace.forget(subjects=["p0001", "nobody"])
    assert foreseen.dry_run
    assert (foreseen.rows, foreseen.unknown, foreseen.action) == (
        made.rows,
        made.unknown,
        made.action,
    )
    assert foreseen.estimate == pytest.approx(made.estimate)


@pytest.mark.parametrize(
    ("edit", "action"),
    [
        (with_policy("always"), "retrain"),
        (with_policy("never"), "update"),
        (with_policy("count", count=1), "retrain"),
        (with_policy("count", count=1000), "update"),
        (with_policy("share", share=0.0001), "retrain"),
        (with_policy("accuracy", accuracy=1.0), "retrain"),
        (with_policy("accuracy", accuracy=0.0), "update"),
        (with_policy("accuracy", "count", accuracy=0.0, count=1), "retrain"),
    ],
)
def test_the_policy_decides_and_says_why(
    edit: Callable[[str], str], action: str, tmp_path: Path
) -> None:
    with make(tmp_path / "w", None, edit=edit).open() as ws:
        made = ws.forget(subjects=["p0003"])
        assert made.action == action
        decision = ws.status().decisions[-1]
        assert decision.reason == made.reason
        assert decision.inputs["rows"] > 0
        version = ws.store.versions.active()
        assert version is not None
        assert version.kind == ("retrained" if action == "retrain" else "updated")


def test_the_papers_rule_retrains_over_the_threshold_and_opens_anew(tmp_path: Path) -> None:
    with make(tmp_path / "w", None, threshold=0.0).open() as ws:
        with ws.session() as session:
            d = session.dataset()
            yes = session.open_model().class_of_label[d["labels"]] == 1
            wave = [f"r{i:05d}" for i in d["numbers"][: d.n_train][yes[: d.n_train]]][:-5]
        made = ws.forget(rows=wave)
        assert made.action == "retrain"
        assert "over the threshold" in made.reason
        version = ws.store.versions.active()
        assert version is not None
        assert version.baseline["rows"] == version.rows
        X, y = rows_of(ws, "train")
        reference = unfit.LogisticRegression().fit(X, y)
        np.testing.assert_allclose(weights(ws)[0, :-1], reference.coef_[0], atol=1e-7)


def test_constants_that_change_are_refitted_at_once_and_declared_ones_stay(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        declared = (
            'kind = "numeric"\nscale = "standard"\nmissing = "mean"\n# mean = 0.0\n# sd = 1.0'
        )
        at = text.index('[columns."income"]')
        return text[:at] + text[at:].replace(
            declared, declared.replace("# mean = 0.0\n# sd = 1.0", "mean = 20.0\nsd = 10.0"), 1
        )

    with make(tmp_path / "w", None, edit=edit).open() as ws:
        before = {c.column.name: c for c in ws.active_model().card.encoding.columns}
        assert ws.forget(subjects=["p0003"]).action == "update"
        same = {c.column.name: c for c in ws.active_model().card.encoding.columns}
        assert same["age"] == before["age"]  # one person does not change a rounded mean
        old = people.people().to_pandas().query("age > 45")["person"]
        made = ws.forget(subjects=sorted(set(old) - {"p0003"}))
        assert made.action == "retrain"
        assert "the mean and the deviation of column 'age' changed after rounding" in made.reason
        after = {c.column.name: c for c in ws.active_model().card.encoding.columns}
        assert before["age"].constants == after["age"].constants == "fitted"
        assert after["age"].shift != before["age"].shift
        assert (after["income"].shift, after["income"].scale) == (20.0, 10.0)
        assert after["income"].constants == "declared"


def test_a_subject_is_in_training_or_held_out_never_both(workspace: Workspace) -> None:
    with workspace.session() as session:
        d = session.dataset()
        train, test = set(d["subjects"][: d.n_train]), set(d["subjects"][d.n_train :])
    assert not train & test
    assert len(test) == int(0.2 * (len(train) + len(test)))


def test_held_out_people_are_forgotten_too_and_the_model_stays(workspace: Workspace) -> None:
    with workspace.session() as session:
        d = session.dataset()
        who = d.subject_ids.text(int(d["subjects"][d.n_train]))
    before = weights(workspace)
    made = workspace.forget(subjects=[who])
    assert (made.action, made.version) == ("keep", 1)
    assert made.rows > 0
    np.testing.assert_array_equal(weights(workspace), before)
    assert workspace.forget(subjects=[who]).repeated == (who,)


def test_a_model_without_two_classes_is_withdrawn_and_erasure_goes_on(tmp_path: Path) -> None:
    with make(tmp_path / "w", None, row_id=None).open() as ws:
        with ws.session() as session:
            d = session.dataset()
            code = session.open_model().class_of_label[d["labels"]]
            gone = d["numbers"][code == 0].tolist()
            left = d["numbers"][code == 1].tolist()
        foreseen = ws.forget(rows=gone, dry_run=True)
        made = ws.forget(rows=gone)
        assert made.action == foreseen.action == "withdraw"
        assert made.reason == foreseen.reason
        with pytest.raises(Unavailable, match="withdrawn"):
            ws.active_model()
        with pytest.raises(Unavailable, match="withdrawn"):
            ws.audit()
        trained = ws.status().version.rows
        with ws.session() as session:
            d = session.dataset()
            in_training = np.isin(d["numbers"][: d.n_train], left[:3]).sum()
        expected = ws.forget(rows=left[:3], dry_run=True)
        later = ws.forget(rows=left[:3], key="later")
        assert later.rows == 3
        assert (
            later.reason
            == expected.reason
            == "its model was withdrawn, so there is nothing to unlearn"
        )
        assert ws.forget(rows=left[:3], key="later").reason == later.reason
        assert ws.status().version.rows == trained - in_training
        with pytest.raises(CannotTrain, match="class"):
            ws.retrain()
        assert ws.status().version is not None


def test_an_audit_with_noise_draws_and_a_file_of_deleted_rows(tmp_path: Path) -> None:
    table = people.people()
    with make(tmp_path / "w", None, sigma=0.5, table=table).open() as ws:
        ws.forget(subjects=["p0003", "p0004"])
        names = table["person"].to_pylist()
        gone = table.filter(pa.array([n in ("p0003", "p0004") for n in names]))
        deleted = people.write(gone, tmp_path / "gone.csv")
        before = signature(ws)
        report = ws.audit(deleted=deleted, random_state=0, draws=7)
        assert signature(ws) == before
        assert len(report.audit.disparities) == 7
        assert report.audit.acc_dis == pytest.approx(np.mean(report.audit.disparities))
        assert report.n_available == gone.num_rows
        assert json.loads(json.dumps(report.as_dict()))["verdict"] == report.verdict
        assert ws.status().last_audit is not None
        without = ws.audit(random_state=0)
        assert without.audit.acc_dis is None  # the rows are gone
        assert without.passed is True  # and the weights say enough


def test_an_audit_of_an_exact_method_finds_no_difference(tmp_path: Path) -> None:
    with make(tmp_path / "w", None, method="retrain").open() as ws:
        ws.forget(subjects=["p0003", "p0004"])
        report = ws.audit(random_state=1)
        assert report.audit.weight_distance < 1e-6
        assert report.audit.predictions_differ == 0
        assert report.audit.acc_err == 0


def test_predictions_are_those_of_the_model_and_name_its_version(
    workspace: Workspace, tmp_path: Path
) -> None:
    table = people.people(n=50, seed=9)
    asked = people.write(table, tmp_path / "new.csv")
    first = workspace.predict(asked)
    assert first.table is not None
    assert first.table.column_names == [
        "row",
        "record",
        "person",
        "prediction",
        "p_no",
        "p_yes",
        "version",
    ]
    out = tmp_path / "out.parquet"
    made = workspace.predict(people.write(table, tmp_path / "new.parquet"), out)
    assert (made.rows, made.version) == (50, 1)
    from pyarrow import parquet

    written = parquet.read_table(out)
    np.testing.assert_allclose(
        written["p_yes"].to_numpy(), first.table["p_yes"].to_numpy(), rtol=1e-6
    )
    expected = np.where(first.table["p_yes"].to_numpy() > 0.5, "yes", "no")
    assert first.table["prediction"].to_pylist() == expected.tolist()
    right = np.mean(expected == np.array(table["label"].to_pylist()))
    assert first.accuracy == pytest.approx(right)
    workspace.forget(subjects=["p0003"])
    assert set(workspace.predict(asked).table["version"].to_pylist()) == {2}


def test_a_rebuilt_workspace_leaves_out_whom_the_list_names(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    with kept.open() as ws:
        forgotten = ws.forget(subjects=["p0001"], rows=["r00007"]).rows
    import shutil

    shutil.rmtree(kept.folder)
    made = init(
        tmp_path / "w" / "people.parquet",
        kept.folder,
        label="label",
        subject="person",
        row_id="record",
    )
    assert made.listed
    with Workspace(kept.folder) as ws:
        ws.train()
        with ws.session() as session:
            assert session.dataset().n == 400 - forgotten
            assert session.dataset().subject_rows("p0001") is None


def test_verbs_before_training_say_what_to_do(untrained: Kept, tmp_path: Path) -> None:
    with untrained.copy(tmp_path / "w").open() as ws:
        for verb in (
            lambda: ws.forget(subjects=["p0001"]),
            lambda: ws.audit(),
            lambda: ws.retrain(),
            lambda: ws.active_model(),
            lambda: ws.submit(rows=["r1"]),
        ):
            with pytest.raises(Unavailable, match="unfit train"):
                verb()
        assert ws.status().version is None
        ws.train()
        with pytest.raises(Unavailable, match="trained already"):
            ws.train()
        with pytest.raises(BadInput, match="names nobody"):
            ws.forget()


def test_times_come_from_the_clock_that_was_handed_in(trained: Kept, tmp_path: Path) -> None:
    moment = datetime(2031, 5, 6, tzinfo=UTC)
    ours = trained.copy(tmp_path / "w")
    with Workspace(ours.folder, clock=lambda: moment) as ws:
        ws.forget(subjects=["p0003"])
        version = ws.store.versions.active()
        assert version is not None
        assert version.activated_at == moment
        assert ws.store.requests.find()[-1].applied_at == moment


def test_changed_columns_are_refused_at_retraining(workspace: Workspace) -> None:
    toml = workspace.folder / "unfit.toml"
    toml.write_text(toml.read_text().replace('[columns."city"]', '[columns."town"]'))
    with Workspace(workspace.folder) as again:
        with pytest.raises(CannotTrain, match="columns differ"):
            again.retrain()
        again._session.policy = policies.Always()
        made = again.forget(subjects=["p0003"])  # an erasure cannot be refused for it
        assert made.action == "update"
        assert "no model can be trained" in made.reason
        assert again.store.requests.counts()["pending"] == 0
