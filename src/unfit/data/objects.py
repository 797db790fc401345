"""Rows as JSON objects, one or a few at a time, encoded without a detour over columns.

The same rules as for a table: a number may be written as text, a missing value is null or left out,
categories are compared as text; the pairs of a sparse column are an object or a text, the texts of
a hashed one a list or a single text. An error names the row and the field.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from unfit.data.bags import bucket
from unfit.data.columns import Column
from unfit.data.csr import Csr, of_entries
from unfit.data.encoding import Absent, Encoded, Encoding, Rows
from unfit.data.text import shorten
from unfit.data.values import FALSE, MISSING, TRUE, is_number
from unfit.errors import BadInput

NAN = float("nan")
_LARGEST = float(np.finfo(np.float32).max)
_TRUTH = dict.fromkeys(TRUE, 1.0) | dict.fromkeys(FALSE, 0.0)

Take = Callable[[Any], float]


class ObjectEncoder:
    """Objects with a field per column to encoded rows."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self._numbers = [(c.column.name, _taker(c.column)) for c in encoding.numeric]
        constants = [(c.shift, c.scale, c.fill) for c in encoding.numeric]
        self._shift, self._scale, fill = np.array(constants).reshape(-1, 3).T
        self._fill = fill.astype(np.float32)
        self._width = encoding.width
        self._categories: list[tuple[str, dict[str, int], frozenset[str], bool]] = []
        at = len(self._numbers)
        for c in encoding.categorical:
            strict = c.column.unseen == "error"
            self._categories.append((c.column.name, _places(c, at), frozenset(c.others), strict))
            at += c.width
        self._bags = encoding.bags
        self.fields = frozenset(c.column.name for c in encoding.columns)

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Rows, Absent]:
        """Encoded rows (n, p) float32, and how many hold a category without a column."""
        values: list[list[float]] = []
        places: list[list[int]] = []
        bags: list[list[dict[int, float]]] = []
        rare = unseen = 0
        for i, row in enumerate(rows):
            try:
                values.append([take(row.get(name)) for name, take in self._numbers])
                found, is_rare, is_unseen = self._places(row)
                bags.append([pairs_of(row.get(c.column.name), c.column) for c in self._bags])
            except BadInput as wrong:
                raise BadInput(f"row {i}, {wrong}") from None
            places.append(found)
            rare += is_rare
            unseen += is_unseen
        a = len(self._numbers)
        numbers = np.array(values, np.float64).reshape(len(rows), a).astype(np.float32)
        filled = np.where(np.isnan(numbers), self._fill, numbers)
        scaled = ((filled - self._shift) / self._scale).astype(np.float32)
        X = self._sparse(scaled, places, bags) if self._bags else self._plain(scaled, places)
        if self.encoding.sparse and not isinstance(X, Csr):
            at, columns = np.nonzero(X)
            X = of_entries([(at, columns, X[at, columns])], X.shape)
        return self.encoding.bounded(X), Absent(rare, unseen)

    def _plain(self, scaled: np.ndarray, places: list[list[int]]) -> np.ndarray:
        X = np.zeros((len(scaled), self._width), np.float32)
        X[:, : scaled.shape[1]] = scaled
        for i, found in enumerate(places):
            X[i, found] = 1.0
        return X

    def _sparse(
        self, scaled: np.ndarray, places: list[list[int]], bags: list[list[dict[int, float]]]
    ) -> Rows:
        """From what is not zero."""
        first = self._width - sum(c.width for c in self._bags)
        offsets = [first + sum(c.width for c in self._bags[:j]) for j in range(len(self._bags))]
        found = [(i, at, 1.0) for i, row in enumerate(places) for at in row]
        for i, row in enumerate(bags):
            for c, offset, pairs in zip(self._bags, offsets, row, strict=True):
                found += [(i, offset + at, pairs[at] / c.scale) for at in sorted(pairs)]
        some = np.array(found, np.float64).reshape(-1, 3).T
        at, columns = np.nonzero(scaled)
        entries = [
            (at, columns, scaled[at, columns]),
            (some[0].astype(np.int64), some[1].astype(np.int64), some[2].astype(np.float32)),
        ]
        X = of_entries(entries, (len(scaled), self._width))
        return X if self.encoding.sparse else X.dense()

    def _places(self, row: Mapping[str, Any]) -> tuple[list[int], bool, bool]:
        places, rare, unseen = [], False, False
        for name, at, others, strict in self._categories:
            value = row.get(name)
            text = value if type(value) is str else _text(value, name)
            place = at.get(text)
            if place is not None:
                places.append(place)
            else:
                if text in others:
                    rare = True
                else:
                    unseen = True
                if strict:
                    raise BadInput(
                        f"field {name!r}: {shorten(text)} is not among the model's categories"
                    )
        return places, rare, unseen


def _places(c: Encoded, at: int) -> dict[str, int]:
    return {text: at + i for i, text in enumerate(c.categories) if text is not None}


def _taker(column: Column) -> Take:
    name, required = column.name, column.missing == "error"
    read = _truth if column.kind == "boolean" else _number
    comma, lenient = column.decimal == ",", column.unreadable == "missing"

    def take(value: Any) -> float:
        if (comma or lenient) and isinstance(value, str) and column.kind == "numeric":
            value = _as_written(value, comma, lenient)
        number = NAN if value is None or value == "" else read(value, name)
        if required and number != number:
            raise BadInput(f"field {name!r}: the value is missing")
        return number

    return take


def _as_written(text: str, comma: bool, lenient: bool) -> str | None:
    """A number's text with a decimal point; None for what the column takes for missing."""
    plain = text.strip()
    if comma:
        plain = plain.replace(".", "_").replace(",", ".")
    if is_number(plain) and plain:
        return plain
    return None if lenient else text.replace(".", "_")


def _number(value: Any, name: str) -> float:
    if isinstance(value, str):
        text = value.strip()
        if not is_number(text) or text == "":
            raise BadInput(f"field {name!r}: {shorten(value)} is not a number")
        value = float(text)
        if value != value:  # "nan" stands for a missing value, as in a table
            return NAN
    elif not isinstance(value, int | float):
        raise BadInput(f"field {name!r}: {shorten(value)} is not a number")
    if not -_LARGEST <= value <= _LARGEST:  # too large, infinite or not a number
        raise BadInput(f"field {name!r}: {shorten(value)} is not a usable number")
    return float(value)


def _truth(value: Any, name: str) -> float:
    found = _TRUTH.get(_text(value, name).strip().lower())
    if found is None:
        raise BadInput(f"field {name!r}: {shorten(value)} is neither true nor false")
    return found


def _text(value: Any, name: str) -> str:
    """As data.text writes it."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 2.0**53:
            return str(int(value))
        return str(pa.scalar(value).cast(pa.string()))
    raise BadInput(f"field {name!r}: {shorten(value)} is neither text nor a number")


def pairs_of(value: Any, column: Column) -> dict[int, float]:
    """The pairs of a sparse or hashed column, as data.bags has them."""
    if column.kind == "hash":
        texts = value if isinstance(value, list) else [value]
        counted = Counter(bucket(_text(text, column.name), column.width) for text in texts)
        return {at: float(count) for at, count in counted.items()}
    if isinstance(value, str):
        split = [word.partition(":") for word in value.split()]
        value = {at: number for at, _, number in split}
        if len(value) < len(split):
            raise BadInput(f"field {column.name!r}: a number is there twice")
    if value is not None and not isinstance(value, Mapping):
        raise BadInput(f"field {column.name!r}: {shorten(value)} is not pairs such as '17:1.5'")
    found: dict[int, float] = {}
    for key, number in (value or {}).items():
        at = str(key)
        if not (at.isascii() and at.isdigit() and len(at) <= 10):
            raise BadInput(f"field {column.name!r}: {shorten(key)} is not the number of a column")
        taken = _number(number, column.name)
        if taken != taken:
            raise BadInput(f"field {column.name!r}: {shorten(number)} is not a usable number")
        if int(at) < column.width and taken:
            found[int(at)] = taken
        elif int(at) >= column.width and column.unseen == "error":
            raise BadInput(
                f"field {column.name!r}: number {at} is not below width = {column.width}"
            )
    return found
