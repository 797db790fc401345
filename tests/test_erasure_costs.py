"""The tool that says where the time of an erasure goes: its steps sum to the whole."""

import sys
from pathlib import Path

import pytest
from pyarrow import parquet

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import erasure_costs  # noqa: E402
from verdict_study import made_up  # noqa: E402


def test_the_steps_of_an_erasure_sum_to_the_whole(tmp_path: Path) -> None:
    source = tmp_path / "stays.parquet"
    parquet.write_table(made_up(), source)
    (found,) = erasure_costs.measure([ROOT], source, "", 3)
    assert 1 <= len(found) <= 3  # those that led to a retraining are left out
    for one in found:
        steps = erasure_costs.steps_of(one)
        assert set(steps) <= set(erasure_costs.STEPS)
        assert sum(steps.values()) == pytest.approx(one["whole"])
        assert min(steps.values()) >= 0
        assert one["syncs"] >= one["in_turn"] >= 1  # on a slow disk, some by threads of their own
        assert one["statements"] > 0
