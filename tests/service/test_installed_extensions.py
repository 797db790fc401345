"""What another package adds by entry points works in a workspace, on its pages and in a study.

The method, the engine, the loss, the policy and the source of tests/plugin, all at once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from services import serving
from test_installed_policy import signed_in
from typer.testing import CliRunner
from workspaces import Kept

import people
from unfit.cli import app
from unfit.engines.base import ENGINES, ENVIRONMENT
from unfit.workspace import Workspace


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A trained workspace in which everything that can be is from outside."""
    monkeypatch.setenv(ENVIRONMENT, "dense")
    source = tmp_path / "people.jsonl"
    rows = people.people(n=300).to_pylist()
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    folder = tmp_path / "w" / "ws"
    given = {
        "label": "label",
        "subject": "person",
        "row-id": "record",
        "method": "rounds",
        "loss": "pseudo-huber",
        "retrain-when": "auc_floor",
        "random-state": "0",
    }
    options = [text for key, value in given.items() for text in (f"--{key}", value)]
    made = CliRunner().invoke(app, ["init", str(source), *options, "-w", str(folder)])
    assert made.exit_code == 0, made.output
    toml = folder / "unfit.toml"
    text = toml.read_text()
    assert 'loss = "pseudo-huber"' in text
    assert "# options = " in text
    toml.write_text(text.replace("# options = ", "options = {rounds = 3}  # "))
    with Workspace(folder) as ws:
        ws.train()
    return Kept(folder, None, None)


def test_all_of_them_serve_one_workspace(kept: Kept) -> None:
    with kept.open() as ws:
        before = ws.active_model()
        assert before.card.method == "rounds"
        assert before.card.loss.name == "pseudo-huber"
        with ws.session() as session:
            model = session.open_model()
            assert type(model.data) is ENGINES["dense"]
            assert model.method.options.rounds == 3
        made = ws.forget(subjects=["p0003", "p0005"])
        assert made.action == "update"
        assert "AUC" in made.reason
        version = ws.store.versions.active()
        assert version is not None
        assert version.held_out is not None
        assert version.held_out.log_loss is None  # the loss estimates no probabilities
        assert version.held_out.auc is not None
        after = ws.active_model()
        assert 0 < np.abs(after.weights - before.weights).max() < 0.1
        assert ws.audit().audit.outcome == "forgotten"
        number, content = ws.export()
    assert number == 2
    assert b"card.json" in content


def test_and_are_explained_on_its_pages(kept: Kept) -> None:
    with serving(kept) as service:
        page = signed_in(service, "/method")
        assert "ROUNDS takes 3 Newton steps on the rows that remain." in page
        assert "the loss <strong>pseudo-huber</strong>, which estimates no probabilities" in page
        assert "the AUC on held-out people is below 0.6" in page
        settings = signed_in(service, "/settings")
        for words in ("people.jsonl", "dense", "pseudo-huber", "rounds", "auc_floor"):
            assert words in settings
        row = {k: v for k, v in people.people(n=300).to_pylist()[7].items() if k != "label"}
        answer = service.ask("POST", "/v1/predictions", json={"rows": [row]})
        assert answer.status_code == 200, answer.text
        chances = answer.json()["predictions"][0]["probabilities"].values()
        assert sum(chances) == pytest.approx(1.0)


@pytest.mark.slow
def test_and_take_part_in_a_study(tmp_path: Path) -> None:
    def study(*options: str) -> subprocess.CompletedProcess[str]:
        plans = ["pipeline", "effectiveness-certifiability"]
        size = ["--quick", "--seeds", "1", "--datasets", "breast-cancer", "--json"]
        return subprocess.run(
            [sys.executable, "-m", "unfit", "reproduce", *plans, *size, *options],
            env=os.environ | {ENVIRONMENT: "dense-sgd", "UNFIT_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    chosen = ("--loss", "pseudo-huber", "--with", "rounds", "--with", "auc_floor")
    done = study(*chosen, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    from unfit.experiments.runs import Runs

    found = Runs(tmp_path / "out").frame()
    assert {"rounds", "fisher"} <= set(found["method"])
    assert {"auc_floor", "never"} <= set(found["policy"])
    unlearned = found[(found["kind"] == "unlearn") & (found["method"] == "rounds")]
    quiet = unlearned[unlearned["sigma"] == unlearned["sigma"].min()]
    assert len(quiet) > 0
    assert quiet["acc_test_unlearned"].min() > 0.8
    other = study("--resume", "--output", str(tmp_path / "out"))
    assert other.returncode != 0
    assert "is not what it was" in other.stderr
    absent = study("--with", "nothing", "--output", str(tmp_path / "none"))
    assert "no installed method or policy of that name" in absent.stderr
