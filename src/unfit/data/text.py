"""Values as text, one way everywhere: ids, labels and categories are compared as these strings.

Whole numbers are written without a point (1042, also where a column of numbers holds 1042.0), truth
as true and false, and text, as in a CSV file, as it stands.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from unfit.errors import BadInput


def plain(array: pa.Array) -> pa.Array:
    """Without dictionary or view encodings: the values themselves."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    return array


def as_text(array: pa.Array) -> pa.Array:
    """A string array; null where the value is missing."""
    array = plain(array)
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(array, "true", "false")
    if pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        missing = pc.is_nan(array)
        whole = pc.and_(pc.equal(array, pc.floor(array)), pc.less(pc.abs(array), 2.0**53))
        numbers = pc.if_else(pc.fill_null(whole, False), array, 0.0).cast(pa.int64())
        text = pc.if_else(whole, numbers.cast(pa.string()), array.cast(pa.string()))
        return pc.if_else(missing, pa.scalar(None, pa.string()), text)
    if pa.types.is_decimal(kind):  # exactly: a float would make one id of several
        return pc.replace_substring_regex(array.cast(pa.string()), r"\.0+$", "")
    if isinstance(kind, pa.UuidType):
        return pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())
    raise BadInput(f"values of type {kind} cannot serve as ids, labels or categories")


def shorten(value: object, length: int = 40) -> str:
    """A value for an error message."""
    text = str(value)
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def present(array: pa.Array, is_id: bool = False) -> pa.Array:
    """Where a column has a value; an id of blanks counts as missing."""
    text = as_text(array)
    if is_id:
        text = pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)
    return pc.is_valid(text)


def all_of(masks: Sequence[pa.Array]) -> pa.Array:
    whole = masks[0]
    for mask in masks[1:]:
        whole = pc.and_(whole, mask)
    return whole
