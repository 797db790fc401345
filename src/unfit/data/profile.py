"""A first look at a source: what each column seems to be. `unfit init` writes it down."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data import ids
from unfit.data.bags import is_map, pairs
from unfit.data.columns import MAX_WIDTH, Column, Kind
from unfit.data.sources import Source
from unfit.data.text import all_of, as_text, plain, present, shorten
from unfit.data.values import FALSE, NUMBER, TRUE
from unfit.errors import BadInput
from unfit.progress import ProgressCallback

Seen = Literal["numeric", "boolean", "category", "sparse", "hash", "date", "unusable"]
_DATE = r"^\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?\s*$|^\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\s*$"
_DISTINCT_UP_TO = 1000
_EXAMPLES = 3
# Numbers that may have a decimal comma; that have one; whose comma cannot separate thousands.
_COMMA = r"^[+-]?\d+(,\d+)?([eE][+-]?\d+)?$"
_WITH_COMMA = r"^[+-]?\d+,\d+([eE][+-]?\d+)?$"
_CLEAR_COMMA = r"^[+-]?\d+,(\d{1,2}|\d{4,}|\d+[eE][+-]?\d+)$|^[+-]?(0\d*|\d{4,}),\d{3}$"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One column: what it seems to be, how many values are missing and how many differ.

    distinct is None beyond a thousand. numbers: how many texts are numbers, with `decimal` before
    the fraction; strays: a few that are not, with their rows. width: of a sparse or hashed column.
    """

    name: str
    seen: Seen
    rows: int
    missing: int
    distinct: int | None
    type: str
    values: frozenset[str] | None = None  # up to a thousand
    numbers: int = 0
    decimal: Literal[".", ","] = "."
    unclear: bool = False  # whether commas stand before fractions or between thousands
    strays: tuple[tuple[str, int], ...] = ()
    lenient: bool = False  # numeric by request: what is not a number counts as missing
    width: int = 0

    @property
    def kind(self) -> Kind | None:
        usable: dict[Seen, Kind] = {
            "numeric": "numeric",
            "boolean": "boolean",
            "category": "category",
            "sparse": "sparse",
            "hash": "hash",
        }
        return usable.get(self.seen)

    @property
    def unreadable(self) -> int:
        """Values that are present and not numbers."""
        return self.rows - self.missing - self.numbers

    @property
    def nearly_numeric(self) -> bool:
        """A category, most of whose values are numbers."""
        return self.seen == "category" and 2 * self.numbers > self.rows - self.missing

    def remark(self) -> str | None:
        """What a person should know about a column that is not read as they may expect."""
        known = self.rows - self.missing
        examples = ", ".join(f"{shorten(text)} in row {row}" for text, row in self.strays)
        verb, count = ("is", "counts") if self.unreadable == 1 else ("are", "count")
        if self.lenient and self.unreadable:
            return (
                f"column {self.name!r}: {self.numbers:,} of {known:,} values are numbers; "
                f"{self.unreadable:,} {verb} not ({examples}) and {count} as missing"
            )
        if self.seen == "category" and self.unclear and self.numbers == known:
            return (
                f"column {self.name!r}: a comma may stand before a fraction or between thousands "
                f"({examples}), so it is read as a category; --decimal , reads it as numbers"
            )
        if self.nearly_numeric:
            return (
                f"column {self.name!r}: {self.numbers:,} of {known:,} values are numbers, "
                f"{self.unreadable:,} {verb} not ({examples}), so it is read as a category; "
                f"--numeric {_quoted(self.name)} reads it as numbers and counts "
                f"{'this one' if self.unreadable == 1 else 'these'} as missing"
            )
        return None


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


class _Look:
    """What is known of a column so far."""

    def __init__(self, name: str, where: str, wanted: "Wanted") -> None:
        self.name, self.where = name, where
        self.paired, self.width = name in wanted.sparse, wanted.hashed.get(name, 0)
        self.largest = 0  # number of a column in pairs
        self.rows = self.missing = 0
        self.values: set[str] | None = set()
        self.may_be: set[Seen] = {"numeric", "boolean", "date"}
        self.seen: Seen | None = None
        self.type = "null"
        self.decimal = wanted.decimal
        self.with_point = self.with_comma = self.commas = self.clear_commas = 0
        self.strays: dict[str, list[tuple[str, int]]] = {".": [], ",": []}

    def take(self, array: pa.Array, numbers: pa.Array) -> None:
        """numbers: those of the rows in the source."""
        array = plain(array)
        kind = array.type
        self.rows += len(array)
        self.missing += array.null_count
        if pa.types.is_null(kind):
            return
        self.type = str(kind)
        if self.width or self.paired or is_map(kind):
            self.seen = "hash" if self.width else "sparse"
            self._look_at_pairs(array, numbers)
            return
        if pa.types.is_temporal(kind):
            self.seen = "date"
        elif pa.types.is_boolean(kind):
            self.seen = "boolean"
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            self.seen = "numeric"
        elif not pa.types.is_string(kind):
            self.seen = "unusable"
        if self.seen in ("date", "unusable"):
            return
        if self.values is not None:
            self.values.update(pc.drop_null(as_text(pc.unique(array))).to_pylist())
            if len(self.values) > _DISTINCT_UP_TO:
                self.values = None
        if self.seen is None:
            self._narrow(pc.utf8_trim_whitespace(pc.drop_null(array)))
            self._count_numbers(array, numbers)

    def _look_at_pairs(self, array: pa.Array, numbers: pa.Array) -> None:
        """They can be read, and what the largest number of a column is."""
        width = self.width or MAX_WIDTH
        column = Column(self.name, "hash" if self.width else "sparse", width=width, unseen="error")
        found = pairs(array, column, numbers[0].as_py() if len(numbers) else 0, self.where)
        self.largest = max(self.largest, int(found.indices.max(initial=0)))

    def _narrow(self, text: pa.Array) -> None:
        if len(text) == 0:
            return
        if "boolean" in self.may_be:
            known = pc.is_in(pc.utf8_lower(text), value_set=pa.array(TRUE + FALSE))
            if not pc.all(known).as_py():
                self.may_be.discard("boolean")
        if "date" in self.may_be and not pc.all(pc.match_substring_regex(text, _DATE)).as_py():
            self.may_be.discard("date")

    def _count_numbers(self, array: pa.Array, numbers: pa.Array) -> None:
        """All at once where all are; else on the distinct texts, which are fewer than the rows."""
        text = pc.utf8_trim_whitespace(array)
        if "numeric" in self.may_be:
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                pass
            else:
                self.with_point += len(text) - text.null_count
                pointed = pc.sum(pc.match_substring(text, "."), min_count=0).as_py()
                self.with_comma += len(text) - text.null_count - pointed
                return
        encoded = pc.dictionary_encode(text)
        texts, places = encoded.dictionary, encoded.indices
        point = pc.match_substring_regex(texts, NUMBER)
        self.with_point += _count(point, places)
        if not pc.all(point, min_count=0).as_py():
            self.may_be.discard("numeric")
        comma = pc.match_substring_regex(texts, _COMMA)
        self.with_comma += _count(comma, places)
        self.commas += _count(pc.match_substring_regex(texts, _WITH_COMMA), places)
        self.clear_commas += _count(pc.match_substring_regex(texts, _CLEAR_COMMA), places)
        for decimal, readable in ((".", point), (",", comma)):
            kept = self.strays[decimal]
            room = _EXAMPLES - len(kept)
            if room and not pc.all(readable, min_count=0).as_py():
                odd = pc.indices_nonzero(pc.invert(readable)).slice(0, room).to_pylist()
                seen = {text for text, _ in kept}
                kept += [
                    (texts[i].as_py(), numbers[pc.index(places, i).as_py()].as_py())
                    for i in odd
                    if texts[i].as_py() not in seen
                ]

    def verdict(self) -> Seen:
        if self.seen is not None:
            return self.seen
        if self.missing == self.rows:
            return "unusable"
        if self.by_comma and self.with_comma == self.rows - self.missing and not self.unclear:
            return "numeric"
        order: tuple[Seen, ...] = ("numeric", "boolean", "date")
        return next((kind for kind in order if kind in self.may_be), "category")

    @property
    def by_comma(self) -> bool:
        """Whether fractions have a comma before them."""
        wanted = self.decimal == "," or (self.decimal is None and self.with_comma > self.with_point)
        return wanted and self.commas > 0

    @property
    def unclear(self) -> bool:
        return self.decimal is None and self.commas > 0 and self.clear_commas == 0

    def profile(self, name: str) -> Profile:
        decimal: Literal[".", ","] = "," if self.by_comma else "."
        strays = self.strays[decimal]
        if decimal == "," and not strays:
            strays = self.strays["."]  # what is unclear about them
        return Profile(
            name=name,
            seen=self.verdict(),
            rows=self.rows,
            missing=self.missing,
            distinct=None if self.values is None else len(self.values),
            type=self.type,
            values=None if self.values is None else frozenset(self.values),
            numbers=self.with_comma if self.by_comma else self.with_point,
            decimal=decimal,
            unclear=self.unclear and self.by_comma,
            strays=tuple(strays),
            width=self.width or (power_of_two(self.largest + 1) if self.seen == "sparse" else 0),
        )


def power_of_two(count: int) -> int:
    """The next one: the count itself may be about a single person."""
    return 1 << (count - 1).bit_length()


def _count(chosen: pa.Array, places: pa.Array) -> int:
    """How many of the rows have one of the chosen texts."""
    at = pc.indices_nonzero(chosen)
    if len(at) == 0:
        return 0
    return int(pc.sum(pc.is_in(places, value_set=at.cast(places.type)), min_count=0).as_py())


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one pass has found: the columns, the rows, and what is wrong with rows that lack
    something.

    lacking: by column, how many rows have nothing there, and the first of them.
    """

    columns: list[Profile]
    rows: int
    dropped: int = 0
    lacking: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What to look for. required: columns in which a row must have something, else it is left out
    (drop) or counted. named: which of them are ids. sparse: columns of pairs written as text.
    hashed: columns of texts to be hashed, with their widths."""

    features: Sequence[str]
    _: KW_ONLY
    required: Sequence[str] = ()
    named: Sequence[str] = ()
    sparse: Sequence[str] = ()
    hashed: Mapping[str, int] = field(default_factory=dict)
    drop: bool = False
    decimal: str | None = None


def look(source: Source, wanted: Wanted, progress: ProgressCallback | None = None) -> Look:
    """One pass over the source."""
    looks = {name: _Look(name, source.name, wanted) for name in wanted.features}
    columns = list(dict.fromkeys([*wanted.features, *wanted.required]))
    lacking: dict[str, tuple[int, int]] = {}
    padded: set[str] = set()
    read = kept = 0
    for batch in source.blocks(columns):
        numbers = pa.array(np.arange(read, read + batch.num_rows))
        masks = {
            name: present(batch.column(name), name in wanted.named) for name in wanted.required
        }
        for name, mask in masks.items():
            gaps = pc.sum(pc.invert(mask), min_count=0).as_py()
            if gaps:
                first = read + pc.index(mask, False).as_py()
                count, earlier = lacking.get(name, (0, first))
                lacking[name] = (count + gaps, earlier)
        padded |= {n for n in wanted.named if n not in padded and _padded(batch.column(n))}
        read += batch.num_rows
        if wanted.drop and masks:
            whole = all_of(list(masks.values()))
            batch, numbers = batch.filter(whole), numbers.filter(whole)
        kept += batch.num_rows
        for name, one in looks.items():
            one.take(batch.column(name), numbers)
        if progress is not None:
            progress("looking", read, 0)
    if kept == 0:
        raise BadInput(f"{source.name} has no rows")
    for name in padded:
        _check_distinct(source, name)
    found = [one.profile(name) for name, one in looks.items()]
    return Look(columns=found, rows=kept, dropped=read - kept, lacking=lacking)


def profile(
    source: Source, columns: Sequence[str], progress: ProgressCallback | None = None
) -> list[Profile]:
    """One pass over the named columns."""
    return look(source, Wanted(columns), progress).columns


def _padded(array: pa.Array) -> bool:
    text = pc.unique(as_text(array))
    bare = pc.utf8_trim(text, characters=ids.BLANKS)
    return bool(pc.any(pc.not_equal(text, bare), min_count=0).as_py())


def _check_distinct(source: Source, name: str) -> None:
    """Refuse two ids that differ only in the blanks around them now, not in `train`."""
    parts = [pc.unique(as_text(batch.column(name))) for batch in source.blocks([name])]
    distinct = pc.drop_null(pc.unique(pa.chunked_array(parts, pa.string())))
    ids.trimmed(distinct, repr(name), source.name)


def looks_like_an_id(found: Profile) -> bool:
    """Texts or whole numbers that are nearly always different, under a name that says so."""
    if found.distinct is not None:
        return False
    name = found.name.lower()
    if found.seen == "category":
        return bool(re.search(r"(^|_|\b)(id|uuid|key|nbr|number|name|email|phone)$", name))
    whole = found.type.startswith(("int", "uint"))
    return found.seen == "numeric" and whole and bool(re.search(r"(^|_|\b)(id|key|nbr)$", name))
