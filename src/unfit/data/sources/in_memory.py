"""Rows that are in memory already."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from unfit.data.sources import base
from unfit.data.sources.base import Location, Source
from unfit.errors import BadInput


class TableSource(Source):
    """An Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self.name = "the table"
        self._table = table
        base.check_names(table.column_names, self.name)

    @classmethod
    def open(cls, location: Location) -> "TableSource":
        raise BadInput("a table in memory has no location; name a file or a URL")

    def columns(self) -> list[str]:
        return list(self._table.column_names)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = self._table if columns is None else self._table.select(list(columns))
        yield from table.to_batches(base.BLOCK_ROWS)
