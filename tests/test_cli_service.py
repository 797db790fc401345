"""Tokens, export and serving from the command line; errors in a sentence."""

import json
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner
from workspaces import Kept, make

from unfit.cli import app


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make(tmp_path_factory.mktemp("cli-service") / "w", None)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make(tmp_path_factory.mktemp("cli-untrained") / "w", None, trained=False)


def run(kept: Kept | Path, *arguments: object) -> Result:
    folder = kept.folder if isinstance(kept, Kept) else kept
    return CliRunner().invoke(app, [*(str(a) for a in arguments), "-w", str(folder)])


def said(result: Result, *words: str) -> None:
    """One sentence, no trace of the program."""
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("unfit: ")
    assert len(result.stderr.splitlines()) == 1
    for one in words:
        assert one in result.stderr


def listed(kept: Kept) -> list[dict[str, Any]]:
    return json.loads(run(kept, "token", "list", "--json").stdout)["tokens"]


def test_a_token_is_made_listed_and_revoked(kept: Kept) -> None:
    made = run(kept, "token", "create", "the till", "-r", "predict", "--role", "erase")
    assert made.exit_code == 0
    text = made.stdout.splitlines()[0]
    assert "shown only now" in made.stdout
    with kept.open() as ws:
        found = ws.store.tokens.by_text(text)
    assert found is not None
    assert (found.name, found.roles) == ("the till", {"predict", "erase"})
    assert f"unfit token revoke {found.public}" in made.stdout
    shown = run(kept, "token", "list")
    assert "the till" in shown.stdout
    assert "erase predict" in shown.stdout
    assert text.split("_", 2)[2] not in shown.stdout + run(kept, "token", "list", "--json").stdout
    (line,) = [t for t in listed(kept) if t["id"] == found.public]
    assert (line["roles"], line["revoked_at"]) == (["erase", "predict"], None)
    gone = run(kept, "token", "revoke", found.public)
    assert gone.stdout == f"{found.public} (the till) is refused from now on\n"
    (line,) = [t for t in listed(kept) if t["id"] == found.public]
    assert line["revoked_at"]
    with kept.open() as ws:
        assert ws.store.tokens.by_text(text) is None


def test_a_token_as_json(kept: Kept) -> None:
    made = json.loads(run(kept, "token", "create", "x", "-r", "audit", "--json").stdout)
    assert made["token"].startswith(f"unfit_{made['id']}_")
    assert (made["name"], made["roles"]) == ("x", ["audit"])


def test_tokens_that_cannot_be_made_or_found(kept: Kept, tmp_path: Path) -> None:
    before = listed(kept)
    said(run(kept, "token", "create", "x", "-r", "king"), "no role 'king'", "predict, erase")
    for name in ("", "  ", "a\nb", "x" * 201):
        said(run(kept, "token", "create", name, "-r", "predict"), "a line of text")
    said(run(kept, "token", "revoke", "nobody"), "there is no token 'nobody'", "unfit token list")
    result = run(kept, "token", "create", "x")
    assert result.exit_code == 2
    assert "role" in result.stderr
    assert listed(kept) == before
    for command in (["token", "list"], ["token", "revoke", "x"], ["serve"], ["worker"]):
        said(run(tmp_path / "nowhere", *command), "unfit.toml")


def test_the_model_is_exported(kept: Kept, tmp_path: Path) -> None:
    result = run(kept, "export", "-o", tmp_path / "model.zip")
    assert result.exit_code == 0
    size = (tmp_path / "model.zip").stat().st_size
    assert result.stdout == f"version 1: {tmp_path / 'model.zip'}, {size:,} bytes\n"
    with zipfile.ZipFile(tmp_path / "model.zip") as file:
        assert file.testzip() is None
        assert json.loads(file.read("card.json"))["version"] == 1
    told = json.loads(run(kept, "export", "-o", tmp_path / "again.zip", "--json").stdout)
    assert told == {"version": 1, "file": str(tmp_path / "again.zip"), "bytes": size}
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "model.zip").read_bytes()


def test_exports_that_cannot_be_made(kept: Kept, untrained: Kept, tmp_path: Path) -> None:
    said(run(kept, "export", "-o", tmp_path / "none" / "m.zip"), "there is no folder")
    (tmp_path / "folder").mkdir()
    said(run(kept, "export", "-o", tmp_path / "folder"))
    said(run(untrained, "export", "-o", tmp_path / "m.zip"), "no model yet; `unfit train`")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_workspace_without_a_model_is_not_served(untrained: Kept) -> None:
    for command in ("serve", "worker"):
        said(run(untrained, command), "no model yet; `unfit train` makes one")
    with untrained.open() as ws:
        assert ws.store.tokens.all() == []


def test_a_port_that_is_taken_or_an_address_that_is_not_ours(kept: Kept) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said(run(kept, "serve", "--port", port), f"cannot listen on 127.0.0.1:{port}", "--port")
    said(run(kept, "serve", "--host", "192.0.2.1", "--port", 0), "cannot listen on 192.0.2.1:0")
    said(run(kept, "serve", "--host", "no such host", "--port", 0), "cannot listen on no such host")
    for wrong in (["--port", 65536], ["--port", -1], ["--processes", 0], ["--workers", -1]):
        assert run(kept, "serve", *wrong).exit_code == 2


@pytest.mark.slow
def test_the_first_time_a_token_for_everything_is_shown_and_never_again(tmp_path: Path) -> None:
    kept = make(tmp_path / "w", None)

    def start() -> str:
        command = [sys.executable, "-m", "unfit.cli", "serve", "-w", kept.folder, "--port", "0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            shown = ""
            while "Ctrl-C stops it" not in shown:
                one = process.stdout.readline()
                assert one, shown
                shown += one
            process.terminate()
            assert process.wait(30) == 0
        return shown

    shown = start()
    assert shown.startswith("dashboard and API: http://127.0.0.1:")
    (text,) = [word for word in shown.split() if word.startswith("unfit_")]
    with kept.open() as ws:
        found = ws.store.tokens.by_text(text)
        assert found is not None
        assert found.roles == {"admin"}
    assert "unfit_" not in start()
