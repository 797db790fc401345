"""Encoding against pandas and scikit-learn, and its identities."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import people
from unfit.data.columns import Column
from unfit.data.constants import fit
from unfit.data.encoding import Encoding
from unfit.data.reader import Reader
from unfit.data.values import Vocabulary
from unfit.errors import BadInput, Damaged

COLUMNS = [
    Column("age", "numeric"),
    Column("income", "numeric"),
    Column("member", "boolean"),
    Column("plan", "category"),
    Column("city", "category"),
]


def encoded(
    table: pa.Table, columns: list[Column], norm: float | None = 0.0, min_rows: int = 1
) -> tuple[np.ndarray, Encoding, Reader]:
    reader = Reader(columns)
    raw = reader.read(table.combine_chunks().to_batches()[0], 0, "t")
    texts = [v.texts for v in reader.vocabularies]

    def blocks():  # type: ignore[no-untyped-def]
        for start in range(0, len(raw), 37):
            yield raw[start : start + 37]

    encoding = fit(columns, texts, blocks, norm, min_rows)
    return encoding.encode(raw, encoding.slots(texts)), encoding, reader


def test_numbers_and_categories_as_scikit_learn_has_them() -> None:
    table = people.people(n=200)
    X, encoding, _ = encoded(table, COLUMNS)
    frame = table.to_pandas()
    scaler = StandardScaler().fit(frame[["age", "income"]])
    for c, mean, sd in zip(encoding.numeric, scaler.mean_, scaler.scale_, strict=False):
        assert abs(np.log2(c.scale / sd)) <= 0.5
        assert abs(c.shift - mean) <= c.scale / 16
    scaler.mean_ = np.array([c.shift for c in encoding.numeric[:2]])
    scaler.scale_ = np.array([c.scale for c in encoding.numeric[:2]])
    scaled = scaler.transform(frame[["age", "income"]])
    np.testing.assert_allclose(X[:, :2], np.nan_to_num(scaled), atol=1e-5)
    np.testing.assert_array_equal(X[:, 2], frame["member"])
    cities = frame[["plan", "city"]].fillna("")
    hot = OneHotEncoder(sparse_output=False).fit_transform(cities)
    np.testing.assert_array_equal(X[:, 3:], hot)
    assert encoding.names()[3:6] == ["plan=basic", "plan=plus", "plan=pro"]
    assert encoding.names()[6] == "city="  # the missing ones


def test_a_new_file_is_encoded_alike_and_unseen_categories_are_none() -> None:
    table = people.people(n=120)
    X, encoding, _ = encoded(table, COLUMNS, norm=None)
    again = Encoding.from_json(encoding.to_json())
    assert again == encoding
    reader = Reader.of(again)
    raw = reader.read(table.combine_chunks().to_batches()[0], 0, "new")
    np.testing.assert_array_equal(again.encode(raw, again.own_slots()), X)
    strange = table.set_column(5, "plan", pa.array(["new"] * 120))
    raw = reader.read(strange.combine_chunks().to_batches()[0], 0, "new")
    assert not again.encode(raw, again.own_slots())[:, 3:6].any()
    strict = [*COLUMNS[:3], Column("plan", "category", unseen="error"), COLUMNS[4]]
    _, encoding, _ = encoded(table, strict)
    with pytest.raises(
        BadInput, match="row 0, column 'plan': 'new' is not among the model's categories"
    ):
        Reader.of(encoding).read(strange.combine_chunks().to_batches()[0], 0, "new")


def test_the_norm_bound() -> None:
    table = people.people(n=150)
    plain, _, _ = encoded(table, COLUMNS)
    lengths = np.linalg.norm(plain, axis=1)
    fitted, encoding, _ = encoded(table, COLUMNS, norm=None)
    median = np.median(lengths)
    assert encoding.norm == pytest.approx(2.0 ** (np.rint(8 * np.log2(median)) / 8), rel=1e-7)
    assert encoding.norm_fitted
    expected = plain / np.maximum(lengths, encoding.norm)[:, None]
    np.testing.assert_allclose(fitted, expected, atol=1e-6)
    assert np.linalg.norm(fitted, axis=1).max() <= 1 + 1e-6
    clipped, encoding, _ = encoded(table, COLUMNS, norm=2.0)
    assert not encoding.norm_fitted
    expected = plain / np.maximum(lengths, 2.0)[:, None]
    np.testing.assert_allclose(clipped, expected, atol=1e-6)
    assert np.linalg.norm(clipped, axis=1).max() <= 1 + 1e-6


def test_few_people_make_no_category_and_no_mean() -> None:
    table = pa.table({"c": ["a"] * 9 + ["b"], "n": [None] * 9 + [123.0]})
    X, encoding, _ = encoded(table, [Column("c", "category"), Column("n", "numeric")], min_rows=5)
    assert encoding.columns[0].categories == ("a",)
    assert (encoding.columns[1].shift, encoding.columns[1].scale) == (0.0, 1.0)
    kept = [Column("c", "category", max_categories=1)]
    assert encoded(table, kept)[1].columns[0].categories == ("a",)
    declared = [Column("c", "category", categories=("b", "z"))]
    X, encoding, _ = encoded(table, declared, min_rows=5)
    assert encoding.columns[0].constants == "declared"
    np.testing.assert_array_equal(X, np.c_[np.eye(1, 10, 9).ravel(), np.zeros(10)])


def test_declared_numbers() -> None:
    table = pa.table({"x": [0.0, 5.0, None]})
    X, _, _ = encoded(table, [Column("x", "numeric", scale="range", min=0.0, max=10.0)])
    np.testing.assert_allclose(X.ravel(), [0, 0.5, 0])
    X, _, _ = encoded(table, [Column("x", "numeric", mean=1.0, sd=2.0, missing=9.0)])
    np.testing.assert_allclose(X.ravel(), [-0.5, 2, 4])
    X, _, _ = encoded(table, [Column("x", "numeric", scale="none", missing=7.0)])
    np.testing.assert_allclose(X.ravel(), [0, 5, 7])


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        (Column("x", "numeric"), ["1", "two"], "row 101, column 'x': 'two' is not a number"),
        (Column("x", "numeric"), [1.0, float("inf")], "row 101, column 'x': inf"),
        (Column("x", "numeric", missing="error"), [1.0, None], "row 101, column 'x': .* missing"),
        (Column("x", "boolean"), ["yes", "maybe"], "row 101, column 'x': 'maybe' is neither"),
        (Column("x", "numeric"), [[1], [2]], "column 'x' holds list"),
        (Column("x", "numeric"), pa.array([0, 1], pa.timestamp("s")), "dates into numbers"),
        (Column("x", "category"), pa.array([0, 1], pa.date32()), "dates into numbers"),
    ],
)
def test_bad_values_are_named(column: Column, values: object, said: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values)], names=["x"])
    with pytest.raises(BadInput, match=said):
        Reader([column]).read(batch, 100, "t")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"scale": "range"}, "one person's value"),
        ({"scale": "range", "min": 2.0, "max": 1.0}, "below max"),
        ({"mean": 1.0}, "both mean and sd"),
        ({"mean": 1.0, "sd": 0.0}, "sd must be above 0"),
    ],
)
def test_bad_columns_are_refused(fields: dict, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Column("x", "numeric", **fields)


def test_a_garbled_card_is_refused() -> None:
    for card in ({}, {"columns": 3}, None, {"columns": [{"column": {"name": "x"}}]}):
        with pytest.raises(Damaged):
            Encoding.from_json(card)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=40))
def test_vocabularies_give_the_text_back(texts: list[str]) -> None:
    vocabulary = Vocabulary("c")
    codes = vocabulary.encode(pa.array(texts, pa.string()))
    assert [vocabulary.texts[i] for i in codes] == texts
    fixed = Vocabulary("c", vocabulary.texts[:1], fixed=True)
    assert [c >= 0 for c in fixed.encode(pa.array(texts))] == [t == texts[0] for t in texts]
