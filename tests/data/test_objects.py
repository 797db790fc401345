"""Objects are encoded as the same rows in a table are, to the last bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import people
from unfit.data.columns import Column
from unfit.data.constants import fit
from unfit.data.encoding import Encoded, Encoding
from unfit.data.objects import ObjectEncoder
from unfit.data.reader import Reader
from unfit.data.values import UNSEEN
from unfit.errors import BadInput

WORDS = ("true", "T", " yes ", "Y", "1", "false", "f", "No", "n", "0")
MARKS = ["", "red", "Red", " red", "blue", "1", "1.5", "true", "ä", "<b>", "'; --", "never seen"]

finite = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-1e6, 1e6)
numbers_as_text = st.one_of(
    finite.map(repr),
    st.integers(-(10**12), 10**12).map(str),
    finite.map(lambda x: f" {x!r} "),
    st.sampled_from([".5", "5.", "+7", "-0", "1e3", "1E-3", "007", "\t2\n"]),
)
VALUES: dict[str, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "numeric": [
        (pa.float64(), finite),
        (pa.int64(), st.integers(-(2**53), 2**53)),
        (pa.string(), numbers_as_text),
        (pa.bool_(), st.booleans()),
    ],
    "boolean": [
        (pa.bool_(), st.booleans()),
        (pa.string(), st.sampled_from(WORDS)),
        (pa.int64(), st.sampled_from([0, 1])),
        (pa.float64(), st.sampled_from([0.0, 1.0])),
    ],
    "category": [
        (pa.string(), st.sampled_from(MARKS)),
        (pa.string(), st.text(max_size=3)),
        (pa.int64(), st.sampled_from([1, 7, 10**15])),
        (pa.bool_(), st.booleans()),
        (pa.float64(), st.sampled_from([1.0, 1.5, 0.1, 1e22, -0.0, 1e-7]) | st.floats(-1e3, 1e3)),
    ],
}


@st.composite
def encodings(draw: st.DrawFn) -> Encoding:
    columns = []
    for i in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["numeric", "boolean", "category"]))
        if kind == "category":
            known = st.sampled_from([*MARKS[:-1], None])
            texts = draw(st.lists(known, max_size=6, unique_by=lambda t: t or object()))
            columns.append(Encoded(Column(f"c{i}", "category"), categories=tuple(texts)))
        else:
            scale = draw(st.sampled_from([1.0, 0.3, 12.5, 1e-3]))
            shift, fill = (draw(st.floats(-50, 50)) for _ in range(2))
            columns.append(Encoded(Column(f"c{i}", kind), shift=shift, scale=scale, fill=fill))  # type: ignore[arg-type]
    norm, clip = draw(st.sampled_from([(1.0, False), (3.7, False), (1.0, True), (0.5, True)]))
    return Encoding(tuple(columns), norm=norm, clip=clip)


@st.composite
def tables(draw: st.DrawFn, encoding: Encoding) -> pa.Table:
    n, made = draw(st.integers(1, 5)), {}
    for c in encoding.columns:
        kind, values = draw(st.sampled_from(VALUES[c.column.kind]))
        made[c.column.name] = pa.array(
            draw(st.lists(st.none() | values, min_size=n, max_size=n)), kind
        )
    return pa.table(made)


def as_a_table(encoding: Encoding, table: pa.Table) -> tuple[np.ndarray, int]:
    (batch,) = table.combine_chunks().to_batches()
    raw = Reader.of(encoding).read(batch, 0, "t")
    X = encoding.encode(raw, encoding.own_slots())
    return X, int((raw.codes == UNSEEN).any(axis=1).sum())


@settings(max_examples=300)
@given(st.data())
@pytest.mark.slow
def test_objects_and_a_table_are_encoded_alike(data: st.DataObject) -> None:
    encoding = data.draw(encodings())
    table = data.draw(tables(encoding))
    rows = table.to_pylist()
    expected, unseen = as_a_table(encoding, table)
    X, counted = ObjectEncoder(encoding).encode(rows)
    assert X.dtype == expected.dtype
    np.testing.assert_array_equal(X, expected)
    assert (counted.rare, counted.unseen) == (0, unseen)
    gaps = [{k: v for k, v in row.items() if v is not None} for row in rows]
    np.testing.assert_array_equal(ObjectEncoder(encoding).encode(gaps)[0], expected)
    one = [ObjectEncoder(encoding).encode([row])[0] for row in rows]
    np.testing.assert_array_equal(np.concatenate(one), expected)


@settings(max_examples=300)
@given(
    kind=st.sampled_from(["numeric", "boolean"]),
    text=st.text("0123456789+-.eEinfatyNX_ \u0661\u00a0", min_size=1, max_size=5)
    | st.sampled_from(["nan", "inf", "-Infinity", "1e39", "1e400", "1_0", "0x1", "--1", "yess"]),
)
def test_what_a_table_refuses_objects_refuse(kind: Any, text: str) -> None:
    encoding = Encoding((Encoded(Column("c", kind)),))

    def answer(way: Any) -> Any:
        try:
            return way().tolist()
        except BadInput as refused:
            return [part for part in ("row 0, ", "'c'") if part in str(refused)]

    by_table = answer(lambda: as_a_table(encoding, pa.table({"c": [text]}))[0])
    assert answer(lambda: ObjectEncoder(encoding).encode([{"c": text}])[0]) == by_table


@pytest.mark.parametrize("norm", [0.0, None, 2.0])
def test_people_are_encoded_as_the_training_rows_were(norm: float | None) -> None:
    columns = [
        Column("age", "numeric"),
        Column("income", "numeric"),
        Column("member", "boolean"),
        Column("plan", "category"),
        Column("city", "category"),
    ]
    table = people.people()
    reader = Reader(columns)
    raw = reader.read(table.combine_chunks().to_batches()[0], 0, "t")
    texts = [v.texts for v in reader.vocabularies]
    encoding = fit(columns, texts, lambda: iter([raw]), norm, 1)
    expected = encoding.encode(raw, encoding.slots(texts))
    X, unseen = ObjectEncoder(encoding).encode(table.to_pylist())
    np.testing.assert_array_equal(X, expected)
    assert unseen == (0, 0)


def strict(*columns: Column, categories: Sequence[str] = ()) -> ObjectEncoder:
    made = (
        Encoded(c, categories=tuple(categories)) if c.kind == "category" else Encoded(c)
        for c in columns
    )
    return ObjectEncoder(Encoding(tuple(made)))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (Column("age", "numeric"), "old", "row 1, field 'age': 'old' is not a number"),
        (Column("age", "numeric"), [1], "row 1, field 'age': '.1.' is not a number"),
        (Column("age", "numeric"), {}, "row 1, field 'age': '{}' is not a number"),
        (Column("age", "numeric"), 10**400, "row 1, field 'age': .* is not a usable number"),
        (Column("age", "numeric"), 1e39, "row 1, field 'age': '1e[+]39' is not a usable number"),
        (Column("age", "numeric", missing="error"), None, "row 1, field 'age': the value is miss"),
        (Column("age", "numeric", missing="error"), "nan", "row 1, field 'age': the value is mis"),
        (Column("on", "boolean"), "perhaps", "row 1, field 'on': 'perhaps' is neither true nor"),
        (Column("on", "boolean"), [True], "row 1, field 'on': '.*' is neither text nor a number"),
        (Column("on", "boolean"), 10**4000, "row 1, field 'on': .* is neither true nor false"),
        (Column("plan", "category"), ["a"], "row 1, field 'plan': .* is neither text nor a numb"),
        (Column("plan", "category", unseen="error"), "new", "row 1, field 'plan': 'new' is not am"),
    ],
)
def test_errors_name_the_row_and_the_field(column: Column, value: Any, said: str) -> None:
    encoder = strict(column, categories=["1"])
    fine: dict[str, Any] = {column.name: 1}
    with pytest.raises(BadInput, match=said):
        encoder.encode([fine, {column.name: value}, fine])


def test_an_empty_text_is_a_missing_value() -> None:
    encoder = ObjectEncoder(Encoding((Encoded(Column("age", "numeric"), fill=4.0),)))
    assert encoder.encode([{"age": ""}, {"age": None}, {}])[0].tolist() == [[4.0]] * 3


def test_any_width_and_no_rows() -> None:
    encoder = strict(Column("a", "numeric"), Column("b", "category"), categories=["x", "y"])
    assert encoder.fields == {"a", "b"}
    X, unseen = encoder.encode([])
    assert (X.shape, unseen) == ((0, 3), (0, 0))
