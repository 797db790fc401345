"""Cells that a spreadsheet would run, and files that their owner alone may read."""

import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from workspaces import make

import people
from unfit.cli import app
from unfit.workspace import Workspace
from unfit.workspace.spreadsheets import count_formulas, escaped

FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@given(st.lists(st.text(max_size=5) | st.none(), max_size=20))
def test_only_texts_that_look_like_formulas_change_and_only_by_an_apostrophe(
    texts: list[str | None],
) -> None:
    batch = pa.record_batch({"t": pa.array(texts, pa.string()), "n": pa.array([-1.5] * len(texts))})
    made = escaped(batch)
    expected = ["'" + t if t is not None and t.startswith(FORMULAS) else t for t in texts]
    assert made["t"].to_pylist() == expected
    assert made["n"].equals(batch["n"])
    assert count_formulas(batch) == sum(a != b for a, b in zip(texts, expected, strict=True))
    assert count_formulas(made) == 0


def test_predictions_for_a_spreadsheet_and_for_everything_else(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    table = people.people().slice(0, 3)
    ids = ["=1+1", "-7", "p"]
    table = table.set_column(table.column_names.index("record"), "record", pa.array(ids))
    source = tmp_path / "new.parquet"
    pa.parquet.write_table(table, source)

    def predict(*options: str) -> tuple[list[str], str]:
        output = tmp_path / "out.csv"
        command = ["predict", str(source), "-o", str(output), "-w", str(kept.folder), *options]
        answer = CliRunner().invoke(app, command)
        assert answer.exit_code == 0, answer.output
        text = pa.csv.ConvertOptions(column_types={"record": pa.string()})
        return pa.csv.read_csv(output, convert_options=text)["record"].to_pylist(), answer.stderr

    assert predict()[0] == ids  # as they are: they are looked up by these
    assert "2 of the texts as formulas" in predict()[1]
    written, said = predict("--spreadsheet")
    assert written == ["'=1+1", "'-7", "p"]
    assert "formulas" not in said


def modes(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): stat.S_IMODE(p.stat().st_mode)
        for p in [folder, *folder.rglob("*")]
    }


@pytest.fixture
def careless() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
def test_what_a_workspace_writes_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    kept = make(
        tmp_path / "w",
        None,
        edit=lambda t: t.replace('audit_window = "none"', 'audit_window = "30d"'),
    )
    with kept.open() as ws:
        ws.forget(subjects=["p0003"])
        ws.retrain()
        assert CliRunner().invoke(app, ["audit", "-w", str(kept.folder)]).exit_code in (0, 3)
        found = modes(kept.folder)
        assert "unfit.db-wal" in found
        assert "retained" in found
        assert "reports" in found
        beside = {
            p.name: stat.S_IMODE(p.stat().st_mode) for p in kept.folder.parent.glob("*.forgotten*")
        }
    assert not {name: oct(mode) for name, mode in (found | beside).items() if mode & 0o077}


@pytest.mark.usefixtures("careless")
def test_so_it_is_while_a_first_training_lasts(tmp_path: Path) -> None:
    with make(tmp_path / "w", None, trained=False).open() as ws:
        ws.train()
        found = modes(ws.folder)
        assert "unfit.trained" in found
    assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077}


@pytest.mark.usefixtures("careless")
def test_an_earlier_workspace_is_taken_back_by_its_owner(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)
    for path in [kept.folder, *kept.folder.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    with Workspace(kept.folder) as ws:
        ws.status()
        found = modes(kept.folder)
    assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077}
