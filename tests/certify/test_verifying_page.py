"""docs/verifying.md: its commands are run, print what stands there, and its tables are complete."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from certificates import Owner
from typer.testing import CliRunner

from unfit.certify import verify
from unfit.certify.log import parse_proof
from unfit.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "verifying.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page's commands name."""
    made, owner = tmp_path_factory.mktemp("page"), Owner()
    owner.train()
    for row in (17, 3, 250, 399, 20, 21):
        owner.forget(row)
    (made / "certificate.json").write_bytes(owner.bundle(4))
    (made / "owner.key").write_text(owner.key.public.text)
    (made / "model.safetensors").write_bytes(owner.models[4])
    (made / "log.jsonl").write_bytes(owner.export())
    return made


def without_hashes(text: str) -> str:
    return re.sub(r"\+[0-9a-f]{8}\b", "+#", text)


def test_the_command_prints_what_stands_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    shown = re.findall(r"```console\n\$ python verify.py (.*?)\n(.*?)```", PAGE.read_text(), re.S)
    ((arguments, expected),) = shown
    assert verify.main(arguments.split()) == 0
    assert without_hashes(capsys.readouterr().out) == without_hashes(expected)
    assert CliRunner().invoke(app, ["verify", *arguments.split()]).exit_code == 0
    ((inline,),) = [re.findall(r"`python verify.py (--log [^`]*)`", PAGE.read_text())]
    assert verify.main(inline.split()) == 0


def test_every_check_and_every_field_is_explained(folder: Path) -> None:
    text = PAGE.read_text()
    explained = re.findall(r"^\| (`.*?) \|", text, re.M)
    names = {name for cell in explained for name in re.findall(r"`(\w+)`", cell)}
    evidence = verify.Evidence(keys=(), certificate=b"")
    checks = {check.name for check in verify.Verification(evidence).run().checks}
    assert names == checks | {one.name for one in fields(verify.Claim)}
    assert all(f"`{one.name}`" in text for one in fields(verify.Annex))
    kinds = (verify.BUNDLE_TYPE, verify.LOG_TYPE, verify.ANNEX_TYPE, verify.PREDICATE_TYPE)
    assert all(kind in text for kind in kinds)


def test_the_proof_that_is_shown_is_one() -> None:
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.S)
    proof = parse_proof(shown)
    assert (proof.index, len(proof.path)) == (4, 3)
    assert proof.checkpoint.startswith("example.org/churn\n7\n")
