"""Rows as JSON objects, one or a few at a time, encoded without a detour over columns.

The same rules as for a table: a number may be written as text, a missing value is null or left out,
categories are compared as text. An error names the row and the field.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from unfit.data.columns import Column
from unfit.data.encoding import Absent, Encoded, Encoding
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
        self.fields = frozenset(c.column.name for c in encoding.columns)

    def encode(self, rows: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, Absent]:
        """Encoded rows (n, p) float32, and how many hold a category without a column."""
        values: list[list[float]] = []
        X = np.zeros((len(rows), self._width), np.float32)
        rare = unseen = 0
        for i, row in enumerate(rows):
            try:
                values.append([take(row.get(name)) for name, take in self._numbers])
                places, is_rare, is_unseen = self._places(row)
            except BadInput as wrong:
                raise BadInput(f"row {i}, {wrong}") from None
            X[i, places] = 1.0
            rare += is_rare
            unseen += is_unseen
        if self._numbers:
            a = len(self._numbers)
            numbers = np.array(values, np.float64).reshape(len(rows), a).astype(np.float32)
            filled = np.where(np.isnan(numbers), self._fill, numbers)
            X[:, :a] = (filled - self._shift) / self._scale
        return self.encoding.bounded(X), Absent(rare, unseen)

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
