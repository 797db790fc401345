"""Two workspaces on one list, killed at random steps: nobody on the list is remembered.

For a few kills here; tools/shared_list_study.py does it for minutes, by the clock as well.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

import shared_list_study


@pytest.mark.slow
def test_nobody_on_a_shared_list_is_remembered_whoever_is_killed(tmp_path: Path) -> None:
    found = shared_list_study.study(tmp_path, subjects=60, seed=7, kills=6)
    assert found.kills >= 6
    assert found.checks > 0
    assert sum(found.answered.values()) > 0
    assert found.ids_on_the_list > 0
    assert found.good, found
