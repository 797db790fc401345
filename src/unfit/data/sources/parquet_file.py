"""Rows from a Parquet file."""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from unfit.data.sources import base
from unfit.data.sources.base import Location, Source, reading


class ParquetSource(Source):
    """A Parquet file, row groups in order."""

    suffixes = (".parquet", ".pq")

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._groups: list[int] | None = None  # row groups of a part; None for all
        with reading(self.name), parquet.ParquetFile(path) as file:
            self._columns = [str(name) for name in file.schema_arrow.names]
        base.check_names(self._columns, self.name)

    @classmethod
    def open(cls, location: Location) -> "ParquetSource":
        return cls(location.file())

    def columns(self) -> list[str]:
        return list(self._columns)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        with reading(self.name), parquet.ParquetFile(self._path) as file:
            wanted = None if columns is None else list(columns)
            yield from file.iter_batches(base.BLOCK_ROWS, columns=wanted, row_groups=self._groups)

    def parts(self, most: int) -> Sequence[Source]:
        with reading(self.name), parquet.ParquetFile(self._path) as file:
            count = file.num_row_groups
        parts = []
        for first, last in pairwise(base.even_cuts(count, most)):
            part = copy(self)
            part._path, part._groups = self._path.resolve(), list(range(first, last))
            parts.append(part)
        return parts or [self]
