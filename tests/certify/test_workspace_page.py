"""docs/certificates.md: its commands in a workspace are run, and do what the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import people

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documents are not installed")
@pytest.mark.slow
def test_the_commands_do_what_the_page_says(tmp_path: Path) -> None:
    people.write(people.people(600), tmp_path / "people.parquet")
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S)
    commands = [line.removeprefix("$ ") for line in block.splitlines()]
    assert len(commands) >= 8
    said = {}
    for command in commands:
        started = command.replace("unfit", f"{sys.executable} -m unfit", 1)
        done = subprocess.run(
            started, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said[command.split()[1]] = done.stdout
    assert "certificate 1" in said["forget"]
    assert "Nothing failed" in said["verify"]
    bundle = json.loads((tmp_path / "certificate.json").read_text())
    assert "p0007" not in json.dumps(bundle)
    page = (tmp_path / "certificate.html").read_text()
    assert "Certificate of forgetting" in page
    key = tmp_path / "unfit-workspace" / "signing.key"
    assert key.stat().st_mode & 0o077 == 0
