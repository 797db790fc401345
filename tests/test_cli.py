"""The command line as a person types it."""

import json
from pathlib import Path

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
    codes = " ".join(run(app, ["--help"]).output.split()).partition("Exit codes: ")[2]
    for code in (
        "0 done",
        "1 an audit found",
        "3 an audit cannot tell",
        "4 an id matched nobody",
    ):
        assert code in codes


def test_version():
    assert run(app, ["version"]).output.strip() == __version__
    assert run(app, ["--version"]).output.strip() == __version__


def test_the_shell_can_complete_commands():
    environment = {"_UNFIT_COMPLETE": "complete_bash", "COMP_WORDS": "unfit ret", "COMP_CWORD": "1"}
    assert run(app, [], prog_name="unfit", env=environment).output.split() == ["retrain"]


@pytest.mark.slow
def test_demo_tells_the_whole_story(tmp_path):
    folder = tmp_path / "demo"
    for _ in range(2):  # and can be told again
        result = run(app, ["demo", "--quick", "--output", str(folder), "--json"])
        assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [w["name"] for w in told["waves"]] == ["random", "targeted", "informed"]
    assert sum(w["retrainings"] for w in told["waves"]) >= 1  # means change after rounding
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
    assert "not a demo" in result.output
    assert (tmp_path / "mine").is_dir()


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A trained workspace and a file of rows, made by the commands themselves."""
    root = tmp_path_factory.mktemp("cli")
    people.write(people.people(), root / "people.csv")
    made = [
        "init",
        root / "people.csv",
        "--label",
        "label",
        "--subject",
        "person",
        "--row-id",
        "record",
        "-w",
        root / "ws",
        "--random-state",
        "0",
        "--threshold",
        "50",
    ]
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
    assert "match the label" in piped.stderr


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


def test_messages_name_the_option_that_puts_it_right(ready, tmp_path):
    asked = ask(ready, "forget")
    for option in ("--subject", "--row", "--file", "--stdin"):
        assert option in asked.stderr
    (tmp_path / "unlabelled.csv").write_text("a,b\n1,2\n2,3\n")
    for name, options, words in (
        (tmp_path / "unlabelled.csv", [], "--label is missing"),
        (ready / "people.csv", ["--method", "fishr"], "--method fishr: there are fisher, influ"),
        (ready / "people.csv", ["--test-share", "2"], "--test-share 2: a share is between 0 and"),
    ):
        result = run(app, ["init", str(name), "-w", str(tmp_path / "w"), *options])
        assert result.exit_code == 2
        assert words in result.stderr
        assert "unfit.toml" not in result.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["export", "-o", "."], "{here} is a folder; name a file to write"),
        (["export", "-o", "m.npz"], "a zip file: name it .zip, and not .npz"),
        (["export", "-o", "m.json"], "a zip file: name it .zip, and not .json"),
        (["export", "-o", "/proc/m.zip"], ": /proc/m.zip; nothing was changed"),
        (["predict", "{people}", "-o", "/proc/x.csv"], ": /proc/x.csv; nothing was changed"),
        (["predict", "{people}", "-o", "d.csv"], "{here}/d.csv is a folder; name a file to write"),
    ],
)
def test_files_that_cannot_be_written_are_named_in_full(
    ready, tmp_path, monkeypatch, command, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").mkdir()
    names = {"here": tmp_path, "people": ready / "people.csv"}
    result = ask(ready, *(word.format(**names) for word in command))
    assert result.exit_code == 2
    assert words.format(**names) in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]


def test_a_workspace_that_cannot_be_made_is_named_in_full(ready):
    result = run(app, ["init", str(ready / "people.csv"), "--label", "label", "-w", "/proc/ws"])
    assert result.exit_code == 2
    assert ": /proc/ws; nothing was changed" in result.output


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
        [
            "audit",
            "--deleted",
            str(source),
            "--threshold",
            "0",
            "--draws",
            "3",
            "--random-state",
            "0",
            "--report",
            str(tmp_path / "page.html"),
            "-w",
            str(kept.folder),
        ],
    )
    assert result.exit_code == 1
    assert "not forgotten: " in result.output
    page = (tmp_path / "page.html").read_text()
    assert "verdict failed" in page
    assert page.count("<title>AccDis") == 3


def test_the_page_of_an_audit_tells_no_more_than_the_records(tmp_path):
    """It stays, and nothing purges it: of few deleted rows it holds the verdict alone."""
    from workspaces import make

    from unfit.pages.audit import TOO_FEW

    min_rows = "min_rows = 50"
    kept = make(tmp_path / "w", None, edit=lambda text: text.replace("min_rows = 1", min_rows))
    assert min_rows in (kept.folder / "unfit.toml").read_text()
    table = people.people()
    one = pa.array([who == "p0003" for who in table["person"].to_pylist()])
    source = people.write(table.filter(one), tmp_path / "gone.parquet")
    run(app, ["forget", "--subject", "p0003", "-w", str(kept.folder)])
    asked = ["audit", "--deleted", str(source), "--json", "-w", str(kept.folder)]
    said = json.loads(run(app, asked).stdout)
    assert said["deleted_log_loss_updated"] is not None  # on the screen, once
    page = Path(said["page"]).read_text()
    assert TOO_FEW in page
    assert "forgotten" in page


def test_an_audit_that_cannot_write_its_page_is_not_made(ready, tmp_path):
    before = json.loads(ask(ready, "status", "--json").stdout)["last_audit"]
    result = ask(ready, "audit", "--report", tmp_path / "none" / "page.html")
    assert result.exit_code == 2
    assert json.loads(ask(ready, "status", "--json").stdout)["last_audit"] == before


def test_status_as_json(ready):
    found = json.loads(ask(ready, "status", "--json").stdout)
    assert found["version"] >= 1
    assert len(found["decisions"]) == len(found["versions"])


def _seconds(shown):
    number, unit = shown.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


@pytest.mark.slow
def test_bench_on_built_in_data(tmp_path):
    output = tmp_path / "bench.json"
    result = run(
        app,
        [
            "bench",
            "--quick",
            "--dataset",
            "digits",
            "--section",
            "forgetting",
            "--section",
            "stream",
            "--section",
            "training",
            "--section",
            "deltagrad",
            "--section",
            "noise",
            "--section",
            "fit",
            "--section",
            "batches",
            "--section",
            "start-up",
            "--output",
            str(output),
        ],
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(output.read_text())
    assert figures["machine"]["cores"] >= 1
    assert figures["machine"]["versions"]["numpy"]
    assert {row["section"] for row in figures["rows"]} == {
        "forgetting",
        "stream",
        "training",
        "deltagrad",
        "noise",
        "fit",
        "batches",
        "start-up",
    }
    fits = [row["what"] for row in figures["rows"] if row["section"] == "fit"]
    assert {what.split(",")[0] for what in fits} == {"fit to 1e-6", "retrain to 1e-6"}
    streams = [row for row in figures["rows"] if row["section"] == "stream"]
    assert len(streams) == 3
    for row in streams:
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
        (["--quick", "--engine", "abacus"], "unknown engine 'abacus'; there are cpu"),
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


def test_forgetting_nobody_and_the_held_out_leaves_the_model_in_use(tmp_path):
    from workspaces import make

    kept = make(tmp_path / "w", None)
    command = ["-w", str(kept.folder)]
    shown = " ".join(run(app, ["status", *command]).output.split())
    assert "last decision first model (version 1)" in shown
    assert "pending 0 requests" in shown
    none = run(app, ["forget", "--subject", "nobody", *command])
    assert none.stdout.strip() == "version 1 stays active: nobody was forgotten"
    foreseen = run(app, ["forget", "--subject", "nobody", "--dry-run", *command]).stdout
    assert foreseen.strip() == "expected: version 1 stays active: nobody would be forgotten"
    with kept.open() as ws, ws.session() as session:
        data = session.dataset()
        held_out = data.subject_ids.text(int(data["subjects"][data.n_train]))
    told = run(app, ["forget", "--subject", held_out, *command]).stdout
    assert "version 1 stays active: no training row is among them" in told
    shown = " ".join(run(app, ["status", *command]).output.split())
    assert "in 1 request " in shown
    assert "1 request: nobody had any of its ids" in shown
    audit = " ".join(run(app, ["audit", *command]).output.split())
    assert "training rows remain, 0 were deleted (held-out rows are not counted)" in audit
    assert "influence left not measured (no deleted rows at hand)" in audit


def test_the_threshold_stands_on_a_row_of_its_own_name(tmp_path):
    from dataclasses import replace
    from datetime import UTC, datetime

    from rich.console import Console
    from workspaces import make

    from unfit.cli.screen import _estimates
    from unfit.store.records import Decision

    with make(tmp_path / "w", None).open() as ws:
        found = ws.status()
    decisions = [
        Decision(
            version=n,
            at=datetime.now(UTC),
            action="update",
            reason="within",
            inputs={},
            estimate=estimate,
            threshold=1.0,
        )
        for n, estimate in ((2, 0.1), (3, 3.7), (4, 0.0))
    ]
    console = Console(width=80, record=True)
    _estimates(replace(found, decisions=decisions, threshold=1.0), console)
    rows = [line for line in console.export_text().splitlines() if " % " in line]
    (line,) = [row for row in rows[1:] if "-" in row]
    assert line.split()[0] == "1"


def test_the_table_of_the_demo_loses_no_figure_on_80_columns():
    from rich.console import Console

    from unfit.cli.story import _table
    from unfit.pages.story import Wave

    wave = Wave(
        name="targeted",
        requests=40,
        people=1_600,
        rows=12_043,
        seconds=0.9994,
        retraining=59.94,
        estimate=12.34,
        retrainings=1,
        accuracy=0.812,
    )
    console = Console(width=80, record=True)
    console.print(_table([wave]))
    shown = console.export_text()
    assert "…" not in shown
    for figure in ("1,600", "12,043", "999 ms", "60x", "12.34 %", "0.812"):
        assert figure in shown
