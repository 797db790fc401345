"""Rows on disk: what goes in comes out, what is erased is zero, what is damaged is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
from unfit import disk
from unfit.data import ids as id_module
from unfit.data.columns import Column
from unfit.data.dataset import Dataset
from unfit.data.generation import write_dataset
from unfit.data.ingest import split, spool
from unfit.data.roles import Roles
from unfit.data.sources import Location, open_source
from unfit.errors import BadInput, Unavailable

COLUMNS = [Column("age", "numeric"), Column("plan", "category"), Column("city", "category")]
ROLES = Roles("label", subject="person", row_id="record")


def written(tmp_path: Path, table: pa.Table, roles: Roles = ROLES) -> Dataset:
    source = open_source(Location(people.write(table, tmp_path / "t.parquet")))
    folder = tmp_path / "d"
    folder.mkdir()
    raw = spool(source, roles, COLUMNS, tmp_path)
    train, test = split(raw, 0.25, 0)
    write_dataset(folder, raw, train, test, columns=COLUMNS, norm=None, min_rows=1)
    return Dataset(folder)


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    table = people.people(n=300)
    data = written(tmp_path, table)
    assert data.n == 300
    order = data["numbers"]
    np.testing.assert_array_equal(np.sort(order), np.arange(300))
    np.testing.assert_array_equal(
        data["values"][:, 0], table["age"].to_numpy(zero_copy_only=False)[order].astype(np.float32)
    )
    labels = np.array(table["label"].to_pylist())
    assert [data.label_texts[i] for i in data["labels"]] == labels[order].tolist()
    for who in ("p0003", "p0100"):
        expected = np.flatnonzero(np.array(table["person"].to_pylist()) == who)
        found = data.subject_rows(who)
        assert found is not None
        assert sorted(order[found]) == expected.tolist()
    assert data.subject_rows("nobody") is None
    at = data.row("r00042")
    assert at is not None
    assert order[at] == 42
    np.testing.assert_array_equal(data.positions_of(np.array([42, 9999])), [at])


@pytest.mark.parametrize("restored", [False, True])
def test_live_is_zeroed_first_and_of_restored_rows_last(
    restored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(tmp_path, people.people(n=300))
    zero_rows, names = disk.zero_rows, list[str]()

    def zeroed(path: Path, row_bytes: int, positions: np.ndarray) -> None:
        names.append(path.stem)
        zero_rows(path, row_bytes, positions)

    monkeypatch.setattr(disk, "zero_rows", zeroed)
    data.purge_rows(np.array([3]), restored=restored)
    assert names.index("live") == (len(names) - 1 if restored else 0)
    assert {"X", "values", "codes", "labels"} < set(names)


def test_erased_rows_are_zero_and_not_found(tmp_path: Path) -> None:
    data = written(tmp_path, people.people(n=300))
    positions = data.subject_rows("p0003")
    assert positions is not None
    others = np.setdiff1d(np.arange(300), positions)
    before = {name: data[name][others].copy() for name in ("X", "values", "codes", "labels")}
    for _ in range(2):  # can be repeated
        data.purge_rows(positions)
        data.purge_ids(positions)
    for name in ("X", "values", "codes", "labels"):
        assert not np.ascontiguousarray(data[name][positions]).view(np.uint8).any()
        np.testing.assert_array_equal(data[name][others], before[name])
    assert data.subject_rows("p0003") is None
    assert not data.live[positions].any()
    again = Dataset(data.folder)
    assert again.subject_rows("p0003") is None
    known = [again.subject_rows(f"p{i:04d}") for i in range(150) if i != 3]
    assert sum(len(rows) for rows in known if rows is not None) == len(others)
    each, labels = data.counts()
    fresh, fresh_labels = again.counts()
    for a, b in zip([*each, labels], [*fresh, fresh_labels], strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_a_subject_or_a_row_id_rows_have_numbers(tmp_path: Path) -> None:
    data = written(tmp_path, people.people(n=40), Roles("label"))
    at = data.row("17")
    assert at is not None
    assert data["numbers"][at] == 17
    np.testing.assert_array_equal(data.subject_rows("17"), [at])
    for wrong in ("40", "-1", "x", "1.0", "9" * 30):
        assert data.row(wrong) is None


def test_missing_and_repeated_ids_are_named(tmp_path: Path) -> None:
    table = people.people(n=20)
    who = table["person"].to_pylist()
    gap = table.set_column(
        0, "person", pa.array([None if i == 7 else w for i, w in enumerate(who)])
    )
    with pytest.raises(BadInput, match="row 7 has no subject"):
        written(tmp_path, gap)
    (tmp_path / "b").mkdir()
    twice = table.set_column(
        1, "record", pa.array(["same" if i in (3, 9) else str(i) for i in range(20)])
    )
    with pytest.raises(BadInput, match="rows 3 and 9 have the same row id"):
        written(tmp_path / "b", twice)
    (tmp_path / "c").mkdir()
    label = table.set_column(7, "label", pa.array([None if i == 4 else "a" for i in range(20)]))
    with pytest.raises(BadInput, match="row 4 has no 'label'"):
        written(tmp_path / "c", label)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=5)
        .map(str.strip)
        .filter(bool),
        min_size=1,
        max_size=50,
    ),
    st.data(),
)
def test_ids_are_found_whatever_was_erased(texts: list[str], data: st.DataObject) -> None:
    ids, places = id_module.build(pa.chunked_array([pa.array(texts)]), "id", "t")
    assert [ids.text(i) for i in places] == texts
    ids.data = ids.data.copy()
    erased = set(data.draw(st.lists(st.sampled_from(texts))))
    for text in erased:
        at = ids.find(text)
        assert at is not None
        ids.data[ids.offsets[at] : ids.offsets[at + 1]] = 0
    for text in texts:
        found = ids.find(text)
        assert (found is None) == (text in erased)
        if found is not None:
            assert ids.text(found) == text
    left = [i for i in range(len(ids)) if ids.text(i) is not None]
    taken = ids.take(np.array(left, np.int64))
    assert [taken.text(i) for i in range(len(taken))] == [ids.text(i) for i in left]


def test_whole_numbers_are_sorted_as_numbers() -> None:
    ids, _ = id_module.build(pa.chunked_array([pa.array(["10", "9", "100", "2"])]), "id", "t")
    assert [ids.text(i) for i in range(4)] == ["2", "9", "10", "100"]


def test_a_file_that_is_replaced_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    disk.write(path, b"old")
    with pytest.raises(RuntimeError), disk.replacing(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_too_little_space_is_said_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="make room"):
        disk.require_space(tmp_path, 1 << 60, "the data")
