"""A table of the study: named and titled as its plan is, filled row by row or item by item."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from unfit.experiments.plans import plans
from unfit.experiments.table import Cell, Table

Value = str | Callable[[Any], Cell]


def planned_table(
    name: str, columns: dict[str, str], rows: list[tuple[Cell, ...]], note: str = ""
) -> Table:
    """columns: the format of each, by its name."""
    return Table(
        name=name,
        title=plans()[name].title,
        columns=tuple(columns),
        formats=tuple(columns.values()),
        rows=tuple(rows),
        note=note,
    )


def table_of_items(
    name: str, items: Iterable[Any], columns: Sequence[tuple[str, str, Value]], note: str = ""
) -> Table:
    """A row for each item. columns: (name, format, value); a value is the name of an attribute or
    a function of the item."""
    formats = {column: spec for column, spec, _ in columns}
    values = [attrgetter(value) if isinstance(value, str) else value for _, _, value in columns]
    rows = [tuple(value(item) for value in values) for item in items]
    return planned_table(name, formats, rows, note)
