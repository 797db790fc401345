"""Texts that a spreadsheet takes for formulas: they begin with =, +, -, @, a tab or a return.

Whose file it is has chosen these texts, and who opens it runs them. An apostrophe in front makes a
spreadsheet show the text as it is; but it changes the text, so that it is put there only for whom a
spreadsheet is meant. Numbers are left alone, negative ones too.
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


def escaped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with an apostrophe in front of them."""
    columns = [
        pc.replace_substring_regex(column, pattern=f"({_FORMULA})", replacement="'\\1")
        if _is_text(column.type) else column
        for column in batch.columns
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
