"""Pairs and hashed texts: what goes in, by whatever way, and what is refused."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.data import bags
from unfit.data.columns import Column
from unfit.data.constants import Sizes, Sums, fit, fitted_columns, size_of_values
from unfit.data.csr import Csr, stacked
from unfit.data.encoding import Encoding
from unfit.data.exact_sums import square_lengths
from unfit.data.objects import pairs_of
from unfit.data.raw_rows import RawRows
from unfit.data.reader import Reader
from unfit.errors import BadInput

SPARSE = Column("words", "sparse", width=50, scale="none")
HASH = Column("site", "hash", width=97)
MAPS = pa.map_(pa.int32(), pa.float32())
finite = st.floats(-(2.0**99), 2.0**99, width=32, allow_nan=False).map(np.float32).filter(bool)
rows = st.lists(st.dictionaries(st.integers(0, 49), finite, max_size=6), min_size=1, max_size=12)


def dense(found: list[dict[int, float]], width: int = 50) -> np.ndarray:
    X = np.zeros((len(found), width), np.float32)
    for i, row in enumerate(found):
        for j, value in row.items():
            X[i, j] = value
    return X


def of(found: list[dict[int, float]]) -> Csr:
    maps = pa.array([list(row.items()) for row in found], MAPS)
    return bags.pairs(maps, SPARSE, 0, "t")


@given(rows)
def test_maps_and_texts_hold_the_same_pairs(found: list[dict[int, float]]) -> None:
    from_maps = of(found)
    texts = [" ".join(f"{j}:{float(v)!r}" for j, v in row.items()) for row in found]
    from_texts = bags.pairs(pa.array(texts), SPARSE, 0, "t")
    for made in (from_maps, from_texts):
        np.testing.assert_array_equal(made.dense(), dense(found))
        made.matrix().check_format()
        assert all((np.diff(made[i : i + 1].indices) > 0).all() for i in range(len(made)))
    objects = [pairs_of({str(j): float(v) for j, v in row.items()}, SPARSE) for row in found]
    np.testing.assert_array_equal(dense(objects), dense(found))
    again = bags.pairs(bags.as_maps(from_maps), SPARSE, 0, "t")
    np.testing.assert_array_equal(again.dense(), dense(found))


def test_a_part_of_a_batch_and_missing_values() -> None:
    maps = pa.array([[(1, 1.0)], None, [(2, 2.0), (3, 0.0)], [(4, 4.0)]], MAPS)
    made = bags.pairs(maps.slice(1, 2), SPARSE, 0, "t")
    assert made.counts.tolist() == [0, 1]  # a zero is no value
    assert (made.indices.tolist(), made.data.tolist()) == ([2], [2.0])
    texts = bags.pairs(pa.array([None, "", "  7:1   8:2.5 "]), SPARSE, 0, "t")
    assert texts.counts.tolist() == [0, 0, 2]
    assert bags.pairs(pa.nulls(3), SPARSE, 0, "t").counts.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (pa.array(["1:1", "2:x"]), "row 11, column 'words': '2:x' is not a pair"),
        (pa.array(["", "1:2 12:30:5"]), "row 11, column 'words': '12:30:5' is not a pair"),
        (pa.array(["3:1 3:2"]), "row 10, column 'words': number 3 is there twice"),
        (pa.array([[(3, 1.0)], [(2, float("nan"))]], MAPS), "row 11.*nan is not a usable number"),
        (pa.array([[(-3, 1.0)]], MAPS), "row 10, column 'words': -3 is not the number"),
        (pa.array(["1:1e39"]), "row 10.*1e\\+39 is not a usable number"),
        (pa.array([1.5, 2.5]), "holds double; a sparse column is a map"),
    ],
)
def test_what_is_not_a_pair_is_named(array: pa.Array, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        bags.pairs(array, SPARSE, 10, "t")


def test_numbers_beyond_the_width_are_left_out_or_refused() -> None:
    wide = pa.array(["49:1 50:1 4000000000:1"])
    assert bags.pairs(wide, SPARSE, 0, "t").indices.tolist() == [49]
    assert pairs_of("49:1 50:1", SPARSE) == {49: 1.0}
    strict = Column("words", "sparse", width=50, unseen="error")
    with pytest.raises(BadInput, match="number 50 is not below width = 50"):
        bags.pairs(wide, strict, 0, "t")
    with pytest.raises(BadInput, match="number 50 is not below width = 50"):
        pairs_of("50:1", strict)
    batch = pa.RecordBatch.from_pydict({"words": wide})
    with pytest.raises(BadInput, match="row 3, column 'words': number 50 is not below"):
        Reader([SPARSE]).read(batch, 3, "t")  # to train on, nothing is left out in silence


def test_texts_are_hashed_by_blake2b_and_counted() -> None:
    texts = ["shop.example", "", "\u00fc", "shop.example"]
    made = bags.pairs(pa.array([*texts[:3], None]), HASH, 0, "t")
    for i, text in enumerate([*texts[:3], ""]):
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        assert made[i : i + 1].indices.tolist() == [int.from_bytes(digest, "little") % 97]
        assert pairs_of(text, HASH) == {int(made.indices[i]): 1.0}
    lists = bags.pairs(pa.array([texts, []]), HASH, 0, "t")
    assert lists.counts.tolist() == [3, 0]
    assert sorted(lists.data.tolist()) == [1.0, 1.0, 2.0]
    assert pairs_of(texts, HASH) == dict(zip(lists.indices.tolist(), lists.data, strict=True))
    numbers = bags.pairs(pa.array([1042, 1042.0]), HASH, 0, "t")
    assert numbers.indices.tolist() == [bags.bucket("1042", 97)] * 2
    with pytest.raises(BadInput, match="column 'site' holds struct"):
        bags.pairs(pa.array([{"a": 1}]), HASH, 0, "t")


@given(rows, st.data())
def test_rows_are_taken_as_scipy_takes_them(
    found: list[dict[int, float]], data: st.DataObject
) -> None:
    X, matrix = of(found), of(found).matrix()
    chosen = np.array(data.draw(st.lists(st.integers(0, len(found) - 1), max_size=8)), np.int64)
    np.testing.assert_array_equal(X[chosen].dense(), matrix[chosen].toarray())
    start = data.draw(st.integers(0, len(found)))
    np.testing.assert_array_equal(X[start:].dense(), matrix[start:].toarray())
    both = stacked([X, X[chosen]], 50)
    np.testing.assert_array_equal(both.dense(), np.vstack([dense(found), dense(found)[chosen]]))
    np.testing.assert_array_equal(X.square_lengths(), square_lengths(dense(found)))  # to the bit
    two = bags.side_by_side([X, X])
    assert two is not None
    np.testing.assert_array_equal(bags.one_of(two, [50, 50], 1).dense(), dense(found))


COLUMNS = [Column("age", "numeric"), Column("plan", "category"), SPARSE, HASH]


def table(n: int, seed: int = 0) -> tuple[RawRows, list[list[str | None]]]:
    rng = np.random.default_rng(seed)
    words = [[(int(j), float(rng.normal())) for j in set(rng.integers(0, 50, 4))] for _ in range(n)]
    batch = pa.RecordBatch.from_pydict(
        {
            "age": pa.array(np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 9, n))),
            "plan": pa.array(rng.choice(["a", "b", "c"], n)),
            "words": pa.array(words, MAPS),
            "site": pa.array([f"s{i}" for i in rng.integers(0, 30, n)]),
        }
    )
    reader = Reader(COLUMNS)
    return reader.read(batch, 0, "t"), [v.texts for v in reader.vocabularies]


@pytest.mark.parametrize("norm", [0.0, 2.0, None])
def test_sparse_and_dense_encodings_hold_the_same_numbers(norm: float | None) -> None:
    raw, texts = table(300)

    def fitted(sparse: bool) -> Encoding:
        parts = [raw[start : start + 70] for start in range(0, 300, 70)]
        return fit(COLUMNS, texts, lambda: iter(parts), norm, 1, lambda _: sparse)

    one, other = fitted(True), fitted(False)
    assert one.norm == other.norm
    X, Y = one.encode(raw, one.slots(texts)), other.encode(raw, other.slots(texts))
    assert isinstance(X, Csr)
    np.testing.assert_allclose(X.dense(), Y, rtol=2e-7, atol=0)
    assert X.width == one.width == len(one.names()) == 1 + 3 + 50 + 97
    assert Encoding.from_json(one.to_json()) == one
    assert Encoding.from_json(other.to_json()) == other
    assert "sparse" not in other.to_json()


@given(st.lists(finite, min_size=1, max_size=40), st.integers(1, 5))
def test_the_scale_of_a_sparse_column_is_the_median_of_rows_largest_values(
    values: list[float], min_rows: int
) -> None:
    column = Column("w", "sparse", width=4)
    found = [{0: v, 1: np.float32(v / 4) or v} for v in values]
    maps = pa.array([list(row.items()) for row in found], MAPS)
    nothing = np.empty((len(values), 0), np.float32)
    raw = RawRows(nothing, nothing.astype(np.int32), bags.pairs(maps, column, 0, "t"))
    sizes = Sizes.of([column], [])
    (made,) = fitted_columns([column], [], Sums.of(raw, sizes), min_rows).columns
    assert made.constants == "fitted"
    assert made.shift == 0
    if len(values) < min_rows:
        assert made.scale == 1
        return
    median = np.sort(np.abs(np.array(values, np.float64)))[(len(values) + 1) // 2 - 1]
    assert made.scale == max(2.0 ** np.floor(np.log2(median)), 2.0**-126)


@given(st.integers(0, 100), st.integers(1, 20))
def test_erased_rows_leave_no_trace_in_the_scale(seed: int, gone: int) -> None:
    raw, _ = table(40, seed)
    sizes = Sizes.of(COLUMNS, [["a", "b", "c"]])
    left = Sums.of(raw, sizes) - Sums.of(raw[np.arange(gone)], sizes)
    fresh = Sums.of(raw[np.arange(gone, 40)], sizes)
    for one, other in zip(left.largest, fresh.largest, strict=True):
        np.testing.assert_array_equal(one, other)
        assert size_of_values(one, 3) == size_of_values(other, 3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "sparse"}, "needs width"),
        ({"kind": "hash", "width": 0}, "needs width"),
        ({"kind": "hash", "width": 2**31}, "from 1 to"),
        ({"kind": "sparse", "width": 5, "scale": "range", "min": 0, "max": 1}, "never shifted"),
        ({"kind": "sparse", "width": 5, "mean": 1.0, "sd": 2.0}, "never shifted"),
        ({"kind": "sparse", "width": 5, "sd": 0.0}, "sd must be above 0"),
        ({"kind": "numeric", "width": 5}, "width is for"),
    ],
)
def test_columns_that_cannot_be_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=f"column 'c'.*{said}"):
        Column("c", **given)  # type: ignore[arg-type]
