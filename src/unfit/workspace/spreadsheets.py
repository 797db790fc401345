"""Texts that a spreadsheet takes for formulas: they begin with =, +, -, @, a tab or a return.

Whoever wrote the file has chosen these texts, and whoever opens it in a spreadsheet runs them. An
apostrophe in front makes a spreadsheet show the text as it is. It changes the text, though, so it
is added only to files that are meant for a spreadsheet. Numbers are left alone, negative ones too.
"""

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = "^[=+\\-@\t\r]"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def count_formulas(batch: pa.RecordBatch) -> int:
    """How many cells a spreadsheet would take for formulas."""
    texts = [column for column in batch.columns if _is_text(column.type)]
    found = (pc.sum(pc.match_substring_regex(column, _FORMULA)).as_py() for column in texts)
    return sum(count or 0 for count in found)


def _escape(column: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(column, pattern=f"({_FORMULA})", replacement="'\\1")


def escaped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with an apostrophe in front of them."""
    columns = [_escape(column) if _is_text(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
