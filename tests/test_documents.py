"""Every command in the README, the guide and --help is run, as it is written there."""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.main import get_command
from typer.testing import CliRunner

import people
from unfit.cli import app
from unfit.engines.base import ENGINES

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import run_guide  # noqa: E402
import write_api  # noqa: E402

GUIDE, README = (ROOT / "docs" / "guide.md").read_text(), (ROOT / "README.md").read_text()


SLOW = ("make ", "pip ", "unfit demo", "unfit bench", "unfit reproduce", "unfit serve")


def patients(n: int = 12_000, seed: int = 0) -> pa.Table:
    """Made-up hospital stays with the columns the guide names."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, n // 2, n)
    who[:8] = [135, 135, 1152, 1152, 1152, 378, 378, 135]
    stays = rng.poisson(1.0, n)
    score = 1.2 * stays - 1.2 + rng.logistic(size=n)
    back = np.where(score > 1.5, "<30", np.where(score > 0, ">30", "NO"))
    return pa.table(
        {
            "encounter_id": pa.array(np.arange(n), pa.int32()),
            "patient_nbr": pa.array(who, pa.int32()),
            "race": pa.array(rng.choice(["a", "b", "?"], n).tolist()).dictionary_encode(),
            "number_inpatient": pa.array(stays, pa.int32()),
            "diabetesMed": pa.array(rng.choice(["Yes", "No"], n).tolist()),
            "readmitted": pa.array(back.tolist()).dictionary_encode(),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files the documents speak of."""
    parquet.write_table(patients(), tmp_path / "diabetes130.parquet")
    table = people.people(n=3000, subjects=1200)
    numbers = [int(name[1:]) for name in table["person"].to_pylist()]
    churned = table.rename_columns({"label": "churned"}).drop_columns(["record", "person"])
    customers = churned.append_column("customer_id", pa.array(numbers))
    parquet.write_table(customers, tmp_path / "customers.parquet")
    people.write(customers.slice(0, 20), tmp_path / "new.csv")
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path))
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.slow
def test_every_command_of_the_guide(folder: Path) -> None:
    found = run_guide.blocks(GUIDE)
    assert len(found) >= 8
    for kind, content in found:
        printed = run_guide.run(kind, content, folder, allowed=(0, 1))
        assert "Traceback" not in printed
    text = "\n".join(content for _, content in found)
    for verb in ("init", "train", "predict", "forget", "status", "audit", "retrain"):
        assert f"$ unfit {verb}" in text


def test_the_guide_shows_what_it_claims() -> None:
    """What it tells of happens in it; its times are held by test_figures."""
    assert "81,389 training rows" in GUIDE
    assert re.search(r"audit before it: forgotten: ", GUIDE)
    assert re.search(r"version \d+: retrained: .*\b(over|changed)\b", GUIDE)


@pytest.mark.slow
def test_every_command_of_the_readme(folder: Path) -> None:
    commands = [
        c
        for kind, text in run_guide.blocks(README)
        if kind == "console"
        for c in run_guide.commands(text)
    ]
    slow = [c for c in commands if c.startswith(SLOW)]
    assert {"make demo", "make test"} <= set(slow)  # the others have their own tests
    quick = [c for c in commands if c not in slow]
    assert len(quick) >= 6
    for command in quick:
        run_guide.run("console", f"$ {command}\n", folder)
    snippet = next(text for kind, text in run_guide.blocks(README) if "Workspace(" in text)
    run_guide.run("python", snippet, folder)


@pytest.mark.slow
def test_every_example_in_the_help(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    runner = CliRunner()
    commands = get_command(app).commands  # type: ignore[attr-defined]
    examples = [runner.invoke(app, [name, "--help"]).output for name in commands]
    found = [
        " ".join(match.split()).split(" ")[1:]
        for text in examples
        for match in re.findall(r"Example: (unfit .*?)\n\n", text, re.S)
    ]
    assert [arguments[0] for arguments in found] == ["init", "forget", "certificate"]
    init, forget, certificate = found
    certified = [*init, "--epsilon", "1"], ["train"], [*forget, "--key", certificate[1]]
    for arguments in (*certified, certificate):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, result.output


def test_every_command_has_help_that_fits_a_screen() -> None:
    runner = CliRunner()
    for name in [None, *get_command(app).commands]:  # type: ignore[attr-defined]
        result = runner.invoke(app, [*([name] if name else []), "--help"])
        assert result.exit_code == 0
        assert max(len(line) for line in result.output.splitlines()) <= 80
        assert len(result.output.splitlines()) <= 60


def test_the_api_is_documented_as_its_routes_say() -> None:
    text = write_api.PAGE.read_text()
    assert write_api.rewritten(text) == text


def test_docstrings_point_at_nothing_that_is_not_there() -> None:
    """A reference is to a page of docs/, to a module, or to the paper."""
    for path in (*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"):
        text = path.read_text()
        assert not re.search(r"\bSPEC\b", text), path
        for name in re.findall(r"\bdocs/([a-z_-]+\.md)", text):
            assert (ROOT / "docs" / name).exists(), (path, name)


def test_every_extra_serves_something() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    with_torch = [name for name, needs in extras.items() if any("torch" in need for need in needs)]
    assert with_torch == ["gpu"]
    assert "torch" in ENGINES.built_in()  # which is what it serves


def test_the_forecast_of_a_large_cluster_follows_from_its_formula() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text()
    words = " ".join(page.split())
    found = re.search(
        r"a thread sums ([\d.]+) GB/s for values and gradients, ([\d.]+) GB/s for products, and "
        r"([\d.]+) GB/s for Hessians.* l = ([\d.]+) ms and q = ([\d.]+) ms",
        words,
    )
    assert found is not None
    *rates, round_trip, each = (float(number) for number in found.groups())
    share, tasks = 1e9 * 50 * 4 / 100, (round_trip + 100 * each) / 1000
    rows = re.findall(r"\| pass: [^|]*\| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) s \|", page)
    assert len(rows) == 3
    for rate, row in zip(rates, rows, strict=True):
        read, handed_out, both = (float(number) for number in row)
        assert read == pytest.approx(share / (rate * 1e9), rel=0.05)
        assert handed_out == pytest.approx(tasks, rel=0.05)
        assert both == pytest.approx(read + handed_out, rel=0.1)
