"""One rule for ids, at intake and at look-up; near spellings are found, other people are not."""

import json
import unicodedata
import uuid
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import people
from unfit.data import ids as id_module
from unfit.data.ids import BLANKS, Ids, build, fold, id_list, id_text, trim
from unfit.data.sources import Location, open_source
from unfit.data.text import as_text
from unfit.errors import BadInput
from unfit.workspace import Workspace, init

TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=8)


def kept(values: list) -> Ids:
    return build(pa.chunked_array([as_text(pa.array(values))]), "subject", "t.csv")[0]


def test_blanks_are_what_python_strips() -> None:
    """The store trims ids by `str.strip`, since it does not know data.ids."""
    every = (chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    assert sorted(c for c in every if not c.strip()) == sorted(BLANKS)


@given(TEXTS.filter(lambda text: text.strip()), st.text(list(BLANKS), max_size=3))
def test_whatever_is_kept_is_found_with_blanks_around_or_without(text: str, blanks: str) -> None:
    stored = kept([blanks + text + blanks, "somebody else" + text])
    for asked in (text, trim(text), f" {text}\t", blanks + text):
        place = stored.find(id_text(asked))
        assert place is not None
        assert stored.text(place) == trim(text)


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        ([1042, 7], [1042, "1042", 1042.0, np.int32(1042), np.float32(1042), Decimal("1042.00")]),
        ([1042.0, 7.5], [1042, "1042", 1042.0]),
        ([7.5, 1e300], [7.5, "7.5", np.float64(7.5)]),
        ([0.1, 0.2], [0.1, "0.1"]),
        ([2**63 - 1, 5], [2**63 - 1, str(2**63 - 1)]),
        ([Decimal("12.50"), Decimal("7.25")], [Decimal("12.50"), "12.50"]),
        ([uuid.UUID(int=7), uuid.UUID(int=8)], [uuid.UUID(int=7), str(uuid.UUID(int=7))]),
        (["C-1, x", "b"], ["C-1, x"]),
        (["a\nb", "b"], ["a\nb"]),
        (['"x"', "b"], ['"x"']),
        (["CHAR      ", "b         "], ["CHAR", "CHAR      "]),
    ],
)
def test_a_value_asked_for_is_the_value_of_the_column(column: list, asked: list) -> None:
    stored = kept(column)
    first = as_text(pa.array(column))[0].as_py().strip()
    for value in asked:
        place = stored.find(id_text(value))
        assert place is not None, value
        assert stored.text(place) == first


@pytest.mark.parametrize("wrong", [None, True, np.True_, b"x", "", "  ", "a\0b", "\ud800", [], {}])
def test_what_is_nobodys_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput):
        id_text(wrong)


def test_two_people_are_never_made_one() -> None:
    with pytest.raises(BadInput, match="' 7' and '7' are each a subject .* blanks around"):
        kept(["x", " 7", "y", "7"])
    for blank in ("", "   "):
        with pytest.raises(BadInput, match="empty"):
            kept(["x", blank])
    assert len(kept(["7", "07", "7.0", "\uff17", "a", "A", "e\u0301", "é"])) == 8


def test_ids_are_listed_as_lines_or_as_json() -> None:
    text = 'a, b\r\n\r\n  \n "x" \n c\n'
    assert id_list(text, "lines", "f") == ["a, b", ' "x" ', " c"]
    assert id_list(json.dumps(["a\nb", 7, 7.0]), "json", "f") == ["a\nb", "7", "7"]
    for wrong in ("{", '{"a": 1}', "[null]", "[true]", "[" * 100_000):
        with pytest.raises(BadInput):
            id_list(wrong, "json", "f")


NAMES = st.text(st.sampled_from("abcXYZé Ñßς-'0129"), min_size=1, max_size=10).map(
    lambda text: unicodedata.normalize("NFC", text)
)


@given(NAMES.filter(lambda t: trim(t) == t), st.lists(NAMES, max_size=20), st.data())
def test_near_spellings_are_offered_and_nobody_else(
    name: str, others: list[str], data: st.DataObject
) -> None:
    stored = [name, *(o for o in set(map(trim, others)) if o and o != name)]
    change = data.draw(
        st.sampled_from(
            [
                lambda t: unicodedata.normalize("NFD", t),
                str.upper,
                str.lower,
                lambda t: f"\u200b{t}",
                lambda t: t.replace(" ", "  "),
                lambda t: t.replace(" ", "\u00a0"),
                lambda t: t.replace("-", "\u2011"),
                lambda t: t.replace("'", "\u2019"),
            ]
        )
    )
    asked = change(name)
    (found,) = kept(stored).near([asked])
    folded = dict(zip(stored, fold(pa.array(stored)).to_pylist(), strict=True))
    if asked != name and len([t for t in stored if folded[t] == folded[name]]) <= 5:
        assert name in found
    assert {folded[t] for t in found} <= {folded[name]}


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("7", "007"),
        ("007", "7"),
        ("7", "7.0"),
        ("7.0", "7"),
        ("0042", "42"),
        ("7", "+7"),
        ("-5", "-05"),
        ("7", "\uff17"),
        ("0", "000"),
        ("Straße", "STRASSE"),
        ("=x", "'=X"),
        ("ﬁn", "fin"),
    ],
)
def test_numbers_and_letters_that_mean_the_same(there: str, asked: str) -> None:
    assert kept(["other", there, "70"]).near([asked, "nobody"]) == [[there], []]


def test_the_normal_form_of_a_text_does_not_hang_on_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = ["Ab  c", "007", "x-'y", "\x1f a"]
    assert fold(pa.array(plain)).to_pylist() == fold(pa.array([*plain, "é"])).to_pylist()[:4]
    monkeypatch.setattr(id_module, "_BLOCK", 3)
    stored = kept([f"p{i:02d}" for i in range(20)])
    assert stored.near(["P07", "P19", "P20"]) == [["p07"], ["p19"], []]
    stored.data = stored.data.copy()
    stored.data[stored.offsets[7] : stored.offsets[8]] = 0
    assert stored.near(["P07"]) == [[]]  # erased
    assert kept(["x"]).near([]) == []


def test_postgresql_pads_and_unfit_does_not_mind(server: object, tmp_path: Path) -> None:
    import psycopg

    name = server.database()  # type: ignore[attr-defined]
    url = server.url(name)  # type: ignore[attr-defined]
    table = people.people(n=80, subjects=30)
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE people (person char(12), plan char(9), age float8, label char(5))"
        )
        columns = ("person", "plan", "age", "label")
        rows = zip(*(table[c].to_pylist() for c in columns), strict=True)
        connection.cursor().executemany("INSERT INTO people VALUES (%s, %s, %s, %s)", list(rows))
    for location in (
        Location(url=url, table="people"),
        Location(url=url, query="SELECT * FROM people"),
    ):
        batches = list(open_source(location).blocks())
        assert pa.Table.from_batches(batches)["plan"].to_pylist() == table["plan"].to_pylist()
    init(url, tmp_path / "ws", table="people", label="label", subject="person")
    with Workspace(tmp_path / "ws") as ws:
        ws.train()
        assert ws.active_model().card.classes == ("no", "yes")
        assert ws.forget(subjects=["p0003", "p0004   "]).matched == "all"
