"""The tools that time the engine "torch" run on any device, and say what they claim to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unfit.cli import app
from unfit.engines.base import ENVIRONMENT

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.slow


def test_the_tool_measures_every_section_on_few_rows(tmp_path):
    output = tmp_path / "gpu.json"
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gpu_bench.py"), "--small", "--json", str(output)],
        env={**ENVIRON, "UNFIT_TORCH_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    content = json.loads(output.read_text())
    assert content["machine"]["device"] == "cpu"
    figures = {(one["section"], one["what"]): one for one in content["figures"]}
    assert {section for section, _ in figures} >= {"ceilings", "hessian", "passes", "sgd"}
    wrong = figures["hessian", "Hessian sum, float32"]["note"].rpartition("error ")[2]
    assert float(wrong) < 1e-6
    residual = figures["unlearn", "unlearn 60 rows"]["note"].split(",")[0].removeprefix("residual ")
    assert float(residual) <= 1e-8
    share = figures["passes", "product, blocks"]
    milliseconds = float(share["note"].split()[0])
    copy = figures["ceilings", "copy, read + write"]["value"] * 1e12
    assert share["value"] == pytest.approx(100 * 6000 * 600 * 4 / (milliseconds / 1e3) / copy, 0.01)


def test_the_tool_names_its_sections():
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gpu_bench.py"), "--only", "luck"],
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "unknown section 'luck'; there are ceilings, hessian" in found.stderr


def test_unfit_bench_takes_an_engine(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    output = tmp_path / "bench.json"
    asked = ["--quick", "--dataset", "digits", "--section", "fit", "--engine", "torch"]
    result = CliRunner().invoke(app, ["bench", *asked, "--output", str(output)])
    assert result.exit_code == 0, result.output
    assert json.loads(output.read_text())["machine"]["engine"] == "torch"
    assert "engine torch" in result.output
    assert ENVIRONMENT not in os.environ
