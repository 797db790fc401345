"""What a stranger's machine meets: imports that compile nothing, rooms that keep their doors."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import unfit

ROOT = Path(__file__).resolve().parents[1]
COUNT = """
import sys
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
{body}
print(len([kind for _, kind in recorder.buffer if kind.is_start]))
"""
FIT = """
    import numpy as np, unfit
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)); y = X[:, 0] > 0
    for method in ("fisher", "influence", "deltagrad", "newton", "retrain"):
        unfit.LogisticRegression(method, epochs=2, batch_size=32).fit(X, y).unlearn([1, 2]).audit()
"""


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_compiles_nothing_and_pulls_in_no_extra():
    assert python(COUNT.format(body="    import unfit")) == "0"
    heavy = (
        "torch dask fastapi sqlalchemy alembic pyarrow pydantic jinja2 safetensors typer rich "
        "matplotlib pandas sklearn.linear_model"
    )
    code = (
        "import sys, numpy, scipy.linalg, sklearn.base, numba; known = set(sys.modules)\n"
        f"import unfit; print([m for m in {heavy.split()!r} if m in set(sys.modules) - known])"
    )
    assert python(code) == "[]"


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    python(COUNT.format(body=FIT))
    assert python(COUNT.format(body=FIT)) == "0"


def test_rooms():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_the_readme_snippet_runs(capsys):
    readme = (ROOT / "README.md").read_text()
    _, snippet = re.findall(r"```python\n(.*?)```", readme, re.S)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 6))
    names = {"X": X, "y": X[:, 0] > 0, "unfit": unfit}
    exec(snippet, names)
    assert names["clf"].n_remaining_ == 4998
    assert "verdict" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_readme_names_make_targets_that_exist(target):
    assert f"make {target}" in (ROOT / "README.md").read_text()
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", unfit.__version__)
    assert f"\n## {unfit.__version__} - " in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {unfit.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_users_of_the_package_get_its_types():
    assert (Path(unfit.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("page", ["CHANGELOG.md", "SECURITY.md", "README.md"])
def test_links_to_documents_lead_somewhere(page):
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", (ROOT / page).read_text()):
        path, _, anchor = link.partition("#")
        assert (ROOT / path).exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.M)
            assert anchor in [title.lower().replace(" ", "-") for title in titles], link


def test_the_lock_has_a_hash_for_everything_and_all_that_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    whole = re.compile(r"([a-z0-9-]+)==([\w.+!]+) --hash=sha256:[0-9a-f]{64}")
    found = {m[1]: m[2] for m in map(whole.fullmatch, pinned) if m}
    assert len(found) == len(pinned)  # each has one, and nothing says where it came from
    assert "torch" not in found
    asked = [*project["dependencies"]]
    for extra in ("test", "docs", "experiments", "postgres", "service", "plots"):
        asked += extras[extra]
    for text in asked:
        wanted = Requirement(text)
        if wanted.name != "unfit":
            assert wanted.specifier.contains(found[canonicalize_name(wanted.name)]), text
