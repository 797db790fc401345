"""Runs the commands of a document, in order, and writes what they print under them.

    python tools/run_guide.py docs/guide.md

Blocks that start with ```console hold lines that begin with `$ `, for a shell, and their output;
blocks that start with ```python are run by the interpreter of unfit. All run in one new folder.
What README.md quotes of it is written there too. The tests use `blocks` and `run` to check that
every command still works.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FENCE = re.compile(r"^```(console|python)\n(.*?)^```$", re.S | re.M)


def blocks(text: str) -> list[tuple[str, str]]:
    """(kind, content) of every block that is to be run."""
    return [(match[1], match[2]) for match in FENCE.finditer(text)]


def commands(content: str) -> list[str]:
    """The commands of a console block; a backslash goes on to the next line."""
    joined = content.replace("\\\n", "")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def run(kind: str, content: str, folder: Path, allowed: tuple[int, ...] = (0,)) -> str:
    """The block with its output as it is now."""
    here = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}
    if kind == "python":
        done = subprocess.run(
            [sys.executable, "-c", content], cwd=folder, env=env, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{content}\n{done.stderr}")
        return done.stdout
    written = []
    for shown in re.findall(r"^\$ .*?(?<!\\)$", content, re.S | re.M):
        command = shown[2:].replace("\\\n", "")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode not in allowed:
            raise RuntimeError(f"{command}\n{done.stdout}")
        lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        written.append("\n".join([shown, *lines]))
    return "\n".join(written) + "\n"


def quoted(text: str, guide: str) -> str:
    """A document whose plain blocks quote the guide's: commands with what they print there, and
    blocks of text that begin with the same word."""
    printed = {}
    for kind, content in blocks(guide):
        if kind == "console":
            for part in re.split(r"^(?=\$ )", content, flags=re.M)[1:]:
                lines = part.splitlines()
                printed[lines[0]] = part
    texts = {t.split(":")[0]: t for t in re.findall(r"^```text\n(.*?)^```$", guide, re.S | re.M)}

    def anew(match: re.Match[str]) -> str:
        content = match[2]
        if match[1] == "text" and content.split(":")[0] in texts:
            content = texts[content.split(":")[0]]
        elif not match[1] and content.startswith("$ "):
            shown = re.findall(r"^\$ .*$", content, re.M)
            content = "".join(printed.get(line, f"{line}\n") for line in shown)
        return f"```{match[1]}\n{content}```"

    return re.sub(r"^```(\w*)\n(.*?)^```$", anew, text, flags=re.S | re.M)


def main(path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="unfit-guide-"))
    text = path.read_text()

    # What a python block prints stands in the ```text block after it.
    pattern = re.compile(r"```(console|python)\n(.*?)^```$(\n\n```text\n.*?^```$)?", re.S | re.M)

    def with_output(match: re.Match[str]) -> str:
        print(match[2].splitlines()[0], file=sys.stderr)
        if match[1] == "console":
            return f"```console\n{run('console', match[2], folder, (0, 1))}```" + (match[3] or "")
        printed = run("python", match[2], folder)
        return f"```python\n{match[2]}```" + (f"\n\n```text\n{printed}```" if match[3] else "")

    path.write_text(pattern.sub(with_output, text))
    readme = path.parent.parent / "README.md"
    if readme.exists():
        readme.write_text(quoted(readme.read_text(), path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
