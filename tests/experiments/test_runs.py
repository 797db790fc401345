"""Finished runs are kept, whatever happens next."""

import pytest

from unfit.errors import Damaged
from unfit.experiments import runs as module
from unfit.experiments.runs import Run, Runs


def some(count, **measures):
    return [
        (Run("retrain", "toy", "law", i / 100, seed=i), {"acc": i / 10} | measures)
        for i in range(count)
    ]


def test_runs_are_found_again_by_their_settings(tmp_path):
    runs = Runs(tmp_path)
    for run, measures in some(5):
        runs.add(run, measures)
    again = Runs(tmp_path)
    assert len(again) == 5
    assert again[some(5)[3][0]] == {"acc": 0.3}
    wanted = [run for run, _ in some(7)]
    assert again.missing(wanted + wanted) == wanted[5:]
    assert (tmp_path / "runs.parquet").exists()
    assert not (tmp_path / "runs.journal").exists()


def test_a_line_cut_off_by_a_crash_is_a_run_that_was_not_finished(tmp_path):
    runs = Runs(tmp_path)
    for run, measures in some(4):
        runs.add(run, measures)
    journal = tmp_path / "runs.journal"
    content = journal.read_bytes()
    for cut in range(len(content) - 60, len(content)):
        journal.write_bytes(content[:cut])
        (tmp_path / "runs.parquet").unlink(missing_ok=True)
        again = Runs(tmp_path)
        assert len(again) == (4 if cut == len(content) - 1 else 3)
        again.add(*some(4)[3])
        assert len(Runs(tmp_path)) == 4


def test_a_crash_between_folding_and_dropping_the_journal_repeats_nothing(tmp_path, monkeypatch):
    runs = Runs(tmp_path)
    for run, measures in some(3):
        runs.add(run, measures)
    journal = (tmp_path / "runs.journal").read_bytes()
    runs.fold()
    (tmp_path / "runs.journal").write_bytes(journal)
    again = Runs(tmp_path)
    assert len(again) == 3
    assert len(again.frame()) == 3


def test_the_journal_is_folded_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLD_EVERY", 2)
    runs = Runs(tmp_path)
    for run, measures in some(5):
        runs.add(run, measures)
    assert len((tmp_path / "runs.journal").read_text().splitlines()) == 1
    assert len(Runs(tmp_path)) == 5


def test_the_table_is_tidy_and_can_be_asked(tmp_path):
    runs = Runs(tmp_path)
    runs.add(Run("retrain", "a"), {"acc": 1.0})
    runs.add(Run("unlearn", "b", sigma=0.5), {"err": 2.0})
    assert list(runs.frame(dataset="b")["err"]) == [2.0]
    assert len(Runs(tmp_path).frame()) == 2
    assert Runs(tmp_path)[Run("retrain", "a")] == {"acc": 1.0}


def test_a_damaged_table_is_said_to_be_so(tmp_path):
    (tmp_path / "runs.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(Damaged, match="remove it to run everything again"):
        Runs(tmp_path)
