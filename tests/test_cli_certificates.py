"""`unfit certificate`, `unfit log` and `unfit key`, as a person types them."""

import errno
import hashlib
import io
import json
import re
import shutil
import zipfile
from pathlib import Path

import click.testing
import pytest
import typer
from certified import check_log, held_out_people, root_of
from typer.testing import CliRunner

import people
from unfit.certify.verify import (
    VerifyKey,
    commitment,
    open_checkpoint,
    open_envelope,
    parse_statement,
    read_bundle,
    verify_consistency,
)
from unfit.cli import app
from unfit.workspace import Workspace

run = CliRunner().invoke


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified workspace, made by the commands themselves, that forgot two people."""
    root = tmp_path_factory.mktemp("cli")
    people.write(people.people(), root / "people.csv")
    roles = ["--label", "label", "--subject", "person", "--row-id", "record"]
    policy = ["--threshold", "50", "--retrain-when", "disparity"]
    init = ["init", str(root / "people.csv"), *roles, *policy, "--epsilon", "1", "-w"]
    for arguments in (
        [*init, str(root / "ws")],
        ["train", "-w", str(root / "ws")],
        ["forget", "--subject", "p0003", "--key", "first", "-w", str(root / "ws")],
        ["forget", "--subject", "p0005", "--key", "second", "-w", str(root / "ws")],
    ):
        result = run(app, arguments)
        assert result.exit_code == 0, result.output
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    """A copy of the test's own."""
    return shutil.copytree(original, tmp_path / "own")


def ask(root: Path, *arguments: object, code: int = 0) -> click.testing.Result:
    result = run(app, [*(str(a) for a in arguments), "-w", str(root / "ws")])
    assert result.exit_code == code, result.output
    return result


def keys_of(root: Path) -> list[VerifyKey]:
    return [VerifyKey.parse(line) for line in ask(root, "key", "show").stdout.split()]


def ask_verify(certificate: Path, root: Path, *arguments: str, code: int = 0) -> str:
    (certificate.parent / "owner.key").write_text(ask(root, "key", "show").stdout)
    given = [str(certificate), "--key", str(certificate.parent / "owner.key"), *arguments]
    result = run(app, ["verify", *given])
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_certificate_can_be_checked_with_the_public_key_and_the_exported_model(
    root: Path, tmp_path: Path
) -> None:
    ask(root, "certificate", "second", "-o", tmp_path / "c.json", "--page", tmp_path / "c.html")
    content = (tmp_path / "c.json").read_bytes()
    assert ask(root, "certificate", "second").stdout.encode() == content
    assert ask(root, "certificate").stdout.encode() == content  # the newest one
    payload = open_envelope(read_bundle(content).certificate, keys_of(root)).payload
    claim, (subject,) = parse_statement(payload)
    assert (claim.version, claim.epsilon, claim.releases) == (3, 1.0, 3)
    ask(root, "export", "-o", tmp_path / "model.zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "model.zip").read_bytes())) as file:
        weights = file.read("model.safetensors")
        assert file.read("certificate.json") == content
    assert hashlib.sha256(weights).hexdigest() == subject.sha256
    page = (tmp_path / "c.html").read_text()
    assert "Certificate of forgetting" in page
    assert subject.sha256 in page
    for outside in ("http://", "https://", "<script", "src="):
        assert outside not in page
    first = ask(root, "certificate", "--version", 1).stdout.encode()
    assert parse_statement(open_envelope(read_bundle(first).certificate, keys_of(root)).payload)[
        0
    ].request.startswith("training")


def test_the_person_s_proof_is_given_once_and_leaves_no_bytes(root: Path, tmp_path: Path) -> None:
    files = ["-o", tmp_path / "c.json", "--page", tmp_path / "c.html"]
    shown = ask(root, "certificate", "first", "--person", *files)
    ((salt, committed),) = re.findall(r"salt (\w+) opens (\w+)", shown.stdout)
    assert commitment(bytes.fromhex(salt), "subject:p0003") == committed
    assert commitment(bytes.fromhex(salt), "subject:p0005") != committed
    payload = open_envelope(
        read_bundle((tmp_path / "c.json").read_bytes()).certificate, keys_of(root)
    ).payload
    assert parse_statement(payload)[0].commitments == (committed,)
    assert salt in (tmp_path / "c.html").read_text()
    assert "keep these salts" in shown.stderr
    for path in (root / "ws").rglob("*"):
        assert not path.is_file() or salt.encode() not in path.read_bytes(), path
    again = ask(root, "certificate", "first", "--person", "-o", tmp_path / "again.json", code=2)
    assert "was handed out before" in again.stderr
    assert not (tmp_path / "again.json").exists()
    said = ask_verify(tmp_path / "c.json", root, "--salt", salt, "--id", "p0003")
    assert "ok           person" in said
    assert "FAILED       person" in ask_verify(
        tmp_path / "c.json", root, "--salt", salt, "--id", "p0005", code=1
    )
    ask(root, "certificate", "first")  # the certificate itself, as often as one likes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["certificate", "nobody"], "there is no erasure with the key 'nobody'"),
        (["certificate", "--person"], "--person needs the key of an erasure"),
        (["certificate", "first", "--person", "--annex"], "--annex is for auditors"),
        (["certificate", "--version", "9"], "there is no certificate of version 9"),
        (["certificate", "first", "--since", "no.txt"], "no.txt cannot be read"),
        (["certificate", "first", "--person", "-o", "no/c.json"], "there is no folder"),
        (["certificate", "first", "--person", "-o", "/"], "/ cannot be written"),
        (["log", "prove", "no.txt"], "no.txt cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_handed_out(
    root: Path, arguments: list[str], words: str
) -> None:
    assert words in ask(root, *arguments, code=2).stderr
    assert "salt " in ask(root, "certificate", "first", "--person").stderr


@pytest.mark.parametrize("target", ["screen", "page"])
def test_a_proof_that_could_not_be_written_can_be_fetched_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """A full disk or a closed screen must not destroy what is handed out only once."""
    files: list[object] = ["-o", tmp_path / "c.json"]
    if target == "page":
        files += ["--page", tmp_path]  # a folder
    else:
        echo = typer.echo

        def full(message: str = "", **options: bool) -> None:
            if message.startswith("salt "):
                raise OSError(errno.ENOSPC, "No space left on device")
            echo(message, **options)

        monkeypatch.setattr(typer, "echo", full)
    failed = ask(root, "certificate", "first", "--person", *files, code=2)
    assert "was handed out before" not in failed.stderr
    monkeypatch.undo()
    shown = ask(root, "certificate", "first", "--person", "-o", tmp_path / "c.json")
    assert len(re.findall(r"salt (\w+) opens (\w+)", shown.stdout)) == 1


def test_the_log_is_listed_exported_and_proved(root: Path, tmp_path: Path) -> None:
    assert [line.split()[3] for line in ask(root, "log", "list").stdout.splitlines()] == [
        "trained",
        "updated",
        "updated",
    ]
    listed = json.loads(ask(root, "log", "list", "--json").stdout)["certificates"]
    assert [one["number"] for one in listed] == [0, 1, 2]
    ask(root, "log", "checkpoint", "-o", tmp_path / "old.txt")
    old = open_checkpoint((tmp_path / "old.txt").read_text(), keys_of(root))
    ask(root, "forget", "--subject", "p0007")
    proof = json.loads(ask(root, "log", "prove", tmp_path / "old.txt").stdout)
    new = open_checkpoint(proof["checkpoint"], keys_of(root))
    path = [bytes.fromhex(node) for node in proof["path"]]
    assert verify_consistency(old.size, new.size, old.root, new.root, path)
    since = ask(root, "certificate", "first", "--since", tmp_path / "old.txt").stdout.encode()
    growth = read_bundle(since).consistency
    assert growth is not None
    assert growth.root == old.root
    lines = ask(root, "log", "export").stdout.splitlines()
    entries = [json.loads(line)["certificate"] for line in lines[1:-1]]
    packed = [json.dumps(e, sort_keys=True, separators=(",", ":")).encode() for e in entries]
    assert root_of(packed) == new.root
    head = json.loads(ask(root, "log", "checkpoint", "--json").stdout)
    assert head["checkpoint"] == proof["checkpoint"]


def test_the_annex_is_for_auditors(root: Path) -> None:
    bundle = read_bundle(ask(root, "certificate", "first", "--annex").stdout.encode())
    assert bundle.annex is not None
    annex = json.loads(open_envelope(bundle.annex, keys_of(root)).payload)
    assert float(annex["mu"]) > 0
    assert read_bundle(ask(root, "certificate", "first").stdout.encode()).annex is None


def test_what_has_no_annex_says_so(root: Path, tmp_path: Path) -> None:
    with Workspace(root / "ws") as ws:
        (held_out, *_) = held_out_people(ws)
    ask(root, "forget", "--subject", held_out, "--key", "kept")
    refused = ask(root, "certificate", "kept", "--annex", "-o", tmp_path / "c.json", code=2).stderr
    assert "certificate 3 has no annex" in " ".join(refused.split())
    assert not (tmp_path / "c.json").exists()
    ask(root, "certificate", "kept")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["first", "--version", "999"], "name an erasure by its key, or a version"),
        (["--version", "9223372036854775808"], "should be less than or equal to 2147483647"),
        (["--version", "2147483647"], "there is no certificate of version 2147483647"),
        (["\udcff"], r"there is no erasure with the key '\udcff'"),
    ],
)
def test_a_certificate_that_cannot_be_named_so(
    root: Path, arguments: list[str], words: str
) -> None:
    assert words in " ".join(ask(root, "certificate", *arguments, code=2).stderr.split())


def test_a_lost_key_is_said_by_every_command_and_signs_when_it_is_back(
    root: Path, tmp_path: Path
) -> None:
    status = ask(root, "status").stdout
    assert re.search(r"certificates +3; all releases together: mu 0\.\d+, epsilon 1\.\d+", status)
    key = root / "ws" / "signing.key"
    shutil.move(key, tmp_path / "aside")
    ask(root, "forget", "--subject", "p0007", "--key", "third")
    refused = ask(root, "certificate", "third", code=2).stderr
    assert "certificate 3 waits for a signature: the signing key signing.key is missing" in refused
    status = " ".join(ask(root, "status").stdout.split())
    assert "4, 1 waits for a signature: the signing key signing.key is missing" in status
    said = json.loads(ask(root, "status", "--json").stdout)["certificates"]
    assert (said["entries"], said["waiting"]) == (4, 1)
    assert "signing.key is missing" in said["problem"]
    assert "waits for a signature" in ask(root, "log", "list").stdout
    shown = ask(root, "key", "sign")
    assert "signed 0; 1 wait" in shown.stdout
    assert "signing.key is missing" in shown.stderr
    assert "signing.key is missing" in ask(root, "key", "rotate", code=2).stderr
    shutil.move(tmp_path / "aside", key)
    assert "signed 1; 0 wait" in ask(root, "key", "sign").stdout
    ask(root, "certificate", "third", "--person")
    with Workspace(root / "ws") as ws:
        check_log(ws)


def test_a_key_is_replaced(root: Path) -> None:
    (old,) = keys_of(root)
    made = ask(root, "key", "rotate").stdout.strip()
    ask(root, "forget", "--subject", "p0007", "--key", "third")
    (root / "ws" / "signing.key").unlink()
    ask(root, "forget", "--subject", "p0008", "--key", "fourth")
    ask(root, "key", "rotate", "--lost")
    keys = json.loads(ask(root, "key", "show", "--json").stdout)["keys"]
    assert keys[:2] == [old.text, made]
    assert len(keys) == 3
    for name, by in (("first", 0), ("third", 1), ("fourth", 2)):
        content = ask(root, "certificate", name).stdout.encode()
        assert open_envelope(read_bundle(content).certificate, [VerifyKey.parse(keys[by])])
    with Workspace(root / "ws") as ws:
        check_log(ws)


def test_the_file_of_key_show_checks_what_every_key_signed(root: Path, tmp_path: Path) -> None:
    ask(root, "key", "rotate")
    ask(root, "forget", "--subject", "p0007", "--key", "third")
    ask(root, "log", "export", "-o", tmp_path / "log.jsonl")
    for name in ("first", "third"):
        ask(root, "certificate", name, "-o", tmp_path / f"{name}.json")
        found = ask_verify(tmp_path / f"{name}.json", root, "--log", str(tmp_path / "log.jsonl"))
        assert "FAILED" not in found
        newest = keys_of(root)[-1].id
        assert f"signed at size 4 with {newest}" in " ".join(found.split())
    assert len((tmp_path / "owner.key").read_text().splitlines()) == 2


def test_without_epsilon_there_is_nothing_to_hand_out(original: Path, tmp_path: Path) -> None:
    where = ["-w", str(tmp_path / "ws")]
    roles = ["--label", "label", "--subject", "person"]
    assert run(app, ["init", str(original / "people.csv"), *roles, *where]).exit_code == 0
    assert run(app, ["train", *where]).exit_code == 0
    refused = run(app, ["certificate", *where])
    assert refused.exit_code == 2
    assert "certify.epsilon in unfit.toml asks for them" in refused.stderr
    assert run(app, ["log", "list", *where]).stdout.strip() == "no certificate yet"
    assert "no key yet" in run(app, ["key", "show", *where]).stdout
    assert "certificates" not in run(app, ["status", *where]).stdout
    for wrong in (["--random-state", "0"], ["--sigma", "1"], ["--delta", "2"], ["--noise", "0"]):
        made = ["init", str(original / "people.csv"), *roles, "--epsilon", "1", *wrong]
        refused = run(app, [*made, "-w", str(tmp_path / "other")])
        assert refused.exit_code == 2, wrong
        assert not (tmp_path / "other" / "unfit.toml").exists(), wrong
