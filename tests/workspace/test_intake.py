"""Tables as people have them: what is found out is said and written down, what is lost counted."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import people
from unfit.cli import app
from unfit.errors import BadInput
from unfit.workspace import Workspace, init
from unfit.workspace.config import read

ROLES = {"label": "label", "subject": "person", "row_id": "record"}
RUN = CliRunner().invoke


def table(n: int = 300) -> dict[str, list[Any]]:
    made = people.people(n=n, subjects=120).to_pydict()
    made["city"] = [None if c is None else f"Zürich {c}" for c in made["city"]]
    return made


def text_of(columns: dict[str, list[Any]], delimiter: str = ",", decimal: str = ".") -> str:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return repr(value).replace(".", decimal)
        return "" if value is None else str(value)

    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(columns)
    writer.writerows([cell(v) for v in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def run(*arguments: object) -> Any:
    result = RUN(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


def trained(folder: Path) -> Workspace:
    toml = folder / "unfit.toml"
    toml.write_text(toml.read_text().replace("min_rows = 10", "min_rows = 1 "))
    ws = Workspace(folder)
    ws.train()
    return ws


@pytest.mark.parametrize(
    ("delimiter", "decimal", "encoding", "said"),
    [
        (";", ",", "latin-1", "CSV with semicolons, encoded as latin-1\n"),
        ("\t", ".", "utf-16", "CSV with tabs, encoded as utf-16\n"),
        (",", ".", "utf-8-sig", None),
        ("|", ",", "cp1252", "CSV with '|', encoded as latin-1\n"),  # the same letters
    ],
)
def test_dialects_just_work_and_give_the_same_model(
    delimiter: str, decimal: str, encoding: str, said: str | None, tmp_path: Path
) -> None:
    columns = table()
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    source = tmp_path / "t.csv"
    source.write_bytes(text_of(columns, delimiter, decimal).encode(encoding))
    options = ["--label", "label", "--subject", "person", "--row-id", "record", "--random-state", 0]
    first = run("init", source, "-w", tmp_path / "csv", *options).stdout
    assert said is None or said in first
    assert ("CSV with" in first) == (said is not None)
    assert ("decimal commas in: age, income" in first) == (decimal == ",")
    run("init", tmp_path / "t.parquet", "-w", tmp_path / "parquet", *options)
    written = read(tmp_path / "csv")
    assert written.source.delimiter == delimiter
    assert (written.columns["age"].get("decimal") == ",") == (decimal == ",")
    gone = [row for row, who in enumerate(columns["person"]) if who == "p0003"]
    lost = {name: [values[i] for i in gone] for name, values in columns.items()}
    (tmp_path / "gone.csv").write_bytes(text_of(lost, delimiter, decimal).encode(encoding))
    with trained(tmp_path / "csv") as one, trained(tmp_path / "parquet") as other:
        mine, theirs = one.predict(source), other.predict(tmp_path / "t.parquet")
        assert mine.table is not None
        assert mine.table.equals(theirs.table)
        assert one.forget(subjects=["p0003"]).matched == "all"
        assert one.audit(deleted=tmp_path / "gone.csv").n_available == len(gone)
    piped = RUN(app, ["predict", "-", "-w", str(tmp_path / "csv")], input=source.read_bytes())
    assert "300 rows predicted" in piped.stderr


def test_a_word_among_numbers_is_said_and_can_be_taken_for_missing(tmp_path: Path) -> None:
    columns = table()
    columns["age"][37] = "unknown"
    columns["income"][3] = columns["income"][8] = "EUR 50"
    source = tmp_path / "t.csv"
    source.write_text(text_of(columns))
    options = ["--label", "label", "--subject", "person", "--row-id", "record"]
    said = run("init", source, "-w", tmp_path / "a", *options).stdout
    known = 300 - sum(v is None for v in columns["age"])
    assert (
        f"column 'age': {known - 1} of {known} values are numbers, 1 is not ('unknown' in row 37), "
        "so it is read as a category; --numeric age reads" in said
    )
    assert "298 of 300 values are numbers, 2 are not ('EUR 50' in row 3)" in said
    assert read(tmp_path / "a").columns["age"]["kind"] == "category"

    more = ["--numeric", "age", "--numeric", "income", "--json"]
    made = json.loads(run("init", source, "-w", tmp_path / "b", *options, *more).stdout)
    assert made["columns"]["numeric"] == 2
    assert [remark.partition("and ")[2] for remark in made["remarks"]] == [
        "counts as missing",
        "count as missing",
    ]
    config = read(tmp_path / "b")
    assert config.columns["age"] == {
        "kind": "numeric",
        "scale": "standard",
        "missing": "mean",
        "unreadable": "missing",
    }
    assert "# fewer than 10 more are not numbers" in (tmp_path / "b" / "unfit.toml").read_text()
    said = run("train", "-w", tmp_path / "b").stdout
    assert "column 'age': 1 value is not a number and counts as missing" in said
    assert "column 'income': 2 values are not numbers" in said
    shown = run("predict", source, "-o", tmp_path / "p.csv", "-w", tmp_path / "b").stderr
    assert "3 values are not numbers and count as missing" in shown


def test_rows_without_label_or_subject_are_refused_or_left_out(tmp_path: Path) -> None:
    columns = table()
    columns["label"][5] = None
    columns["person"][7] = columns["person"][5] = ""
    columns["person"][9] = "   "
    columns["record"][11] = None
    source = tmp_path / "t.csv"
    source.write_text(text_of(columns))
    for lacking, said in (
        (ROLES, "label 'label' is missing in row 5; --drop-missing leaves"),
        (ROLES | {"label": "plan"}, "subject 'person' is missing in 3 rows, the first of them 5,"),
    ):
        with pytest.raises(BadInput, match=said):
            init(source, tmp_path / "w", **lacking)  # type: ignore[arg-type]
    assert not (tmp_path / "w").exists()
    made = init(source, tmp_path / "w", drop_missing=True, random_state=0, **ROLES)  # type: ignore[arg-type]
    assert (made.rows, made.dropped) == (296, 4)
    toml = tmp_path / "w" / "unfit.toml"
    assert "drop_missing = true" in toml.read_text()
    said = run("train", "-w", tmp_path / "w").stdout
    assert "rows left out because label, subject or id is missing: 4" in said
    with Workspace(tmp_path / "w") as ws:
        dataset = ws.layout.generation("rows-1")
        assert dataset.is_dir()
        assert ws.forget(rows=["r00010"]).rows == 1
        assert ws.forget(rows=["r00011"]).matched == "none"
        gone = {name: [v[10], v[5]] for name, v in columns.items()}
        (tmp_path / "gone.csv").write_text(text_of(gone))
        assert ws.audit(deleted=tmp_path / "gone.csv").n_available == 1
    toml.write_text(toml.read_text().replace("drop_missing = true", "drop_missing = false"))
    with Workspace(tmp_path / "w") as ws, pytest.raises(BadInput, match="row 1 has no 'label'"):
        ws.audit(deleted=tmp_path / "gone.csv")
    other = tmp_path / "other"
    other.mkdir()
    (other / "unfit.toml").write_text(toml.read_text())
    with (
        Workspace(other) as ws,
        pytest.raises(BadInput, match="row 5 has no 'label'.*drop_missing"),
    ):
        ws.train()


def test_rows_keep_their_numbers_when_others_are_left_out(tmp_path: Path) -> None:
    columns = {k: v for k, v in table(120).items() if k not in ("person", "record")}
    columns["label"][5] = columns["label"][60] = None
    source = tmp_path / "t.csv"
    source.write_text(text_of(columns))
    init(source, tmp_path / "w", label="label", drop_missing=True, random_state=0)
    with trained(tmp_path / "w") as ws:
        numbers = sorted(ws._session.store.forgotten.rows())
        assert numbers == []
        assert ws.forget(rows=[5, 60]).matched == "none"
        assert ws.forget(rows=[119], subjects=[6]).rows == 2
        assert ws.store.forgotten.rows() == [(6, 2), (119, 2)]
    columns["age"][100] = "x"
    text = (tmp_path / "w" / "unfit.toml").read_text()
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "unfit.toml").write_text(text)
    source.write_text(text_of(columns))
    with (
        Workspace(tmp_path / "v") as ws,
        pytest.raises(BadInput, match="row 100, column 'age': 'x'"),
    ):
        ws.train()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"numeric": ["plan"]}, "column 'plan' has no value that is a number"),
        ({"numeric": ["label"]}, "--numeric label: that column is the label"),
        ({"numeric": ["nothing"]}, "no column 'nothing'"),
        ({"decimal": ";"}, "the decimal separator is"),
        ({"delimiter": ";;"}, "one character"),
        ({"encoding": "klingon"}, "unknown encoding"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text(text_of(table(40)))
    with pytest.raises(BadInput, match=said):
        init(source, tmp_path / "w", **ROLES, **options)
    parquet.write_table(pa.table(table(40)), tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="--delimiter applies to CSV files"):
        init(tmp_path / "t.parquet", tmp_path / "w", delimiter=";", **ROLES)  # type: ignore[arg-type]


def test_ids_that_differ_in_blanks_alone_are_refused_at_once(tmp_path: Path) -> None:
    columns = table(40)
    columns["person"][0], columns["person"][1] = "p7", "p7  "
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(
        BadInput, match="'p7' and 'p7  ' are each .* only in the blanks around them"
    ):
        init(tmp_path / "t.parquet", tmp_path / "w", **ROLES)  # type: ignore[arg-type]
    assert not (tmp_path / "w").exists()


def test_unclear_commas_want_a_word(tmp_path: Path) -> None:
    columns = table(40)
    columns["income"] = ["1,234", "12,345"] * 20
    source = tmp_path / "t.csv"
    source.write_text(text_of(columns))
    said = run(
        "init",
        source,
        "-w",
        tmp_path / "a",
        "--label",
        "label",
        "--subject",
        "person",
        "--row-id",
        "record",
    ).stdout
    assert "column 'income': a comma may stand before a fraction or between thousands" in said
    with pytest.raises(BadInput, match="--decimal , or --decimal"):
        init(source, tmp_path / "b", numeric=["income"], **ROLES)  # type: ignore[arg-type]
    made = init(source, tmp_path / "b", decimal=",", **ROLES)  # type: ignore[arg-type]
    assert {c.name: c.kind for c in made.columns}["income"] == "numeric"
