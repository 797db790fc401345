"""How the values of a column become numbers or codes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.columns import Column
from unfit.data.text import as_text, plain, shorten
from unfit.errors import BadInput

MISSING = ""  # the category of a missing value
UNSEEN = -1  # the code of a category that the vocabulary does not have
MAX_DISTINCT = 200_000
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")


class Vocabulary:
    """Texts numbered in order of appearance; fixed ones answer UNSEEN to what they do not know."""

    def __init__(self, name: str, texts: Sequence[str | None] = (), fixed: bool = False) -> None:
        self.name = name
        self.texts: list[str | None] = list(texts)
        self.fixed = fixed
        self._codes = {text: i for i, text in enumerate(texts) if text is not None}

    def encode(self, array: pa.Array) -> np.ndarray:
        """Codes (n,) int32 of a text array without nulls."""
        encoded = pc.dictionary_encode(array)
        table = np.empty(len(encoded.dictionary) + 1, np.int32)
        for i, text in enumerate(encoded.dictionary.to_pylist()):
            code = self._codes.get(text, UNSEEN)
            if code == UNSEEN and not self.fixed:
                code = len(self.texts)
                if code >= MAX_DISTINCT:
                    raise BadInput(
                        f"column {self.name!r} has more than {MAX_DISTINCT:,} different values; "
                        "leave it out (--ignore), group them, or hash them (--kind NAME=hash:65536)"
                    )
                self._codes[text] = code
                self.texts.append(text)
            table[i] = code
        return np.asarray(table[encoded.indices.to_numpy(zero_copy_only=False)])


def numbers(array: pa.Array, column: Column, first_row: int, where: str) -> np.ndarray:
    """Numeric or boolean values (n,) float32, NaN where missing."""
    array = plain(array)
    if column.kind == "boolean":
        values = _truth(array, column.name, first_row, where)
    else:
        values = _float64(array, column, first_row, where)
    if column.missing == "error" and np.isnan(values).any():
        row = first_row + int(np.argmax(np.isnan(values)))
        raise BadInput(f"{where}: row {row}, column {column.name!r}: the value is missing")
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    if np.isinf(small).any():
        at = int(np.argmax(np.isinf(small)))
        raise BadInput(
            f"{where}: row {first_row + at}, column {column.name!r}: "
            f"{values[at]} is not a usable number"
        )
    return small


def _float64(array: pa.Array, column: Column, first_row: int, where: str) -> np.ndarray:
    kind, name = array.type, column.name
    if pa.types.is_temporal(kind):
        raise BadInput(f"{where}: column {name!r} holds {kind}; {DATE_ADVICE}")
    if pa.types.is_string(kind):
        text, readable = number_texts(array, column.decimal)
        if column.unreadable == "missing":
            text = pc.if_else(_usable(text, readable), text, pa.scalar(None, text.type))
        elif not pc.all(readable, min_count=0).as_py():
            at = pc.index(readable, False).as_py()
            raise BadInput(
                f"{where}: row {first_row + at}, column {name!r}: {shorten(array[at])} is not a "
                'number; unreadable = "missing" in unfit.toml counts such values as missing'
            )
        array = text.cast(pa.float64())
    try:
        numeric = array.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadInput(f"{where}: column {name!r} holds {kind}, not numbers") from None
    return np.asarray(pc.fill_null(numeric, float("nan")).to_numpy(zero_copy_only=False))


def number_texts(array: pa.Array, decimal: str) -> tuple[pa.Array, pa.Array]:
    """Texts with a decimal point, and which of them are numbers (null where missing)."""
    text = pc.utf8_trim_whitespace(array)
    if decimal == ",":  # a point means nothing then: it may be one of thousands
        text = pc.replace_substring(pc.replace_substring(text, ".", "_"), ",", ".")
    return text, pc.match_substring_regex(text, NUMBER)


def _usable(text: pa.Array, readable: pa.Array) -> pa.Array:
    """Which texts are numbers to compute with: infinities are not."""
    return pc.and_(readable, pc.invert(pc.match_substring_regex(text, "(?i)inf")))


def unreadable_count(array: pa.Array, column: Column) -> int:
    """How many texts of a column count as missing because they are not numbers."""
    array = plain(array)
    if (
        column.kind != "numeric"
        or column.unreadable != "missing"
        or not pa.types.is_string(array.type)
    ):
        return 0
    usable = _usable(*number_texts(array, column.decimal))
    return int(pc.sum(pc.invert(usable), min_count=0).as_py())


def _truth(array: pa.Array, name: str, first_row: int, where: str) -> np.ndarray:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(as_text(array)))
    values = np.full(len(text), np.nan)
    true = pc.is_in(text, value_set=pa.array(TRUE)).to_numpy(zero_copy_only=False)
    false = pc.is_in(text, value_set=pa.array(FALSE)).to_numpy(zero_copy_only=False)
    values[true], values[false] = 1.0, 0.0
    wrong = np.isnan(values) & pc.is_valid(text).to_numpy(zero_copy_only=False)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise BadInput(
            f"{where}: row {first_row + at}, column {name!r}: "
            f"{shorten(text[at])} is neither true nor false"
        )
    return values


def categories_of(array: pa.Array, name: str, where: str) -> pa.Array:
    """Texts without nulls; dates are refused."""
    if pa.types.is_temporal(plain(array).type):
        raise BadInput(f"{where}: column {name!r} holds dates; {DATE_ADVICE}")
    return pc.fill_null(as_text(array), MISSING)


def is_number(value: str | None) -> bool:
    if value is None:
        return True
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value and value.isascii()


DATE_ADVICE = (
    "turn dates into numbers first, such as days since a fixed day, or leave the column out "
    "(--ignore)"
)
