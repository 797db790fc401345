"""A first look at a source: what each column seems to be. `unfit init` writes it down."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.columns import FALSE, TRUE, Kind
from unfit.data.sources import Source
from unfit.data.text import as_text, plain
from unfit.errors import BadInput

Seen = Literal["numeric", "boolean", "category", "date", "unusable"]
_DATE = r"^\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?\s*$|^\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\s*$"
_DISTINCT_UP_TO = 1000


@dataclass(frozen=True)
class Profile:
    """One column: what it seems to be, how many values are missing and how many differ.

    distinct is None beyond a thousand.
    """

    name: str
    seen: Seen
    rows: int
    missing: int
    distinct: int | None
    type: str
    values: frozenset[str] | None = None  # up to a thousand

    @property
    def kind(self) -> Kind | None:
        usable: dict[Seen, Kind] = {
            "numeric": "numeric", "boolean": "boolean", "category": "category"
        }  # fmt: skip
        return usable.get(self.seen)


class _Look:
    """What is known of a column so far."""

    def __init__(self) -> None:
        self.rows = self.missing = 0
        self.values: set[str] | None = set()
        self.may_be: set[Seen] = {"numeric", "boolean", "date"}
        self.seen: Seen | None = None
        self.type = "null"

    def take(self, array: pa.Array) -> None:
        array = plain(array)
        kind = array.type
        self.rows += len(array)
        self.missing += array.null_count
        if pa.types.is_null(kind):
            return
        self.type = str(kind)
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

    def _narrow(self, text: pa.Array) -> None:
        if len(text) == 0:
            return
        if "numeric" in self.may_be:
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                self.may_be.discard("numeric")
        if "boolean" in self.may_be:
            known = pc.is_in(pc.utf8_lower(text), value_set=pa.array(TRUE + FALSE))
            if not pc.all(known).as_py():
                self.may_be.discard("boolean")
        if "date" in self.may_be and not pc.all(pc.match_substring_regex(text, _DATE)).as_py():
            self.may_be.discard("date")

    def verdict(self) -> Seen:
        if self.seen is not None:
            return self.seen
        if self.missing == self.rows:
            return "unusable"
        order: tuple[Seen, ...] = ("numeric", "boolean", "date")
        return next((kind for kind in order if kind in self.may_be), "category")


def profile(
    source: Source, columns: Sequence[str], progress: Callable[[int], None] | None = None
) -> list[Profile]:
    """One pass over the named columns. progress: called with the number of rows read so far."""
    looks = {name: _Look() for name in columns}
    rows = 0
    for batch in source.blocks(list(columns)):
        rows += batch.num_rows
        for name, look in looks.items():
            look.take(batch.column(name))
        if progress is not None:
            progress(rows)
    if rows == 0:
        raise BadInput(f"{source.name} has no rows")
    return [
        Profile(
            name, look.verdict(), look.rows, look.missing,
            None if look.values is None else len(look.values), look.type,
            None if look.values is None else frozenset(look.values),
        )
        for name, look in looks.items()
    ]  # fmt: skip


def looks_like_an_id(found: Profile) -> bool:
    """Texts or whole numbers that are nearly always different, under a name that says so."""
    if found.distinct is not None:
        return False
    name = found.name.lower()
    if found.seen == "category":
        return bool(re.search(r"(^|_|\b)(id|uuid|key|nbr|number|name|email|phone)$", name))
    whole = found.type.startswith(("int", "uint"))
    return found.seen == "numeric" and whole and bool(re.search(r"(^|_|\b)(id|key|nbr)$", name))
