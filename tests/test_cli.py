"""The command line as a person types it."""

import json

import pytest
from typer.testing import CliRunner

from unfit import __version__
from unfit.cli import app

run = CliRunner().invoke


def test_help_teaches():
    for arguments in (["--help"], ["demo", "--help"], ["bench", "--help"]):
        result = run(app, arguments)
        assert result.exit_code == 0
    assert "demo" in run(app, ["--help"]).output
    assert "UNFIT_DATA" in run(app, ["bench", "--help"]).output


def test_version():
    assert run(app, ["version"]).output.strip() == __version__


def test_demo(tmp_path):
    picture = tmp_path / "picture.png"
    result = run(app, ["demo", "--output", str(picture)])
    assert result.exit_code == 0, result.output
    for word in ("fisher", "influence", "deltagrad", "retrain", "AccDis", "picture.png"):
        assert word in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_as_json(tmp_path):
    result = run(app, ["demo", "--json", "--output", str(tmp_path / "p.png")])
    figures = json.loads(result.stdout)
    assert len(figures) == 12
    exact = [f for f in figures if f["method"] == "retrain"]
    assert all(f["acc_dis"] == 0 and f["passed"] for f in exact)


def test_bench_on_built_in_data(tmp_path):
    output = tmp_path / "bench.json"
    result = run(
        app,
        ["bench", "--quick", "--dataset", "digits", "--section", "forgetting", "--section",
         "training", "--section", "deltagrad", "--section", "noise", "--section", "start-up",
         "--output", str(output)],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    figures = json.loads(output.read_text())
    assert figures["machine"]["cores"] >= 1
    assert figures["machine"]["versions"]["numpy"]
    assert {row["section"] for row in figures["rows"]} == {
        "forgetting", "training", "deltagrad", "noise", "start-up",
    }  # fmt: skip
    assert all(row["ratio"] > 0 for row in figures["rows"])
    assert "ratio" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "imagenet"], "unknown data set 'imagenet'; there are"),
        (["--section", "luck", "--quick"], "unknown section 'luck'; there are"),
        (["--quick", "--markdown", "/nowhere/x.md"], "no folder /nowhere to put x.md in"),
        (["--dataset", "mnist-b"], "set UNFIT_DATA to the folder that holds mnist.npz"),
    ],
)
def test_bench_says_what_is_wrong(arguments, words, monkeypatch, tmp_path):
    monkeypatch.delenv("UNFIT_DATA", raising=False)
    result = run(app, ["bench", *arguments, "--output", str(tmp_path / "b.json")])
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "b.json").exists()
