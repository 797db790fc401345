"""The command line as a person types it."""

import json
import re

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import people
from unfit import __version__
from unfit.cli import app

run = CliRunner().invoke


def test_help_teaches():
    assert "demo" in run(app, ["--help"]).output
    assert "UNFIT_DATA" in run(app, ["bench", "--help"]).output


def test_version():
    assert run(app, ["version"]).output.strip() == __version__


def test_demo_tells_the_whole_story(tmp_path):
    folder = tmp_path / "demo"
    for _ in range(2):  # and can be told again
        result = run(app, ["demo", "--output", str(folder), "--json"])
        assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [w["name"] for w in told["waves"]] == ["random", "targeted", "informed"]
    assert sum(w["retrainings"] for w in told["waves"]) == 2  # two means change after rounding
    assert told["served"]["rows"] > 0
    assert len(told["served"]["by_version"]) > 1
    assert told["audit"]["passed"] is True
    assert told["audit"]["n_available"] == told["audit"]["n_deleted"] > 0
    for name in ("report.html", "audit.html"):
        page = (folder / name).read_text()
        assert page.count("<svg") >= 3
        for outside in ("http://", "https://", "<script", "src="):
            assert outside not in page.replace("http://www.w3.org/2000/svg", "")
    shown = run(app, ["status", "-w", str(folder / "workspace")])
    assert "estimated disparity" in shown.output


def test_the_demo_touches_no_folder_it_has_not_made(tmp_path):
    (tmp_path / "mine").mkdir()
    result = run(app, ["demo", "--output", str(tmp_path / "mine")])
    assert result.exit_code == 2
    assert "no demo" in result.output
    assert (tmp_path / "mine").is_dir()


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A trained workspace and a file of rows, made by the commands themselves."""
    root = tmp_path_factory.mktemp("cli")
    people.write(people.people(), root / "people.csv")
    made = ["init", root / "people.csv", "--label", "label", "--subject", "person", "--row-id",
            "record", "-w", root / "ws", "--random-state", "0", "--threshold", "50"]  # fmt: skip
    for arguments in (made, ["train", "-w", root / "ws"]):
        result = run(app, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
    return root


def ask(ready, *arguments, **options):
    return run(app, [*(str(a) for a in arguments), "-w", str(ready / "ws")], **options)


def test_predictions_go_to_files_and_come_from_a_pipe(ready, tmp_path):
    source = (ready / "people.csv").read_bytes()
    for name in ("out.csv", "out.parquet"):
        result = ask(ready, "predict", ready / "people.csv", "-o", tmp_path / name)
        assert "400 rows predicted by version" in result.stderr
    piped = ask(ready, "predict", "-", input=source)
    assert piped.exit_code == 0
    assert piped.stdout_bytes == (tmp_path / "out.csv").read_bytes()
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.num_rows == 400
    assert "as labelled" in piped.stderr


def test_forget_from_a_file_and_from_stdin(ready, tmp_path):
    (tmp_path / "ids.txt").write_text("p0001\n\n p0002 \nnobody\n")
    made = json.loads(ask(ready, "forget", "--file", tmp_path / "ids.txt", "--json").stdout)
    assert made["unknown"] == ["nobody"]
    assert made["subjects"] == 2
    made = json.loads(ask(ready, "forget", "--stdin", "--json", input="p0005\n").stdout)
    assert made["rows"] > 0
    rows = ask(ready, "forget", "--stdin", "--by-row", "--json", input="r00007\nr00009\n")
    assert json.loads(rows.stdout)["rows"] == 2
    assert (
        json.loads(ask(ready, "forget", "--rows", "r00010, r00011", "--json").stdout)["rows"] == 2
    )


def test_exit_codes(ready, tmp_path):
    assert ask(ready, "forget", "--subject", "nobody").exit_code == 0
    assert ask(ready, "forget", "--subject", "nobody", "--strict").exit_code == 4
    assert ask(ready, "forget").exit_code == 2
    assert ask(ready, "train").exit_code == 2
    assert ask(ready, "forget", "--file", tmp_path / "none").exit_code == 2
    assert run(app, ["status", "-w", str(tmp_path)]).exit_code == 2
    assert ask(ready, "audit", "--deleted", ready / "people.csv").exit_code == 2  # not deleted
    audit = ask(ready, "audit", "--threshold", "100")
    assert audit.exit_code == 0
    assert "page:" in audit.output


def test_an_audit_that_fails_says_so_with_its_exit_code(tmp_path):
    from workspaces import make

    kept = make(tmp_path / "w", None, method="influence")
    table = people.people()
    gone = [f"p{i:04d}" for i in range(3, 30)]
    chosen = [who in gone for who in table["person"].to_pylist()]
    source = people.write(table.filter(pa.array(chosen)), tmp_path / "gone.parquet")
    (tmp_path / "ids").write_text("\n".join(gone))
    run(app, ["forget", "--file", str(tmp_path / "ids"), "-w", str(kept.folder)])
    result = run(
        app,
        ["audit", "--deleted", str(source), "--threshold", "0", "--draws", "3", "--random-state",
         "0", "--report", str(tmp_path / "page.html"), "-w", str(kept.folder)],
    )  # fmt: skip
    assert result.exit_code == 1
    assert "not forgotten: " in result.output
    page = (tmp_path / "page.html").read_text()
    assert "verdict failed" in page
    assert page.count("<title>AccDis") == 3


def test_status_as_json(ready):
    found = json.loads(ask(ready, "status", "--json").stdout)
    assert found["version"] >= 1
    assert len(found["decisions"]) == len(found["versions"])


def _seconds(shown):
    number, unit = shown.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


def test_bench_on_built_in_data(tmp_path):
    output = tmp_path / "bench.json"
    result = run(
        app,
        ["bench", "--quick", "--dataset", "digits", "--section", "forgetting", "--section",
         "stream", "--section", "training", "--section", "deltagrad", "--section", "noise",
         "--section", "start-up", "--output", str(output)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    figures = json.loads(output.read_text())
    assert figures["machine"]["cores"] >= 1
    assert figures["machine"]["versions"]["numpy"]
    assert {row["section"] for row in figures["rows"]} == {
        "forgetting", "stream", "training", "deltagrad", "noise", "start-up",
    }  # fmt: skip
    streams = [row for row in figures["rows"] if row["section"] == "stream"]
    assert len(streams) == 2
    for row in streams:  # what is compared with refits holds the preparation, too
        parts = re.search(r"unlearn (.*) \+ prepare (.*)", row["what"])
        assert parts is not None
        assert _seconds(row["ours"]) == pytest.approx(
            _seconds(parts[1]) + _seconds(parts[2]), rel=0.02
        )
        assert row["ratio"] == pytest.approx(
            _seconds(row["theirs"]) / _seconds(row["ours"]), rel=0.02
        )
    assert all(row["ratio"] > 0 for row in figures["rows"])
    assert "ratio" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "imagenet"], "unknown data set 'imagenet'; there are"),
        (["--section", "luck", "--quick"], "unknown section 'luck'; there are"),
        (["--quick", "--markdown", "/nowhere/x.md"], "no folder /nowhere to put x.md in"),
        (["--dataset", "mnist-b"], "into a folder, and set UNFIT_DATA to it, or use --quick"),
    ],
)
def test_bench_says_what_is_wrong(arguments, words, monkeypatch, tmp_path):
    monkeypatch.delenv("UNFIT_DATA", raising=False)
    monkeypatch.setenv("UNFIT_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens: the net is away
    result = run(app, ["bench", *arguments, "--output", str(tmp_path / "b.json")])
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "b.json").exists()
