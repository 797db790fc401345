"""The contract of sources, for every format: ours, and the one that tests/plugin adds."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import people
from unfit.cli import app
from unfit.data.sources import SOURCES, Location, Source, base, open_source
from unfit.errors import BadInput
from unfit.testing import check_source
from unfit.workspace import Workspace, init

TABLE = people.people(n=60)


def json_lines(table: pa.Table, path: Path, within: str | None = None) -> Path:
    rows = [row if within is None else {within: row} for row in table.to_pylist()]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def located(format: str, folder: Path) -> tuple[Location, pa.Table | None]:
    """A place of each format with the same rows; None where the format has columns of its own."""
    if format == "sql":
        import sqlite3

        with sqlite3.connect(folder / "t.db") as connection:
            table = TABLE.select([f.name for f in TABLE.schema if f.type != pa.bool_()])
            names = ", ".join(f'"{name}"' for name in table.column_names)
            connection.execute(f"CREATE TABLE people ({names})")
            marks = ", ".join("?" * table.num_columns)
            rows = [tuple(row.values()) for row in table.to_pylist()]
            connection.executemany(f"INSERT INTO people VALUES ({marks})", rows)
        connection.close()
        return Location(url=f"sqlite:///{folder / 't.db'}", table="people"), table
    if format == "libsvm":
        dump_svmlight_file(
            [[0.5, 0.0], [0.0, 2.0]], [1, -1], str(folder / "t.svm"), zero_based=False
        )
        return Location(folder / "t.svm"), None
    if format == "jsonl":
        return Location(json_lines(TABLE, folder / "t.jsonl")), TABLE
    return Location(people.write(TABLE, folder / f"t.{format}")), TABLE


@pytest.mark.parametrize("format", [*SOURCES])
def test_every_format_passes_the_contract(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", 7)  # several blocks
    monkeypatch.setattr(base, "BLOCK_BYTES", 300)
    location, expected = located(format, tmp_path)
    check_source(location, expected)


class Broken(Source):
    """Rows that are wrong in one way."""

    suffixes = (".broken",)
    fault = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self._times = 0

    @classmethod
    def open(cls, location: Location) -> "Broken":
        return cls(location.file().name)

    def columns(self) -> list[str]:
        return ["a", "a"] if self.fault == "one name twice" else ["a", "b"]

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        self._times += 1
        table = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
        if self.fault == "another order" and self._times > 1:
            table = table.take([2, 1, 0])
        wanted = self.columns() if columns is None else list(columns)
        if self.fault == "always all columns":
            wanted = self.columns()
        if self.fault == "in its own order":
            wanted = [name for name in self.columns() if name in wanted]
        table = table.select(wanted)
        yield from table.to_batches()
        if self.fault == "two types":
            yield from table.cast(pa.schema([(n, pa.string()) for n in wanted])).to_batches()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("one name twice", "two columns of one name"),
        ("another order", "reading it again gives other rows, or another order"),
        ("always all columns", "a block holds the columns"),
        ("in its own order", "a block holds the columns"),
        ("two types", "column 'a' is int64 in one block and string in another"),
    ],
)
def test_the_contract_catches(
    fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.broken").touch()
    monkeypatch.setitem(SOURCES._loaded, "broken", Broken)
    check_source(Location(tmp_path / "t.broken"))
    monkeypatch.setattr(Broken, "fault", fault)
    with pytest.raises(AssertionError, match=said):
        check_source(Location(tmp_path / "t.broken"))


def test_a_workspace_is_made_trained_and_asked_with_a_format_of_a_package(tmp_path: Path) -> None:
    table = people.people()
    source = json_lines(table, tmp_path / "people.jsonl", within="person_record")
    command = ["init", source, "--label", "label", "--subject", "person", "--row-id", "record"]
    command += ["-w", tmp_path / "w", "--source-option", "within=person_record"]
    result = CliRunner().invoke(app, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    assert 'options = {"within" = "person_record"}' in (tmp_path / "w" / "unfit.toml").read_text()
    with Workspace(tmp_path / "w") as ws:
        assert ws.train().rows > 0
        by_plugin = ws.predict(source).table
        by_csv = ws.predict(people.write(table, tmp_path / "people.csv")).table
        assert by_plugin is not None
        assert by_plugin.equals(by_csv)
        assert ws.forget(subjects=["p0001"]).subjects == 1


def test_a_format_that_nobody_has_is_named_with_those_there_are(tmp_path: Path) -> None:
    source = people.write(TABLE, tmp_path / "t.csv")
    with pytest.raises(BadInput, match="unknown format 'xls'; there are csv, parquet, .*jsonl"):
        init(source, tmp_path / "w", label="label", subject="person", format="xls")
    (tmp_path / "t.xls").touch()
    with pytest.raises(BadInput, match="cannot tell the format of t.xls .* --format"):
        open_source(Location(tmp_path / "t.xls"))
