"""Every source gives the same rows; what is wrong with one is said with its name and row."""

import bz2
import gzip
import io
import sqlite3
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import dump_svmlight_file

import people
from unfit.data.profile import profile
from unfit.data.sources import Location, Source, base, open_source
from unfit.data.sources.csv_file import CsvSource
from unfit.data.text import as_text
from unfit.errors import BadInput

TABLE = people.people(n=60)


def sqlite_url(table: pa.Table, path: Path) -> str:
    with sqlite3.connect(path) as connection:
        names = ", ".join(f'"{n}"' for n in table.column_names)
        connection.execute(f"CREATE TABLE people ({names})")
        marks = ", ".join("?" for _ in table.column_names)
        rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
        connection.executemany(f"INSERT INTO people VALUES ({marks})", rows)
    connection.close()
    return f"sqlite:///{path}"


def collected(source: Source, column: str) -> list[str | None]:
    return [v for batch in source.blocks() for v in as_text(batch.column(column)).to_pylist()]


def test_csv_parquet_and_sql_give_the_same_rows(tmp_path: Path) -> None:
    made = [
        open_source(Location(people.write(TABLE, tmp_path / "t.csv"))),
        open_source(Location(people.write(TABLE, tmp_path / "t.parquet"))),
        open_source(Location(url=sqlite_url(TABLE, tmp_path / "t.db"), table="people")),
        open_source(Location(url=f"sqlite:///{tmp_path}/t.db", query="SELECT * FROM people")),
    ]
    for name in ("person", "city", "label", "age"):
        columns = [collected(source, name) for source in made]
        assert all(column == columns[0] for column in columns)
    assert all(source.columns() == TABLE.column_names for source in made)


def test_a_postgresql_table_is_a_source(server: object, tmp_path: Path) -> None:
    import psycopg

    name = server.database()  # type: ignore[attr-defined]
    url = server.url(name)  # type: ignore[attr-defined]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE people (person text, age float8, label text)")
        rows = zip(*(TABLE[c].to_pylist() for c in ("person", "age", "label")), strict=True)
        connection.cursor().executemany("INSERT INTO people VALUES (%s, %s, %s)", list(rows))
    source = open_source(Location(url=url, table="people"))
    assert collected(source, "person") == TABLE["person"].to_pylist()
    assert [p.seen for p in profile(source, ["age", "label"])] == ["numeric", "boolean"]


def test_blocks_are_bounded_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", 7)
    monkeypatch.setattr(base, "BLOCK_BYTES", 300)
    files = [Location(people.write(TABLE, tmp_path / f"t.{kind}")) for kind in ("csv", "parquet")]
    for location in files:
        sizes = [batch.num_rows for batch in open_source(location).blocks()]
        assert sum(sizes) == 60
        assert len(sizes) > 5


def test_libsvm_lines_become_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.5)
    X[0, 5] = 2.5
    y = rng.integers(0, 2, 40)
    dump_svmlight_file(X, y, str(tmp_path / "t.libsvm"), zero_based=False)
    for size in (1 << 20, 200):
        monkeypatch.setattr(base, "BLOCK_BYTES", size)
        source = open_source(Location(tmp_path / "t.libsvm"))
        assert source.columns() == ["label", *(f"f{i}" for i in range(1, 7))]
        table = pa.Table.from_batches(source.blocks())
        np.testing.assert_allclose(
            np.column_stack([table[f"f{j}"].to_numpy() for j in range(1, 7)]), X, atol=1e-6
        )
        assert table["label"].to_pylist() == y.tolist()


@pytest.mark.parametrize("packed", ["t.svm.gz", "t.libsvm.bz2"])
def test_packed_libsvm_is_unpacked_on_the_way(packed: str, tmp_path: Path) -> None:
    text = b"1 1:0.5 3:2\n0 2:1\n"
    packer = gzip.compress if packed.endswith(".gz") else bz2.compress
    (tmp_path / packed).write_bytes(packer(text))
    table = pa.Table.from_batches(open_source(Location(tmp_path / packed)).blocks())
    assert table.to_pydict() == {"label": [1, 0], "f1": [0.5, 0], "f2": [0, 1], "f3": [2, 0]}
    (tmp_path / packed).write_bytes(packer(text * 200)[:-12])
    with pytest.raises(BadInput, match=f"cannot read {packed}"):
        open_source(Location(tmp_path / packed))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1:0.5 2:x\n", "line 1"),
        ("1 1:0.5\n0 nonsense\n", "line 2"),
        ("hello world\n", "no index:value pairs"),
        ("1 0:3 1:2\n", "start at 1"),
    ],
)
def test_bad_libsvm_lines_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(BadInput, match=said):
        for _ in open_source(Location(tmp_path / "t.svm")).blocks():
            pass


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "empty"),
        ("t.csv", b"a,a\n1,2\n", "two columns are called 'a'"),
        ("t.csv", b"a,\n1,2\n", "column 2 has no name"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("t.csv", b"\xff\xfea,b\n1", "cannot read t.csv"),  # half a letter of UTF-16
        ("t.parquet", b"PAR1 nonsense", "cannot read t.parquet"),
        ("t.xlsx", b"", "--format"),
    ],
)
def test_bad_files_are_named(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said):
        for _ in open_source(Location(tmp_path / name)).blocks():
            pass


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file"):
        open_source(Location(tmp_path / "none.csv"))
    with pytest.raises(BadInput, match="folder"):
        open_source(Location(tmp_path))
    with pytest.raises(BadInput, match="no database"):
        open_source(Location(url=f"sqlite:///{tmp_path}/t.db", table="people"))
    assert not (tmp_path / "t.db").exists()
    sqlite_url(TABLE, tmp_path / "t.db")
    with pytest.raises(BadInput, match="no table"):
        open_source(Location(url=f"sqlite:///{tmp_path}/t.db", table="persons"))
    with pytest.raises(BadInput, match="cannot read the query"):
        open_source(Location(url=f"sqlite:///{tmp_path}/t.db", query="SELEKT"))
    with pytest.raises(BadInput, match="table or a query"):
        open_source(Location(url=f"sqlite:///{tmp_path}/t.db"))


def test_csv_from_a_pipe_with_a_mark_quotes_and_line_breaks() -> None:
    source = CsvSource(io.BytesIO(b'\xef\xbb\xbfa,b\n"x, y","1\n2"\nNA,\n'), ("", "NA"))
    assert source.columns() == ["a", "b"]
    assert collected(source, "a") == ["x, y", None]
    assert collected(source, "b") == ["1\n2", None]


def test_compressed_and_tab_separated_text(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    assert collected(open_source(Location(tmp_path / "t.tsv.gz")), "b") == ["2"]


def test_one_text_for_one_value() -> None:
    for values in ([1, 2, None], [1.0, 2.0, None], ["1", "2", None]):
        assert as_text(pa.array(values)).to_pylist() == ["1", "2", None]
    assert as_text(pa.array([1.5, float("nan")])).to_pylist() == ["1.5", None]
    assert as_text(pa.array([True, False, None])).to_pylist() == ["true", "false", None]
    assert as_text(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist() == ["a", "b", "a"]
    decimals = pa.array(["100000000000000005.00", "100000000000000006.00"]).cast(
        pa.decimal128(22, 2)
    )
    assert as_text(decimals).to_pylist() == ["100000000000000005", "100000000000000006"]
    key = uuid.UUID(int=7)
    assert as_text(pa.array([key, None])).to_pylist() == [str(key), None]
    with pytest.raises(BadInput):
        as_text(pa.array([[1]]))


def test_a_profile_sees_kinds(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": ["1", " 2.5", None],
            "b": ["yes", "No", None],
            "c": ["u", "v", "u"],
            "d": ["2024-01-02", "2024-02-03", None],
            "e": [None, None, None],
            "z": ["1", "x", "2"],
        }
    )
    found = profile(open_source(Location(people.write(table, tmp_path / "t.csv"))), [*"nbcdez"])
    assert [p.seen for p in found] == [
        "numeric",
        "boolean",
        "category",
        "date",
        "unusable",
        "category",
    ]
    assert [p.missing for p in found] == [1, 1, 0, 1, 3, 0]
    assert found[2].distinct == 2
