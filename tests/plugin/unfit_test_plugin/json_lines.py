"""A source: one JSON object per line."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from unfit.data.sources import Location, Source
from unfit.errors import BadInput

BLOCK_ROWS = 10_000


class JsonLines(Source):
    """The fields of the first line are the columns; source.options.within names the key of each
    line that holds them, where they are not at its top."""

    suffixes = (".jsonl", ".ndjson")

    def __init__(self, path: Path, within: str | None = None) -> None:
        self.name = path.name
        self._path, self._within = path, within
        first = next(self._objects(), None)
        if not first:
            raise BadInput(f"{self.name} is empty; the first line should hold an object")
        self._columns = list(first)

    @classmethod
    def open(cls, location: Location) -> "JsonLines":
        within = location.options.get("within")
        return cls(location.file(), None if within is None else str(within))

    def columns(self) -> list[str]:
        return list(self._columns)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        wanted = self._columns if columns is None else list(columns)
        schema = pa.schema([(name, pa.string()) for name in wanted])
        objects = self._objects()
        while rows := list(islice(objects, BLOCK_ROWS)):
            texts = [{name: _text(row.get(name)) for name in wanted} for row in rows]
            yield pa.RecordBatch.from_pylist(texts, schema)

    def _objects(self) -> Iterator[dict[str, object]]:
        with self._path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    found = json.loads(line)
                    yield dict(found if self._within is None else found[self._within])
                except (ValueError, TypeError, KeyError):
                    raise BadInput(f"{self.name}: line {number} is not an object") from None


def _text(value: object) -> str | None:
    """As unfit writes ids and categories: whole numbers without a point."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)
