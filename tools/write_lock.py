"""Write requirements.lock: what the tests were run with, each with the hash of its file.

    python tools/write_lock.py [--report FILE]

Asks pip what it would install for '.[test]' into an empty environment of this Python on this
platform (`pip install --dry-run --report`), and writes names, versions and SHA-256 hashes; nothing
of where the files came from. `make lock` runs it. With --report, a report made before is read.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"


def report() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(path),
            f"{ROOT}[test]",
        ]
        subprocess.run(command, check=True)
        return json.loads(path.read_text())


def lines(made: dict) -> list[str]:
    found = {}
    for item in made["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        if name == "unfit":
            continue
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        found[name] = f"{name}=={item['metadata']['version']} --hash=sha256:{digest}"
    return [found[name] for name in sorted(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path)
    given = parser.parse_args().report
    made = report() if given is None else json.loads(given.read_text())
    where = f"{platform.python_implementation()} {platform.python_version()}"
    header = [
        f"# What the tests were run with, on {where}, {sysconfig.get_platform()}. To repeat it:",
        "# pip install --require-hashes -r requirements.lock && pip install --no-deps .",
        "# Written by `make lock`; the hashes are those of this platform's files.",
    ]
    LOCK.write_text("\n".join([*header, *lines(made)]) + "\n")


if __name__ == "__main__":
    main()
