"""The studies of tools/certified_study.py and certified_workspace.py in small: they measure what
they say."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import certified_study  # noqa: E402
import certified_workspace  # noqa: E402


def test_what_it_measures_is_consistent() -> None:
    found = certified_study.run(["speed", "accuracy"], [], quick=True)
    assert found["machine"]["cores"] >= 1
    for one in found["speed"]:
        assert len(one["passes"]) == one["deletions"] == sum(one["bounds"].values())
        assert one["certified"] > 0
        assert min(one["passes_plain"]) >= 0
        assert (one["retrained"] is not None) == ("," in one["rows"])
    (lost,) = found["accuracy"]
    assert abs(lost["lost"]) < 0.3
    assert lost["sigma"]["1 row"] > 0


def test_a_workspace_s_log_is_checked_by_the_file_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    certified_workspace.study(certified_workspace.made_up(), 3)
    said = capsys.readouterr().out
    assert "| erasures; of these retrained | 3; " in said
    assert "| verify.py, alone, of the whole log | Nothing failed" in said
    for figure in ("seconds to the commit", "held-out rows whose label is certain", "joint mu"):
        assert figure in said
