"""The folder layout of a workspace is known in one place."""

import re
from pathlib import Path

import unfit
from unfit.workspace.layout import (
    Layout,
    deletion_list_name,
    generation_name,
    key_of,
    lock_of_term,
)

SOURCE = Path(unfit.__file__).parent
NAMES = re.compile(r"""["'](unfit\.(db|lock|trained|toml)|artifacts|retained|reports)["']""")


def test_names_of_files_and_folders_are_written_in_the_layout_alone() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if NAMES.search(path.read_text())
    }
    assert found == {"workspace/layout.py"}


def test_names_of_files() -> None:
    layout = Layout(Path("somewhere") / "ws")
    assert layout.generation(generation_name(3, None)) == Path("somewhere/ws/data/rows-3")
    assert generation_name(3, 2) == "rows-3-2"  # a term of the lock has rows of its own
    assert lock_of_term(layout.lock, 0).name == "unfit.lock"
    assert lock_of_term(layout.lock, 4).name == "unfit.lock-4"
    assert layout.retained_rows(7) == Path("somewhere/ws/retained/7.parquet")
    assert deletion_list_name(layout.folder) == "ws.forgotten"
    assert key_of(Path("ws.forgotten")).name == "ws.forgotten.key"
