"""The tool that says where the time of an erasure goes: its steps sum to the whole."""

import sys
from pathlib import Path

import pytest
from pyarrow import parquet

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import erasure_costs  # noqa: E402
from verdict_study import made_up  # noqa: E402


@pytest.mark.slow
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


def test_times_and_counts_are_tables_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"whole": 0.01, "seconds": 0.006, "purge": 0.002, "phases": {"unlearn": 0.004}}
    counted = {"passes": 1.4, "statements": 38, "syncs": 10, "in_turn": 9}
    erasure_costs.show([[one | counted]])
    times, counts = capsys.readouterr().out.strip().split("\n\n")
    assert times.splitlines()[0] == "| milliseconds, median of 1 | this |"
    assert "| **whole** | 10.0 |" in times
    assert counts.splitlines() == [
        "| counts, mean of 1 | this |",
        "|---|--:|",
        "| passes over the rows | 1.4 |",
        "| SQL statements | 38.0 |",
        "| files and folders synced | 10.0 |",
        "| of these, waited for in turn | 9.0 |",
    ]
