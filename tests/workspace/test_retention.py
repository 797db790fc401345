"""Rows kept for audits: said everywhere, and gone when their time is over."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner
from workspaces import Kept, make

import people
from unfit.cli import app
from unfit.workspace import Workspace

START = datetime(2030, 1, 1, tzinfo=UTC)
run = CliRunner().invoke


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return make(tmp_path / "w", None, audit_window="30d")


def test_an_answer_and_a_status_name_the_rows_and_until_when(kept: Kept) -> None:
    clock = Clock()
    with Workspace(kept.folder, clock=clock) as ws:
        made = ws.forget(subjects=["p0003"], key="a")
        assert (made.purged, made.purge_due, made.kept_until) == (
            False,
            False,
            START + timedelta(days=30),
        )
        assert made.kept_rows == made.rows > 0
        clock.now += timedelta(days=10)
        more = ws.forget(subjects=["p0007"], key="b")
        found = ws.status()
        assert found.retained.rows == made.kept_rows + more.kept_rows
        assert found.retained.until == START + timedelta(days=40)
        assert found.audit_window == timedelta(days=30)
        assert not found.purge_due
        (first,) = ws.store.requests.find(key="a")
        assert (first.erased, first.purged, first.kept_until) == (True, False, made.kept_until)
        clock.now += timedelta(days=21)  # the first window is over, and nobody has come
        found = ws.status()
        assert (found.retained.overdue_rows, found.purge_due) == (made.kept_rows, True)
        assert ws.purge_expired() == made.kept_rows
        assert ws.purge_expired() == 0
        (first,) = ws.store.requests.find(key="a")
        assert (first.purged, first.kept_until) == (True, None)
        assert [p.name for p in (kept.folder / "retained").iterdir()] == ["3.parquet"]
        again = ws.forget(subjects=["p0003"], key="a")
        assert (again.replayed, again.purged, again.kept_until) == (True, True, None)
        assert ws.status().retained.rows == more.kept_rows


def test_without_a_window_nothing_is_kept_and_an_erasure_is_purged(tmp_path: Path) -> None:
    with make(tmp_path / "w", None).open() as ws:
        made = ws.forget(subjects=["p0003"], key="a")
        assert (made.purged, made.kept_rows, made.kept_until) == (True, 0, None)
        assert ws.store.requests.find(key="a")[0].purged
        assert ws.status().retained.rows == 0
        ws.defer_purge()
        made = ws.forget(subjects=["p0007"], key="b")
        assert (made.purged, made.purge_due) == (False, True)
        assert ws.store.requests.find(key="a")[0].purged  # long since
        assert not ws.store.requests.find(key="b")[0].purged
        ws.purge()
        assert ws.store.requests.find(key="b")[0].purged


def test_the_command_line_says_so(kept: Kept) -> None:
    told = run(app, ["forget", "--subject", "p0003", "-w", str(kept.folder)])
    assert "kept for audits until" in told.output
    assert "retention.audit_window" in told.output
    screen = run(app, ["status", "-w", str(kept.folder)], env={"COLUMNS": "200"}).output
    assert "deleted training row" in screen
    assert "(retention.audit_window), the last until" in screen
    with Workspace(kept.folder, clock=lambda: datetime.now(UTC) - timedelta(days=31)) as ws:
        ws.forget(subjects=["p0007"])
    screen = run(app, ["status", "-w", str(kept.folder)], env={"COLUMNS": "200"}).output
    assert "should have been purged by now, but nothing has run since; the next" in screen
    told = run(app, ["status", "--json", "-w", str(kept.folder)]).output
    assert '"retained_overdue_rows": ' in told
    assert '"audit_window_seconds": 2592000.0' in told


@pytest.mark.parametrize(
    ("command", "removes"),
    [
        (["forget", "--subject", "p0009"], True),
        (["predict", "people.csv", "--output", "out.csv"], True),
        (["audit"], True),
        (["retrain"], True),
        (["export", "--output", "model.zip"], True),
        (["status"], False),
    ],
)
def test_which_commands_remove_what_is_overdue(
    kept: Kept, command: list[str], removes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people.write(people.people(n=20), tmp_path / "people.csv")
    with Workspace(kept.folder, clock=lambda: datetime.now(UTC) - timedelta(days=31)) as ws:
        ws.forget(subjects=["p0003"])
    result = run(app, [*command, "-w", str(kept.folder)])
    assert result.exit_code in (0, 3), result.output
    with kept.open() as ws:
        assert (ws.status().retained.overdue_rows == 0) == removes
