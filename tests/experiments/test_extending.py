"""The worked example of docs/extending.md, as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "extending.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not installed"),
]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extending")
    names = ("twice", "contract", "robust", "law", "moons", "margin")
    for name, content in zip(names, blocks("python"), strict=True):
        (folder / f"{name}.py").write_text(content)
    return folder


def run(folder, *words):
    env = os.environ | {"UNFIT_CACHE": str(folder / "cache")}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_method_passes_the_contract(folder):
    run(folder, sys.executable, "contract.py")


def test_the_loss_passes_the_contract(folder):
    check = "from robust import PseudoHuber; check_loss(PseudoHuber)"
    (folder / "check.py").write_text(f"from unfit.testing import check_loss; {check}")
    run(folder, sys.executable, "check.py")


def test_the_command_draws_the_method_with_the_others(folder):
    (line,) = [line for block in blocks("console") for line in block.splitlines()]
    words = line.removeprefix("$ unfit ").split()
    run(folder, sys.executable, "-m", "unfit.cli", *words)
    drawn = (folder / "twice" / "figures" / "efficiency-certifiability.svg").read_text()
    assert "<!-- TWICE -->" in drawn
    table = run(
        folder,
        sys.executable,
        "-m",
        "unfit.cli",
        "reproduce",
        "efficiency-certifiability",
        *words[2:],
        "--resume",
        "--json",
    )
    assert '"runs_done": 0' in table


def test_the_law_and_the_data_set_are_used(folder):
    out = run(
        folder,
        sys.executable,
        "-m",
        "unfit.cli",
        "reproduce",
        "deletion-laws",
        "--with",
        "law.py",
        "--with",
        "moons.py",
        "--datasets",
        "moons",
        "--seeds",
        "1",
        "--output",
        "moons",
    )
    assert "55 runs done" not in out  # five laws and ours
    drawn = (folder / "moons" / "figures" / "deletion-laws.svg").read_text()
    assert "<!-- shortest-first -->" in drawn
    assert "<!-- Moons -->" in drawn
