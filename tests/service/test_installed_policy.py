"""A policy of another package decides in a workspace and is explained on the dashboard."""

from datetime import timedelta
from pathlib import Path

import pytest
from services import Service, serving
from typer.testing import CliRunner
from workspaces import make

import people
from unfit.cli import app
from unfit.clock import now
from unfit.errors import BadInput
from unfit.service.auth import COOKIE
from unfit.workspace import Workspace
from unfit.workspace.toml import render


def signed_in(service: Service, path: str) -> str:
    """A page of the dashboard."""
    tokens = service.workspace.store.tokens
    admin = tokens.by_text(service.headers["Authorization"].removeprefix("Bearer "))
    assert admin is not None
    session = tokens.sign_in(admin, now(), timedelta(hours=1))
    answer = service.get(path, headers={"Cookie": f"{COOKIE}={session}"})
    assert answer.status_code == 200
    return answer.text


def test_an_installed_policy_decides_and_is_explained(tmp_path: Path) -> None:
    def choose(text: str) -> str:
        chosen = 'retrain_when = ["auc_floor"]\nauc_floor = {floor = 1.0, patience = 9}'
        return text.replace('retrain_when = ["disparity"]', chosen)

    kept = make(tmp_path / "w", None, edit=choose)
    with kept.open() as ws:
        first = ws.forget(subjects=["p0003"])
        assert (first.action, first.reason) == (
            "update",
            "no more than 9 rows have gone since training",
        )
        second = ws.forget(subjects=[f"p{n:04d}" for n in range(4, 14)])
        assert second.action == "retrain"
        assert "is below the floor 1" in second.reason
        assert ws.status().policy == ("auc_floor",)
        assert "auc_floor = {" in render(ws.config)
    with serving(kept) as service:
        page = signed_in(service, "/method")
        assert "the AUC on held-out people is below 1 after more than 9 rows have gone" in page
        assert "auc_floor" in signed_in(service, "/settings")


def test_the_command_line_takes_it_by_name_and_lists_the_known_ones(tmp_path: Path) -> None:
    source = people.write(people.people(n=40), tmp_path / "people.parquet")
    init = ["init", str(source), "--label", "label", "-w"]
    made = CliRunner().invoke(app, [*init, str(tmp_path / "a"), "--retrain-when", "auc_floor"])
    assert made.exit_code == 0, made.output
    with Workspace(tmp_path / "a") as ws:
        assert ws.config.policy.retrain_when == ("auc_floor",)
    wrong = CliRunner().invoke(app, [*init, str(tmp_path / "b"), "--retrain-when", "moon"])
    assert wrong.exit_code == 2
    assert "--retrain-when moon: there are distance, log_loss" in " ".join(wrong.output.split())


def test_its_settings_are_checked_and_written_only_where_it_is_chosen(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None, trained=False)
    path = kept.folder / "unfit.toml"
    text = path.read_text()
    assert "auc_floor" not in text
    path.write_text(text.replace("[policy]", "[policy]\nauc_floor = {floor = 2}"))
    with pytest.raises(BadInput, match=r"policy\.auc_floor\.floor: .* less than or equal to 1"):
        Workspace(kept.folder)
