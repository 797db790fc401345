"""Audits of a workspace: with the deleted rows, without them, and while people are forgotten."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from workspaces import make

import people
from unfit.cli import app
from unfit.data import dataset as datasets
from unfit.errors import BadInput
from unfit.pages.audit import audit_page
from unfit.workspace import Workspace, audit

TABLE = people.people(n=3000, subjects=1200)


@pytest.fixture
def ws(tmp_path: Path):  # type: ignore[no-untyped-def]
    with make(tmp_path / "w", None, table=TABLE).open() as found:
        yield found


def subject(ws: Workspace) -> str:
    """Somebody whose rows are trained on."""
    with ws.session() as session:
        d = session.dataset()
        at = int(np.flatnonzero(d.live)[0])
        text = d.subject_ids.text(int(d["subjects"][at]))
    assert text is not None
    return text


def rows_of(who: str, folder: Path) -> Path:
    chosen = [name == who for name in TABLE["person"].to_pylist()]
    return people.write(TABLE.filter(pa.array(chosen)), folder / "gone.parquet")


def forget_nothing(ws: Workspace, who: str) -> None:
    """Forget somebody, but leave the weights as they were."""
    with ws.session() as session:
        before = session.open_model().state.weights.copy()
    ws.forget(subjects=[who])
    with ws.session() as session:
        loaded = session.open_model()
        loaded.state = replace(loaded.state, weights=before, statistics=None, stale_inverse=None)


def test_one_person_forgotten_and_one_who_is_not(ws: Workspace, tmp_path: Path) -> None:
    who = subject(ws)
    forget_nothing(ws, who)
    gone = rows_of(who, tmp_path)
    assert ws.audit(deleted=gone, random_state=0).outcome == "not forgotten"
    other = subject(ws)
    ws.forget(subjects=[other])  # one Newton step, from wherever it was, brings both out
    for report in (ws.audit(deleted=rows_of(other, tmp_path)), ws.audit()):
        assert report.outcome == "forgotten", report.verdict
        assert report.passed is True


def test_rows_of_nobody_who_was_forgotten_are_refused(ws: Workspace, tmp_path: Path) -> None:
    """They would enlarge the control, and so what may be left of those who were."""
    who = subject(ws)
    forget_nothing(ws, who)
    own = pq.read_table(rows_of(who, tmp_path))
    made_up = pa.concat_tables([own] * 40)
    ages = pa.array([90.0 * 40] * made_up.num_rows)
    names = made_up.column_names

    def ask(table: pa.Table) -> audit.Report:
        return ws.audit(deleted=people.write(table, tmp_path / "asked.parquet"), random_state=0)

    for column, ids in (("record", [f"x{i}" for i in range(len(ages))]), ("person", None)):
        values = pa.array(ids if ids is not None else ["nobody"] * len(ages))
        table = made_up.set_column(names.index(column), column, values)
        if column == "person":
            table = table.drop_columns(["record"])
        with pytest.raises(
            BadInput, match=rf"{len(ages)} rows whose '{column}' is not that of anybody"
        ):
            ask(table)
    with pytest.raises(BadInput, match="no column 'record' or 'person'"):
        ask(made_up.drop_columns(["record", "person"]))
    assert ask(own.drop_columns(["record"])).outcome == "not forgotten"
    # the right ids with other values: what they weigh is more than so few rows do
    wrong = made_up.set_column(names.index("age"), "age", ages)
    assert ask(wrong).outcome != "forgotten"


def test_without_the_deleted_rows_one_person_left_in_is_seen(ws: Workspace) -> None:
    forget_nothing(ws, subject(ws))
    report = ws.audit(random_state=0)
    assert report.n_available == 0
    assert report.outcome == "not forgotten"
    assert "of a typical row's influence" in report.verdict


def test_weights_in_use_that_are_not_those_that_were_made_are_seen(tmp_path: Path) -> None:
    """Without the deleted rows: the centre is good, and something else is served."""
    with make(tmp_path / "w", None, table=TABLE, sigma=0.5).open() as ws:
        ws.forget(subjects=[subject(ws)])
        assert ws.audit(random_state=0).outcome == "forgotten"
        with ws.session() as session:
            loaded = session.open_model()
            other = np.full_like(loaded.state.weights, 100.0)
            loaded.state = replace(loaded.state, weights=other)
        report = ws.audit(random_state=0)
    assert report.outcome == "not forgotten"
    assert "the active weights are not the centre plus noise" in report.verdict


def test_the_report_is_read_back_as_it_was(ws: Workspace) -> None:
    ws.forget(subjects=[subject(ws)])
    report = ws.audit(random_state=0)
    kept = ws.store.audits.find()[-1]
    assert kept.passed is report.passed
    of_store = report.recorded(ws.config.preprocessing.min_rows)
    assert replace(audit.Report.of(kept.report), id=report.id) == of_store
    assert kept.report["outcome"] == "forgotten"


def test_the_records_hold_no_equation_about_a_person(tmp_path: Path) -> None:
    """Of one deleted row, the log-loss is what the model says of them, digit by digit."""
    kept = make(
        tmp_path / "w",
        None,
        table=TABLE,
        edit=lambda text: text.replace("min_rows = 1 ", "min_rows = 10"),
    )
    with kept.open() as ws:
        who = subject(ws)
        ws.forget(subjects=[who])
        report = ws.audit(deleted=rows_of(who, tmp_path), random_state=0)
        stored = ws.store.audits.find()[-1].report
        page = audit_page(audit.Report.of(stored), ws.status())
    assert 0 < report.n_available < 10
    assert report.audit.deleted_log_loss_updated is not None  # whoever has the rows may see it
    of_deleted = {k: v for k, v in stored.items() if k.startswith(("deleted_", "acc_dis"))}
    assert of_deleted.pop("deleted_from") == "gone.parquet"
    assert set(of_deleted.values()) == {None}, of_deleted
    assert (stored["disparities"], stored["verdict"]) == ([], report.verdict)
    assert "fewer deleted rows than preprocessing.min_rows" in page
    figures = [v for k, v in stored.items() if isinstance(v, float) and k != "threshold"]
    assert len(figures) > 10
    assert all(v == float(f"{v:.3g}") for v in figures), stored
    assert stored["log_loss_updated"] == pytest.approx(report.audit.log_loss_updated, rel=0.01)


def test_of_many_deleted_rows_the_figures_are_kept_rounded(ws: Workspace) -> None:
    report = ws.audit(random_state=0)
    many = replace(
        report,
        n_available=10,
        audit=replace(report.audit, deleted_log_loss_updated=0.16706695, acc_dis=1.23456),
    ).recorded(10)
    assert (many.audit.deleted_log_loss_updated, many.audit.acc_dis) == (0.167, 1.23)
    few = replace(many, n_available=9).recorded(10)
    assert (few.audit.deleted_log_loss_updated, few.audit.acc_dis) == (None, None)


def test_erasures_of_held_out_people_are_not_said_to_be_none(ws: Workspace) -> None:
    with ws.session() as session:
        d = session.dataset()
        who = d.subject_ids.text(int(d["subjects"][d.n_train]))  # the first held-out row's
    made = ws.forget(subjects=[who])
    assert (made.rows > 0, made.action) == (True, "keep")
    verdict = ws.audit(random_state=0).verdict
    assert verdict == (
        "forgotten: no training row was deleted, so the weights have nothing to forget"
    )


def test_the_exit_code_is_the_verdict(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, table=TABLE, sigma=20.0)

    def ask(*more: str) -> int:
        return CliRunner().invoke(app, ["audit", *more, "-w", str(kept.folder)]).exit_code

    assert ask() == 0  # no training row was deleted
    with kept.open() as ws:
        who = subject(ws)
        ws.forget(subjects=[who])
        # as a method without a centre leaves it: noise is in all that is kept
        with ws.session() as session:
            loaded = session.open_model()
            loaded.state = replace(
                loaded.state, kept_centre=None, statistics=None, stale_inverse=None
            )
        report = ws.audit(deleted=rows_of(who, tmp_path), random_state=0)
    assert report.outcome == "cannot tell"
    assert "nobody could tell" in report.verdict
    help_text = " ".join(CliRunner().invoke(app, ["audit", "--help"]).output.split())
    assert "0 forgotten, 1 not forgotten, 2 an error, 3 the audit cannot tell" in help_text


@pytest.mark.parametrize("in_memory", [0, 1 << 29])
def test_rows_erased_during_an_audit_stay_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    """Rows too many to be kept in memory, and few that are."""
    monkeypatch.setattr(datasets, "IN_MEMORY", in_memory)
    with make(tmp_path / "w", None, table=TABLE).open() as ws:
        with ws.session() as session:
            evidence = audit.gather(session, None)
        before = np.array(evidence.data.rows.X)
        ws.forget(subjects=[subject(ws)])
        with ws.session() as session:
            assert (session.dataset()["X"][0] == 0).all()  # they are gone from the files
        np.testing.assert_array_equal(evidence.data.rows.X, before)
        report = evidence.weigh(1.0, None, 0, None)
        assert report.audit.weight_distance < 1e-6
