"""Rows from a text file with delimiters."""

import csv
import io
import mmap
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

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
        self._range: tuple[int, int] | None = None  # the bytes of a part; None for all
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

    def _rows(self) -> BinaryIO:
        if self._range is None:
            return self._open()
        assert self._path is not None
        return cast(BinaryIO, _Range(self._path, *self._range))

    def parts(self, most: int) -> Sequence[Source]:
        """Ranges of whole lines, where every line break ends a row: in a file without quotation
        marks."""
        plain = self.dialect.encoding in ("utf-8", "latin-1", "cp1252")
        packed = self._path is None or self._path.suffix.lower() in (".gz", ".bz2")
        if packed or not plain or most < 2:
            return [self]
        assert self._path is not None
        with reading(self.name):
            cuts = _line_cuts(self._path, self._header_lines, most)
        parts = []
        for first, last in pairwise(cuts):
            part = copy(self)
            part._path, part._range = self._path.resolve(), (first, last)
            parts.append(part)
        return parts if len(parts) > 1 else [self]

    def columns(self) -> list[str]:
        return list(self._header)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        with reading(self.name), self._rows() as file:
            reader = arrow_csv.open_csv(
                file,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=base.BLOCK_BYTES,
                    column_names=self._header,
                    skip_rows=self._header_lines if self._range is None else 0,
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


class _Range(io.RawIOBase):
    """The bytes of a file from start to stop."""

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self._file = path.open("rb")
        self._file.seek(start)
        self._left = stop - start

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(found)
        return found

    def close(self) -> None:
        self._file.close()
        super().close()


def _line_cuts(path: Path, header_lines: int, most: int) -> list[int]:
    """Where ranges of whole lines begin after the header, and the end; none where a quotation mark
    may hide a line break, or lines end otherwise than with a line feed."""
    size = path.stat().st_size
    if size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        if text.find(b'"') >= 0:
            return []
        first = 0
        for _ in range(header_lines):
            first = text.find(b"\n", first) + 1
            if first == 0:
                return []
        if len(text[:first].splitlines()) != header_lines:
            return []
        cuts = [first]
        for at in base.even_cuts(size - first, most)[1:-1]:
            after = text.find(b"\n", max(first + at, cuts[-1])) + 1
            if cuts[-1] < after < size:
                cuts.append(after)
    return [*cuts, size] if size > cuts[-1] else cuts
