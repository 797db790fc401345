"""Run the examples and keep what they print and draw: `python tools/write_gallery.py [NAME ...]`.

Each script of examples/ is run in a process and a folder of its own. Its figure goes to
docs/gallery/NAME.svg and what it prints to docs/gallery/NAME.txt; the site shows both. The tests
call `run` to check that every example still works.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
# plt.show() is where a figure is finished: here it is saved instead of shown.
RUN = """
import runpy, sys
import matplotlib
matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "unfit", "figure.figsize": (7, 3)})
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt
plt.show = lambda: plt.savefig(sys.argv[2], bbox_inches="tight", metadata={"Date": None})
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def names() -> list[str]:
    return sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def run(name: str, picture: Path) -> str:
    """What the example prints; its picture is written to `picture`."""
    script = ROOT / "examples" / f"{name}.py"
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory(prefix="unfit-example-") as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN, str(script), str(picture)],
            cwd=folder,
            env=os.environ | {"PATH": here, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"examples/{name}.py failed:\n{done.stderr}")
    return done.stdout


def main(wanted: list[str]) -> None:
    GALLERY.mkdir(exist_ok=True)
    for name in wanted or names():
        picture = GALLERY / f"{name}.svg"
        (GALLERY / f"{name}.txt").write_text(run(name, picture))
        # matplotlib leaves blanks at the ends of lines
        picture.write_text(re.sub(r"[ \t]+$", "", picture.read_text(), flags=re.M))
        print(f"docs/gallery/{name}.svg", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
