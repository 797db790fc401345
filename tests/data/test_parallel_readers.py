"""Rows that are read, encoded and predicted in parts are those of one reader, byte for byte."""

import csv
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import people
from unfit.data.columns import Column
from unfit.data.generation import write_dataset
from unfit.data.ids import Ids
from unfit.data.ingest import Intake, spool
from unfit.data.parallel import spool_at_once
from unfit.data.roles import Roles
from unfit.data.sources import Location, Source, open_source
from unfit.errors import BadInput, UnreadableThere

A, B = TypeVar("A"), TypeVar("B")
TABLE = people.people(n=300)
ROLES = Roles("label", subject="person", row_id="record", drop_missing=True)
COLUMNS = [
    Column("age", "numeric", unreadable="missing"),
    Column("income", "numeric"),
    Column("plan", "category"),
    Column("city", "category"),
]


class Elsewhere:
    """Functions that are sent to another process, and what they return."""

    count = 2

    def __init__(self) -> None:
        self.items = 0

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        for item in items:
            self.items += 1
            run, sent = pickle.loads(pickle.dumps((function, item)))
            yield pickle.loads(pickle.dumps(run(sent)))


def written(table: pa.Table, path: Path) -> Source:
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=40)
    else:
        with path.open("w", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(table.column_names)
            lines.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return open_source(Location(path))


def with_gaps(table: pa.Table) -> pa.Table:
    """Rows without a label are left out, and ages that are no numbers count as missing."""
    labels, ages = table["label"].to_pylist(), [str(a) for a in table["age"].to_pylist()]
    labels[7] = labels[130] = None
    ages[3] = ages[200] = "old"
    table = table.set_column(table.schema.get_field_index("label"), "label", pa.array(labels))
    return table.set_column(table.schema.get_field_index("age"), "age", pa.array(ages))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_parts_are_read_as_one_reader_reads_the_whole(name: str, tmp_path: Path) -> None:
    source, readers = written(with_gaps(TABLE), tmp_path / name), Elsewhere()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    intakes, seen = (Intake(), Intake()), []
    one = spool(source, ROLES, COLUMNS, tmp_path / "a", None, intakes[0])
    reading = source, ROLES, COLUMNS
    many = spool_at_once(reading, tmp_path / "b", readers, lambda *at: seen.append(at), intakes[1])
    assert readers.items > 4
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert intakes[0] == intakes[1]
    assert (intakes[0].dropped, intakes[0].unreadable["age"] >= 2) == (2, True)
    for field in fields(one):
        ours, theirs = getattr(many, field.name), getattr(one, field.name)
        if isinstance(theirs, Ids):
            ours, theirs = ours.data, theirs.data
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs
    assert not list((tmp_path / "b").glob("parts-*"))


def test_rows_are_encoded_to_the_same_bytes(tmp_path: Path) -> None:
    source = written(TABLE, tmp_path / "t.csv")
    raw = spool(source, ROLES, COLUMNS, tmp_path)
    for name, readers in (("a", None), ("b", Elsewhere())):
        (tmp_path / name).mkdir()
        write_dataset(
            tmp_path / name,
            raw,
            np.arange(200),
            np.arange(200, 300),
            columns=COLUMNS,
            norm=3.0,
            min_rows=1,
            readers=readers,
        )
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_what_is_wrong_names_the_row_of_the_source(name: str, tmp_path: Path) -> None:
    incomes = [str(v) for v in TABLE["income"].to_pylist()]
    incomes[211] = "much"
    at = TABLE.schema.get_field_index("income")
    source = written(TABLE.set_column(at, "income", pa.array(incomes)), tmp_path / name)
    with pytest.raises(BadInput, match="row 211, column 'income': 'much' is not a number"):
        spool_at_once((source, ROLES, COLUMNS), tmp_path, Elsewhere(), None, Intake())


def test_what_readers_elsewhere_cannot_read_is_read_here(tmp_path: Path) -> None:
    class Blind(Elsewhere):
        def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
            yield from super().each(function, items[:1])
            raise UnreadableThere("a worker cannot read or write a file")

    source = written(TABLE, tmp_path / "t.csv")
    found = spool_at_once((source, ROLES, COLUMNS), tmp_path, Blind(), None, Intake())
    assert len(found.labels) == 300
    assert not list(tmp_path.glob("parts-*"))


def parts_of(path: Path, text: bytes, most: int = 5) -> Sequence[Source]:
    path.write_bytes(text)
    return open_source(Location(path)).parts(most)


ROWS = b"".join(b"%d,%d\n" % (i, i * i) for i in range(40))


@pytest.mark.parametrize(
    "text",
    [b"a,b\n" + ROWS, b"a,b\r\n" + ROWS.replace(b"\n", b"\r\n"), b"\n\na,b\n" + ROWS[:-1]],
    ids=["plain", "CR LF", "blank lines and no end"],
)
def test_a_csv_file_is_cut_between_lines(text: bytes, tmp_path: Path) -> None:
    parts = parts_of(tmp_path / "t.csv", text)
    assert len(parts) == 5
    found = [v for part in parts for b in part.blocks() for v in b.column("b").to_pylist()]
    assert found == [str(i * i) for i in range(40)]


@pytest.mark.parametrize(
    "text",
    [b'a,b\n"1",2\n' + ROWS, b"a,b\r" + ROWS, b"a,b\n", b"a,b\n1,2\n"],
    ids=["quotation marks", "other line ends", "no rows", "one row"],
)
def test_a_csv_file_that_cannot_be_cut_is_read_whole(text: bytes, tmp_path: Path) -> None:
    assert len(parts_of(tmp_path / "t.csv", text)) == 1


def test_packed_files_and_streams_are_read_whole(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + ROWS))
    assert len(open_source(Location(path)).parts(5)) == 1
