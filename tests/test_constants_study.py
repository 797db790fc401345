"""The study of constants at its smallest: what it prints is what docs/design.md cites."""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import people
from unfit.data import exact_sums
from unfit.data.constants import mean_and_deviation

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import constants_study as study


@given(st.lists(st.floats(-1e6, 1e6, width=32) | st.just(float("nan")), max_size=50))
def test_its_fit_is_not_ours_and_says_the_same(values: list[float]) -> None:
    column = np.array(values, np.float32)
    (known,), (total,), (square,) = exact_sums.sums(column[:, None])
    found = study.reference_number(column, 3)
    assert (found.mean, found.deviation) == mean_and_deviation(known, total, square, 3)


@pytest.fixture
def people_as_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machinery on made-up people, where the data sets are not at hand."""
    table = people.people(n=500).drop_columns(["record"])
    cities = pa.array([f"c{int(i**0.5)}" for i in range(500)])
    table = table.set_column(table.column_names.index("city"), "city", cities)
    parquet.write_table(table, tmp_path / "people.parquet")
    source = study.Source("people.parquet", "label", "person")
    monkeypatch.setattr(study, "SOURCES", {"people": source})
    monkeypatch.setenv("UNFIT_DATA", str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("people_as_adult")
def test_sequences_and_rates(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(("sequences", "rate"), quick=True, names=["people"])
    tables = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| people")]
    assert len(tables) == 2
    assert tables[0].endswith("| 0 |")  # cards that differ


@pytest.mark.slow
@pytest.mark.skipif("UNFIT_DATA" not in os.environ, reason="needs the data sets")
def test_on_the_data_itself(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(("sequences",), quick=True, names=["Adult", "Diabetes"])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| Adult", "| Diabetes"]
    assert all(line.endswith("| 0 |") for line in lines)
