"""Attacks from a workspace: what they say, what is kept of them, and what the page shows."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from workspaces import Kept, make

import people
from unfit.audit import Claim
from unfit.certify import Promise
from unfit.certify.certifier import Certifier
from unfit.cli import app
from unfit.errors import BadInput
from unfit.pages import curves
from unfit.pages.audit import audit_page
from unfit.workspace import Workspace, audit

TABLE = people.people(n=1500, subjects=600)
SMALL = {"attack": True, "splits": 32, "targets": 2, "random_state": 0}


def made(folder: Path, sigma: float) -> Kept:
    kept = make(folder / "w", None, table=TABLE, sigma=sigma, audit_window="30d")
    with kept.open() as ws:
        ws.forget(subjects=list(dict.fromkeys(TABLE["person"].to_pylist()))[:20])
    return kept


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return made(tmp_path_factory.mktemp("noisy"), 0.01)


def weighed(ws: Workspace, promise: Promise) -> audit.Report:
    """An audit of a version as if it had been published under a promise."""
    with ws.session() as session:
        evidence = audit.gather(session, None)
    method = evidence.method
    settings = replace(method.settings, sigma=0.0, tol=1e-11)
    release = Certifier(promise=promise, l2=settings.l2, radius=10.0).release
    claimed = replace(evidence, method=type(method)(settings), claim=Claim(promise, release))
    return claimed.weigh(50.0, None, 0, None, audit.effort_of(32, 2))


def test_a_workspace_is_attacked_with_the_noise_of_its_method(noisy: Kept) -> None:
    told: list[str] = []
    with noisy.open() as ws:
        report = ws.audit(**SMALL, progress=lambda stage, *_: told.append(stage))
        quiet = ws.audit(random_state=0)
    found = report.audit.attack
    assert found is not None
    assert found.release is not None
    assert found.outcome in ("no claim", "cannot tell")
    assert (found.shadow.splits, found.shadow.targets) == (32, 2)
    assert told.count("shadow models") == 33
    assert quiet.audit.attack is None
    assert report.outcome == quiet.outcome  # nothing was claimed, so nothing can be refuted


def test_without_noise_it_says_that_no_epsilon_is_finite(tmp_path: Path) -> None:
    with made(tmp_path, 0.0).open() as ws:
        report = ws.audit(**SMALL)
        page = audit_page(report, ws.status())
    assert report.audit.attack is not None
    assert report.audit.attack.verdict.startswith("no noise: no finite epsilon")
    assert "No release test: no noise: no finite epsilon" in page


def test_a_claim_that_is_refuted_is_not_forgotten(noisy: Kept) -> None:
    """The version's centre is a Newton step away from the optimum, too far for so little noise."""
    with noisy.open() as ws:
        tight = weighed(ws, Promise(1.0, 1e-5, 1e-5))
        page = audit_page(tight.recorded(5), ws.status())
    assert tight.audit.attack is not None
    assert tight.audit.attack.outcome == "refuted"
    assert (tight.outcome, tight.passed) == ("not forgotten", False)
    assert tight.verdict.startswith("not forgotten: refuted: the claim of epsilon 1 ")
    assert 'class="verdict failed">refuted' in page
    back = audit.Report.of(json.loads(json.dumps(tight.recorded(5).as_dict())))
    assert back.outcome == "not forgotten"
    assert back.audit.attack == tight.audit.attack.rounded()
    assert back.audit.attack.verdict in back.verdict


def test_a_claim_with_room_to_spare_is_not_refuted(noisy: Kept) -> None:
    with noisy.open() as ws:
        report = weighed(ws, Promise(1.0, 1e-5, 0.03))
    found = report.audit.attack
    assert found is not None
    assert found.outcome == "not refuted", found
    assert "refuted" not in report.verdict


def test_the_records_keep_two_digits_and_the_page_draws_them(noisy: Kept) -> None:
    with noisy.open() as ws:
        report = ws.audit(**SMALL)
        stored = ws.store.audits.find()[-1].report
        kept = audit.Report.of(stored)
        page = audit_page(kept, ws.status())
    assert kept == replace(report.recorded(ws.config.preprocessing.min_rows), id=None)
    attack = stored["attack"]
    for told in (attack["release"]["found"], attack["shadow"]["found"], attack["shadow"]["mean"]):
        for value in told.values():
            assert value == float(f"{value:.2g}")
    digits = re.findall(r"\d", json.dumps(attack["shadow"]["curves"]["ours"][3]))
    assert len(digits) <= 6
    assert page.count("<h3>Release test</h3>") == page.count("<h3>Shadow models</h3>") == 1
    assert page.count('class="area0"') == page.count('class="band"') == 2
    text = json.dumps(attack)
    for secret in ("centre", "weights", "residual", "target_rows", "coef"):
        assert f'"{secret}"' not in text


def test_it_is_shown_on_the_screen_as_json_and_as_a_page(noisy: Kept, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ["audit", "--attack", "--splits", "16", "--targets", "1", "--report", str(page)]
    asked += ["--random-state", "0", "-w", str(noisy.folder)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code in (0, 1, 3), shown.output
    for line in ("release test", "shadow models", "told apart", "could have found", "\nattack "):
        assert line in shown.stdout
    said = CliRunner().invoke(app, [*asked, "--json"])
    found = json.loads(said.stdout)
    assert found["attack"]["shadow"]["splits"] == 16
    assert found["attack"]["verdict"] in json.dumps(found, ensure_ascii=False)
    assert "<h2>Attack</h2>" in page.read_text()


def test_what_cannot_be_asked_is_refused(noisy: Kept) -> None:
    def ask(*more: str) -> str:
        result = CliRunner().invoke(app, ["audit", *more, "-w", str(noisy.folder)])
        assert result.exit_code == 2
        return " ".join(result.output.split())

    assert "add --attack" in ask("--splits", "64")
    assert "multiple of 4" in ask("--attack", "--splits", "30")
    with noisy.open() as ws, pytest.raises(BadInput, match="targets need at least"):
        ws.audit(attack=True, splits=16, targets=1000)


def test_plots_hold_every_point() -> None:
    drawn = curves.histogram(
        [0.0, 1.0, 2.0], [("unlearned", [0.5, 0.5]), ("retrained", [0.2, 0.8])], unit="", label="x"
    )
    assert drawn.count("<polygon") == 2
    assert "NaN" not in drawn
    points = [(0.0, 0.0, 0.0, 0.1), (0.5, 0.4, 0.6, 0.7), (1.0, 0.9, 1.0, 1.0)]
    roc = curves.roc(points, label="y")
    band = re.search(r'class="band" points="([^"]*)"', roc)
    assert band is not None
    assert len(band.group(1).split()) == 6
    xs = np.array([float(p.split(",")[0]) for p in band.group(1).split()])
    assert xs[:3] == pytest.approx(xs[3:][::-1])
