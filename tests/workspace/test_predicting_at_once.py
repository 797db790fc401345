"""Predictions of the parts of a file are those of the whole file."""

import csv
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from workspaces import make

import people
from unfit.errors import BadInput
from unfit.workspace import prediction
from unfit.workspace.session import Session

A, B = TypeVar("A"), TypeVar("B")


class Elsewhere:
    count = 2

    def __init__(self) -> None:
        self.items = 0

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        for item in items:
            self.items += 1
            run, sent = pickle.loads(pickle.dumps((function, item)))
            yield pickle.loads(pickle.dumps(run(sent)))


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    found = Elsewhere()
    monkeypatch.setattr(prediction, "LARGE", 0)
    monkeypatch.setattr(Session, "readers", lambda self: found)
    return found


def plain_csv(table: pa.Table, path: Path) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table.column_names)
        lines.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return path


def test_the_same_answers_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, seen = make(tmp_path / "w", None), []
    table = people.people(n=200, seed=3)
    cities = ["nowhere" if i % 50 == 9 else c for i, c in enumerate(table["city"].to_pylist())]
    table = table.set_column(table.schema.get_field_index("city"), "city", pa.array(cities))
    path = plain_csv(table, tmp_path / "new.csv")
    with kept.open() as ws:
        one = ws.predict(path)
        found = Elsewhere()
        monkeypatch.setattr(prediction, "LARGE", 0)
        monkeypatch.setattr(Session, "readers", lambda self: found)
        many = ws.predict(path, progress=lambda *at: seen.append(at))
    assert found.items == 8
    assert many.table is not None
    assert one.table is not None
    assert many.table.combine_chunks() == one.table.combine_chunks()
    assert (many.rows, many.unseen, many.accuracy) == (one.rows, one.unseen, one.accuracy)
    assert many.unseen == 4
    assert [stage for stage, _, _ in seen] == ["predicting"] * 8


def test_an_error_names_the_row_of_the_file(readers: Elsewhere, tmp_path: Path) -> None:
    kept, table = make(tmp_path / "w", None), people.people(n=200, seed=3)
    incomes = [str(v) for v in table["income"].to_pylist()]
    incomes[151] = "much"
    at = table.schema.get_field_index("income")
    path = plain_csv(table.set_column(at, "income", pa.array(incomes)), tmp_path / "new.csv")
    out = tmp_path / "out.csv"
    with kept.open() as ws, pytest.raises(BadInput, match="row 151, column 'income'"):
        ws.predict(path, out)
    assert readers.items > 1
    assert not out.exists()
