"""Columns that stand for many: each value is a few pairs of a column number and a number.

    sparse   pairs as they come: an Arrow map of whole numbers to numbers, or text "17:1.5 40:2"
    hash     texts, each of which counts 1 in the column BLAKE2b gives it: the first 8 bytes of the
             digest of its UTF-8, read as a little-endian number, modulo the declared width

The hash has no key. Whoever predicts would need the key, and so would every copy of the model; and
with it or without, whoever knows a text knows its column. So the number of a column that somebody's
row has a value in is treated as what it stands for: it is zeroed when they are forgotten.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.columns import Column
from unfit.data.csr import Csr, ends, of_entries
from unfit.data.text import as_text, plain, shorten
from unfit.data.values import MISSING
from unfit.errors import BadInput

_PAIR = r"^(?P<column>\d{1,10}):(?P<value>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$"


def is_map(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are pairs of a whole number and a number."""
    if not pa.types.is_map(kind) or not pa.types.is_integer(kind.key_type):
        return False
    return bool(pa.types.is_floating(kind.item_type) or pa.types.is_integer(kind.item_type))


def bucket(text: str, width: int) -> int:
    """The column of a text."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % width


def pairs(array: pa.Array, column: Column, first_row: int, where: str) -> Csr:
    """The pairs of a column's values, by rising column number; zeros are left out.

    A number at or above the column's width is an error if unseen = "error", else left out.
    """
    array = plain(array)
    if is_map(array.type):
        counts, columns, values = _of_maps(array)
    elif column.kind == "hash":
        counts, columns, values = _of_texts(array, column, where)
    else:
        counts, columns, values = _of_pairs(array, column, first_row, where)
    rows = np.repeat(np.arange(len(counts)), counts)
    _check(columns, values, rows, _Place(column, first_row, where))
    inside = (columns < column.width) & (values != 0)
    rows, columns, values = rows[inside], columns[inside], values[inside]
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    again = np.flatnonzero((np.diff(rows) == 0) & (np.diff(columns) == 0))
    if len(again) and column.kind == "sparse":
        at = int(again[0])
        raise BadInput(
            f"{where}: row {first_row + int(rows[at])}, column {column.name!r}: "
            f"number {int(columns[at])} is there twice"
        )
    if len(again):
        rows, columns, values = _summed(rows, columns, values)
    return Csr(
        indptr=ends(np.bincount(rows, minlength=len(counts))),
        indices=columns.astype(np.int32),
        data=values.astype(np.float32),
        width=column.width,
    )


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # how many a row has, columns, values


def _of_maps(array: pa.Array) -> Entries:
    array = array.cast(pa.map_(pa.int64(), pa.float64()))
    empty = pa.array([[]] * len(array), array.type) if array.null_count else None
    array = array if empty is None else pc.if_else(pc.is_valid(array), array, empty)
    offsets = array.offsets.to_numpy()
    inside = slice(int(offsets[0]), int(offsets[-1]))
    columns = array.keys.to_numpy(zero_copy_only=False)[inside]
    values = pc.fill_null(array.items, float("nan")).to_numpy(zero_copy_only=False)[inside]
    return np.diff(offsets), columns, values


def _of_texts(array: pa.Array, column: Column, where: str) -> Entries:
    """Of one text a row, or of lists of texts; what is missing is a text of its own."""
    counts = np.ones(len(array), np.int64)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        array = pc.list_flatten(array)
    try:
        texts = pc.fill_null(as_text(array), MISSING)
    except BadInput:
        raise BadInput(f"{where}: column {column.name!r} holds {array.type}, not texts") from None
    encoded = pc.dictionary_encode(texts)
    table = [bucket(text, column.width) for text in encoded.dictionary.to_pylist()]
    columns = np.array(table, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return counts, columns, np.ones(len(columns))


def _of_pairs(array: pa.Array, column: Column, first_row: int, where: str) -> Entries:
    if not (pa.types.is_string(array.type) or pa.types.is_null(array.type)):
        raise BadInput(
            f"{where}: column {column.name!r} holds {array.type}; a sparse column is a map of "
            "whole numbers to numbers, or text such as '17:1.5 40:2'"
        )
    text = pc.utf8_trim_whitespace(pc.fill_null(array.cast(pa.string()), ""))
    words = pc.utf8_split_whitespace(text)
    counts = np.where(
        pc.equal(text, "").to_numpy(zero_copy_only=False),
        0,
        pc.list_value_length(words).to_numpy(zero_copy_only=False),
    )
    flat = pc.list_flatten(words)
    flat = flat.filter(pc.not_equal(flat, ""))
    found = pc.extract_regex(flat, _PAIR)
    if found.null_count:
        at = pc.index(pc.is_valid(found), False).as_py()
        row = first_row + int(np.searchsorted(np.cumsum(counts), at, side="right"))
        raise BadInput(
            f"{where}: row {row}, column {column.name!r}: {shorten(flat[at])} is not a pair such "
            "as 17:1.5"
        )
    columns = pc.struct_field(found, "column").cast(pa.int64()).to_numpy(zero_copy_only=False)
    values = pc.struct_field(found, "value").cast(pa.float64()).to_numpy(zero_copy_only=False)
    return counts, columns, values


class _Place:
    """What an error says of where it is."""

    def __init__(self, column: Column, first_row: int, where: str) -> None:
        self.column, self._first, self._where = column, first_row, where

    def wrong(self, row: int, what: str) -> BadInput:
        return BadInput(
            f"{self._where}: row {self._first + row}, column {self.column.name!r}: {what}"
        )


def _check(columns: np.ndarray, values: np.ndarray, rows: np.ndarray, place: _Place) -> None:
    with np.errstate(over="ignore"):
        odd = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
    if len(odd):
        at = odd[0]
        raise place.wrong(int(rows[at]), f"{values[at]} is not a usable number")
    if len(columns) and columns.min() < 0:
        at = int(columns.argmin())
        raise place.wrong(int(rows[at]), f"{columns[at]} is not the number of a column")
    width = place.column.width
    if place.column.unseen == "error" and len(columns) and columns.max() >= width:
        at = int(np.argmax(columns >= width))
        raise place.wrong(int(rows[at]), f"number {columns[at]} is not below width = {width}")


def _summed(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Entries:
    first = np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(columns) != 0)])
    return rows[first], columns[first], np.add.reduceat(values, np.flatnonzero(first))


def side_by_side(parts: Sequence[Csr]) -> Csr | None:
    """The pairs of several columns as those of one, each after the other's width; None of none."""
    if not parts:
        return None
    offsets = np.concatenate([[0], np.cumsum([part.width for part in parts])]).tolist()
    lists = [
        (part.row_numbers, part.indices + at, part.data)
        for part, at in zip(parts, offsets[:-1], strict=True)
    ]
    return of_entries(lists, (len(parts[0]), offsets[-1]))


def one_of(bags: Csr, widths: Sequence[int], which: int) -> Csr:
    """The pairs of one column, out of those of several side by side."""
    start = sum(widths[:which])
    inside = (bags.indices >= start) & (bags.indices < start + widths[which])
    rows = bags.row_numbers[inside]
    return Csr(
        indptr=ends(np.bincount(rows, minlength=len(bags))),
        indices=bags.indices[inside] - np.int32(start),
        data=bags.data[inside],
        width=widths[which],
    )


def as_maps(part: Csr) -> pa.Array:
    """Pairs as an Arrow map, which `pairs` reads again."""
    offsets = pa.array(part.indptr - part.indptr[0], pa.int32())
    return pa.MapArray.from_arrays(
        offsets, pa.array(part.indices, pa.int32()), pa.array(part.data, pa.float32())
    )
