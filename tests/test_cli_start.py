"""Commands that people run all day start without the libraries that compute.

Modules are counted, not seconds: what is not imported costs nothing on any machine.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from workspaces import Kept, make

HEAVY = ("alembic", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "fastapi")
RECORDS = ("pydantic", "sqlalchemy")
IMPORTED = """
import sys
from typer.testing import CliRunner
from unfit.cli import app
result = CliRunner().invoke(app, sys.argv[1:])
assert result.exit_code == 0, result.output
print(*sys.modules, sep="\\n")
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make(tmp_path_factory.mktemp("start") / "w", None)


def imported(folder: Path, *command: str) -> set[str]:
    """The modules that a command has imported in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["forget", "--help"]])
def test_help_and_version_import_no_library_but_the_command_line_s(
    command: list[str], tmp_path: Path
) -> None:
    found = imported(tmp_path, *command)
    assert not found & {*HEAVY, "sqlalchemy", "rich"}  # typer parses options with pydantic
    ours = {
        name for name in found if name.startswith("unfit.") and not name.startswith("unfit.cli")
    }
    assert ours <= {"unfit.errors", "unfit.methods", "unfit.progress", "unfit.registry"}
    assert len(found) < 350


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--json"], ["token", "list"], ["token", "create", "x", "-r", "audit"]],
)
def test_what_reads_records_imports_nothing_that_computes(command: list[str], kept: Kept) -> None:
    found = imported(kept.folder, *command)
    assert not found & set(HEAVY)
    assert set(RECORDS) <= found
    for room in ("core", "engines", "methods.", "estimator", "service.api", "pages"):
        assert not any(name.startswith(f"unfit.{room}") for name in found), room
    assert len(found) < 700
