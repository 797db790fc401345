"""What a decision rests on: nothing invented, falls told from rises, the same people compared."""

from pathlib import Path

import numpy as np
import pytest
from workspaces import make

import people
from unfit.store.records import HeldOut
from unfit.workspace import Workspace, config
from unfit.workspace.results import audited


@pytest.fixture
def ws(tmp_path: Path):  # type: ignore[no-untyped-def]
    with make(tmp_path / "w", None).open() as found:
        yield found


def names(ws: Workspace, *, train: bool) -> list[str]:
    """People whose rows are trained on, or held out."""
    with ws.session() as session:
        d = session.dataset()
        rows = np.flatnonzero(d.live)
        rows = rows[rows < d.n_train] if train else rows[rows >= d.n_train]
        texts = [d.subject_ids.text(int(at)) for at in np.unique(d["subjects"][rows])]
    return [text for text in texts if text is not None]


def test_what_could_not_be_measured_is_unknown_in_the_records(ws: Workspace) -> None:
    """With the last held-out person a training row leaves: nothing is left to measure on."""
    first = ws.forget(subjects=names(ws, train=True)[:1])
    last = names(ws, train=True)[0]
    second = ws.forget(subjects=[*names(ws, train=False), last], dry_run=True).rows
    held_out = ws.forget(subjects=names(ws, train=False), dry_run=True).rows
    ws.forget(subjects=[*names(ws, train=False), last])
    decision = ws.store.decisions.find()[-1]
    assert decision.inputs["deleted"] == first.rows + second - held_out  # since training
    assert decision.action == "withdraw"
    assert "no held-out row is left" in decision.reason
    assert "a retraining keeps the split, so make a new workspace" in decision.reason
    assert decision.estimate is None
    for name in ("initial_accuracy", "accuracy", "acc_err_init", "slope", "distance"):
        assert decision.inputs[name] is None
    assert ws.status().as_dict()["decisions"][-1]["estimate"] is None


def test_the_accuracy_when_trained_is_of_the_people_held_out_now(ws: Workspace) -> None:
    with ws.session() as session:
        loaded = session.open_model()
        n, wrong = loaded.dataset.n_train, np.flatnonzero(~loaded.initially_correct)
        whose = loaded.dataset["subjects"][n + wrong[:6]]
        gone = [loaded.dataset.subject_ids.text(int(at)) for at in np.unique(whose)]
    trained = ws.store.versions.active()
    ws.forget(subjects=[who for who in gone if who])
    for version in (ws.store.versions.active(), _after_one_more(ws)):
        assert version is not None
        with ws.session() as session:
            loaded = session.open_model()
            left = loaded.test_positions(np.empty(0, np.int64))
        assert version.held_out is not None
        same = float(loaded.initially_correct[left].mean())
        assert version.held_out.initial_accuracy == pytest.approx(same)
        assert trained is not None
        assert trained.accuracy is not None
        assert same > trained.accuracy  # which is of others as well, whom it got wrong


def _after_one_more(ws: Workspace) -> object:
    ws.forget(subjects=[names(ws, train=True)[0]])
    return ws.store.versions.active()


def test_decisions_have_the_sign_of_the_change(ws: Workspace) -> None:
    ws.forget(subjects=names(ws, train=True)[:3])
    inputs = ws.store.decisions.find()[-1].inputs
    change = inputs["accuracy"] - inputs["initial_accuracy"]
    assert inputs["accuracy_change"] == pytest.approx(change)
    assert 0 <= inputs["distance"] < 0.01
    assert inputs["log_loss_change"] == round(inputs["log_loss_change"], 5)  # no equation
    version = ws.store.versions.active()
    assert version is not None
    assert version.held_out is not None
    assert version.held_out.majority is not None
    assert version.held_out.auc == round(version.held_out.auc or 0, 4)


def test_changes_of_log_loss_add_up(ws: Workspace) -> None:
    each = []
    for who in names(ws, train=True)[:3]:
        ws.forget(subjects=[who])
        each.append(ws.store.decisions.find()[-1].inputs["log_loss_change"])
    version = ws.store.versions.active()
    assert version is not None
    assert version.held_out is not None
    assert version.held_out.log_loss_change == each[-1]
    ws.retrain()
    after = ws.store.versions.active()
    assert after is not None
    assert after.held_out is not None
    assert after.held_out.log_loss_change == 0


def test_status_says_what_is_known(ws: Workspace) -> None:
    assert ws.status().summary == "no request waits; never audited"
    ws.forget(subjects=names(ws, train=True)[:1])
    ws.audit(random_state=0)
    assert ws.status().summary.startswith("no request waits; last audit: version 2, ")
    ws.forget(subjects=names(ws, train=True)[:1])
    ws.submit(subjects=["somebody"])
    said = ws.status().summary
    assert said.startswith("1 request waits; last audit: version 2, 1 version ago, ")
    assert audited(None, None) == "never audited"


def test_new_workspaces_look_at_weights_and_log_loss_and_old_files_still_read(
    tmp_path: Path,
) -> None:
    source = people.write(people.people(), tmp_path / "people.csv")
    from unfit.workspace import init

    init(source, tmp_path / "w", label="label", subject="person", row_id="record")
    text = (tmp_path / "w" / "unfit.toml").read_text()
    assert config.read(tmp_path / "w").policy.retrain_when == (
        "distance",
        "log_loss",
        "disparity",
    )
    old = [
        line
        for line in text.splitlines()
        if not line.startswith(("retrain_when", "distance =", "log_loss ="))
    ]
    (tmp_path / "w" / "unfit.toml").write_text("\n".join(old))
    assert config.read(tmp_path / "w").policy.retrain_when == ("disparity",)


def test_a_record_of_nothing_is_empty() -> None:
    assert HeldOut(**HeldOut().as_dict()) == HeldOut()
