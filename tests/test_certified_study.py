"""The study of tools/certified_study.py in small: it measures what it says."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import certified_study  # noqa: E402


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
