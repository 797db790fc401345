"""Rows from a text file with delimiters."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv as arrow_csv

from unfit.data.dialect import Dialect, detect
from unfit.data.sources import base
from unfit.data.sources.base import Location, Source, reading, unpacked
from unfit.errors import BadInput


class CsvSource(Source):
    """A header line, then rows; every value arrives as text, missing ones as null.

    delimiter, encoding: detected where they are not given. like: the dialect of similar files,
    used where it fits.
    """

    suffixes = (".csv", ".tsv", ".txt")
    dialect: Dialect

    def __init__(
        self,
        path: Path | BinaryIO,
        missing: Sequence[str] = ("",),
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        like: Dialect | None = None,
    ) -> None:
        self.name = path.name if isinstance(path, Path) else "standard input"
        self._path = path if isinstance(path, Path) else None
        if not isinstance(path, Path):  # a pipe can be read once: keep its bytes
            self._bytes = path.read()
        self._missing = tuple(missing)
        suffixes = [] if self._path is None else [s.lower() for s in self._path.suffixes]
        if delimiter is None and ".tsv" in suffixes:
            delimiter = "\t"
        with reading(self.name):
            self.dialect = detect(self._open, delimiter, encoding, like)
        self._header = self._read_header()

    @classmethod
    def open(cls, location: Location) -> "CsvSource":
        return cls(
            location.file(),
            location.missing,
            delimiter=location.delimiter,
            encoding=location.encoding,
            like=location.like,
        )

    def _open(self) -> BinaryIO:
        if self._path is None:
            return io.BytesIO(self._bytes)
        return unpacked(self._path)

    def _read_header(self) -> list[str]:
        with reading(self.name), self._open() as file:
            text = io.TextIOWrapper(file, encoding=self.dialect.codec, newline="")
            lines = csv.reader(text, delimiter=self.dialect.delimiter, strict=True)
            try:
                names = next(line for line in lines if line)
                self._header_lines = lines.line_num  # a name may hold a line break
            except StopIteration:
                raise BadInput(
                    f"{self.name} is empty; the first line should name columns"
                ) from None
            except csv.Error as error:
                raise BadInput(f"cannot read the header of {self.name}: {error}") from None
        base.check_names(names, self.name)
        return names

    def columns(self) -> list[str]:
        return list(self._header)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        with reading(self.name), self._open() as file:
            reader = arrow_csv.open_csv(
                file,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=base.BLOCK_BYTES,
                    column_names=self._header,
                    skip_rows=self._header_lines,
                    encoding="utf8" if self.dialect.encoding == "utf-8" else self.dialect.encoding,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.dialect.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in self._header},
                    include_columns=self._header if columns is None else list(columns),
                    null_values=list(self._missing),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    yield batch
