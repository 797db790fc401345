"""Text files as people have them: delimiters, encodings, fractions; all of Python's csv module."""

import csv
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.data.columns import Column
from unfit.data.dialect import DELIMITERS, Dialect
from unfit.data.objects import _taker
from unfit.data.profile import Wanted, look, profile
from unfit.data.sources import Location, open_source
from unfit.data.sources.csv_file import CsvSource
from unfit.data.sources.in_memory import TableSource
from unfit.data.values import numbers, unreadable_count
from unfit.errors import BadInput

CELLS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6)
WESTERN = st.text(st.characters(codec="latin-1", min_codepoint=0xA0, max_codepoint=0xFF))


def rows_of(source: CsvSource) -> list[tuple[str | None, ...]]:
    table = pa.Table.from_batches(
        source.blocks(), pa.schema([(n, pa.string()) for n in source.columns()])
    )
    return list(zip(*(table[name].to_pylist() for name in source.columns()), strict=True))


def written(
    header: list[str], rows: list[list[str]], encoding: str, **dialect: object
) -> io.BytesIO:
    text = io.StringIO(newline="")
    csv.writer(text, **dialect).writerows([header, *rows])  # type: ignore[arg-type]
    return io.BytesIO(text.getvalue().encode(encoding))


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8),
    st.sampled_from(DELIMITERS),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le"]),
)
def test_what_python_writes_is_read_cell_by_cell(
    rows: list[tuple[str, str, str]], delimiter: str, end: str, quoting: int, encoding: str
) -> None:
    header = ["id", 'the "first"\nname', "last, or; so"]
    if end == "\n" and quoting == csv.QUOTE_MINIMAL:  # where Python leaves a bare \r unquoted
        rows = [tuple(cell.replace("\r", "\n") for cell in row) for row in rows]
    kept = [list(row) for row in rows]
    content = written(
        header, kept, encoding, delimiter=delimiter, lineterminator=end, quoting=quoting
    )
    declared = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    source = CsvSource(content, ("\0",), delimiter=delimiter, encoding=declared)
    assert source.columns() == header
    assert rows_of(source) == [tuple(row) for row in rows]


@given(
    st.lists(
        st.tuples(st.integers(), WESTERN, st.sampled_from(["1,5", "22,75", "3"])),
        min_size=2,
        max_size=20,
    ),
    st.sampled_from([";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"]),
)
def test_delimiter_and_encoding_are_found_out(
    rows: list[tuple[int, str, str]], delimiter: str, encoding: str
) -> None:
    body = [[str(i), name, price] for i, name, price in rows]
    content = written(["id", "name", "price"], body, encoding, delimiter=delimiter)
    source = CsvSource(content, ("\0",))
    assert source.dialect.delimiter == delimiter
    assert rows_of(source) == [tuple(row) for row in body]


def test_cp1252_is_told_from_latin_1() -> None:
    assert CsvSource(io.BytesIO("a;b\n5 €;x\n".encode("cp1252"))).dialect == Dialect(";", "cp1252")
    assert CsvSource(io.BytesIO("a;b\né;x\n".encode("latin-1"))).dialect == Dialect(";", "latin-1")
    assert CsvSource(io.BytesIO(b"a,b\n\x81\xe9,x\n")).dialect == Dialect(",", "latin-1")
    late = b"a,b\n" + b"1,2\n" * 3_000_000 + "1,é\n".encode("latin-1")
    assert CsvSource(io.BytesIO(late)).dialect == Dialect(",", "latin-1")


def test_commas_win_where_nothing_is_clear() -> None:
    for text in (b"a\n1\n", b"a,b\n1;2,3\n", b"a\n1,5\n"):
        assert CsvSource(io.BytesIO(text)).dialect == Dialect()
    wide = b"a;b;c,d\n1;2;3,4\n"  # three cells against two
    assert CsvSource(io.BytesIO(wide)).dialect.delimiter == ";"


def test_files_of_the_same_kind_are_read_alike(tmp_path: Path) -> None:
    like = Dialect("^", "cp1250")
    (tmp_path / "t.csv").write_bytes("name^b\nŁódź^1\n".encode("cp1250"))
    found = open_source(Location(tmp_path / "t.csv", like=like))
    assert pa.Table.from_batches(found.blocks()).to_pydict() == {"name": ["Łódź"], "b": ["1"]}
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress("name,b\nŁódź,1\n".encode()))
    found = open_source(Location(tmp_path / "u.csv.gz", like=like))
    assert pa.Table.from_batches(found.blocks()).to_pydict() == {"name": ["Łódź"], "b": ["1"]}


@pytest.mark.parametrize(
    ("delimiter", "encoding", "said"),
    [
        (";;", None, "one character"),
        ("\n", None, "one character"),
        ('"', None, "one character"),
        (None, "klingon", "unknown encoding 'klingon'"),
        (None, "base64", "unknown encoding"),
    ],
)
def test_dialects_that_are_none(delimiter: str | None, encoding: str | None, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        CsvSource(io.BytesIO(b"a,b\n1,2\n"), ("",), delimiter=delimiter, encoding=encoding)


def test_bytes_that_are_not_what_they_are_said_to_be() -> None:
    with pytest.raises(BadInput, match="cannot read standard input"):
        rows_of(CsvSource(io.BytesIO(b"a,b\n1,\xff\n"), ("",), encoding="utf-8"))


# --- numbers -----------------------------------------------------------------------------------


def seen(values: list[str | None], decimal: str | None = None):
    source = TableSource(pa.table({"x": pa.array(values, pa.string())}))
    return look(source, Wanted(["x"], decimal=decimal)).columns[0]


def test_a_column_that_is_nearly_numbers_says_so() -> None:
    ages = [str(20 + i % 60) for i in range(2000)]
    ages[37] = "unknown"
    found = seen(ages)
    assert (found.seen, found.numbers, found.unreadable) == ("category", 1999, 1)
    assert found.remark() == (
        "column 'x': 1,999 of 2,000 values are numbers, 1 is not ('unknown' in row 37), so it is "
        "read as a category; --numeric x reads it as numbers and counts this one as missing"
    )
    assert seen(["EUR 50", "12", "13.5", None]).remark() is not None
    for plain in (["a", "b", "1"], ["1", "2", None], ["yes", "no", "1"]):
        assert seen(plain).remark() is None


@pytest.mark.parametrize(
    ("values", "decimal", "kind", "by"),
    [
        (["1,5", "2", "0,25"], None, "numeric", ","),
        (["1,5", "2.5"], None, "category", "."),
        (["1,234", "12,345"], None, "category", ","),  # thousands, or fractions?
        (["1,234", "12,345"], ",", "numeric", ","),
        (["1,234", "12,345", "0,123"], None, "numeric", ","),
        (["1,234", "1234,500"], None, "numeric", ","),
        (["1,5", "2,5"], ".", "category", "."),
        (["1.5", "2.5"], None, "numeric", "."),
        (["1,234.50", "2"], None, "category", "."),
        (["1,5", "oops", "2,5", "3"], None, "category", ","),
    ],
)
def test_decimal_commas_where_they_are_clear(
    values: list[str], decimal: str | None, kind: str, by: str
) -> None:
    found = seen(values, decimal)
    assert (found.seen, found.decimal) == (kind, by)


def test_unclear_commas_are_asked_about() -> None:
    assert "--decimal , reads it as numbers" in (seen(["1,234", "12,345"]).remark() or "")


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.floats(-1e6, 1e6).map(lambda v: repr(v).replace(".", ",")),
            st.integers(-(10**6), 10**6).map(str),
            st.sampled_from(["x", "1.5", "", "inf", "--"]),
        ),
        min_size=1,
    )
)
def test_a_number_means_the_same_in_a_table_and_in_json(values: list[str | None]) -> None:
    column = Column("x", "numeric", decimal=",", unreadable="missing")
    array = pa.array(values, pa.string())
    table = numbers(array, column, 0, "t").tolist()
    take = _taker(column)
    for value, number in zip(values, table, strict=True):
        if value == "inf":
            continue  # refused in JSON, as everywhere
        assert take(value) == pytest.approx(number, nan_ok=True)
    odd = ("x", "1.5", "", "inf", "--")
    assert unreadable_count(array, column) == sum(value in odd for value in values)


def test_what_is_no_number_is_named_with_its_row() -> None:
    array = pa.array(["1", None, " 2 ", "EUR 50", "x"])
    with pytest.raises(BadInput, match="row 13, column 'x': 'EUR 50' is not a number; unreadable"):
        numbers(array, Column("x", "numeric"), 10, "t")
    with pytest.raises(BadInput, match="row 2, column 'x': '1.5' is not a number"):
        numbers(pa.array(["1,5", "2", "1.5"]), Column("x", "numeric", decimal=","), 0, "t")


def test_a_profile_counts_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from unfit.data.sources import base

    monkeypatch.setattr(base, "BLOCK_ROWS", 7)
    values = [str(i) for i in range(100)]
    values[50], values[90] = "x", "y"
    (found,) = profile(TableSource(pa.table({"x": values})), ["x"])
    assert (found.numbers, found.strays) == (98, (("x", 50), ("y", 90)))
