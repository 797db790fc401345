"""Where rows come from: CSV, Parquet and LIBSVM files, SQL tables and queries, in blocks.

A source yields Arrow record batches and never holds more than one. Whatever is wrong with a file
becomes one sentence that names it. Knows nothing of columns' meaning.
"""

import bz2
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa

from unfit.data.dialect import Dialect, detect
from unfit.data.text import shorten
from unfit.errors import BadInput

if TYPE_CHECKING:
    from scipy import sparse

BLOCK_ROWS = 1 << 16
BLOCK_BYTES = 8 << 20
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm",
}  # fmt: skip
FORMATS = ("csv", "parquet", "libsvm")


class Source(Protocol):
    """Rows in blocks, in an order that does not change."""

    name: str

    def columns(self) -> list[str]: ...

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, all columns or the named ones."""
        ...


@dataclass(frozen=True)
class Location:
    """What names a source: a path, or a database URL with a table or a query."""

    path: Path | None = None
    format: str | None = None
    url: str | None = None
    table: str | None = None
    query: str | None = None
    missing: tuple[str, ...] = ("",)
    delimiter: str | None = None  # of CSV; None: found out
    encoding: str | None = None
    like: Dialect | None = None  # of files of the same kind: a guide, where it fits


def open_source(location: Location) -> Source:
    """The source of a location; its header has been read."""
    if location.url is not None:
        from unfit.data.sql import SqlSource

        return SqlSource(location.url, location.table, location.query)
    path = location.path
    if path is None:
        raise BadInput("a source needs a path or a url")
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    if not path.exists():
        raise BadInput(f"there is no file {path}")
    kind = location.format or guess_format(path)
    if kind not in FORMATS:
        raise BadInput(f"unknown format {kind!r}; there are {', '.join(FORMATS)}")
    if kind == "parquet":
        return ParquetSource(path)
    if kind == "libsvm":
        return LibsvmSource(path)
    return CsvSource(path, location.missing, location.delimiter, location.encoding, location.like)


def guess_format(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in (".gz", ".bz2")]
    found = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise BadInput(
            f"cannot tell the format of {path.name} from its name; use --format "
            f"{', '.join(FORMATS)}"
        )
    return found


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Whatever a reader says, in a sentence that names the file."""
    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        UnicodeDecodeError,
        EOFError,
        OverflowError,
        zlib.error,
    ) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadInput(f"cannot read {name}: {first}") from None


def unpacked(path: Path) -> BinaryIO:
    """A file for reading; what its name calls packed is unpacked on the way."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(path))
    return cast(BinaryIO, bz2.BZ2File(path)) if suffix == ".bz2" else path.open("rb")


class TableSource:
    """Rows that are in memory already."""

    def __init__(self, table: pa.Table) -> None:
        self.name = "the table"
        self._table = table
        check_names(table.column_names, self.name)

    def columns(self) -> list[str]:
        return list(self._table.column_names)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        table = self._table if columns is None else self._table.select(list(columns))
        yield from table.to_batches(BLOCK_ROWS)


class CsvSource:
    """A header line, then rows; every value arrives as text, missing ones as null.

    delimiter, encoding: found out where they are not given. like: the dialect of other files of the
    kind, which is taken where it fits.
    """

    def __init__(
        self,
        path: Path | BinaryIO,
        missing: Sequence[str] = ("",),
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
        check_names(names, self.name)
        return names

    def columns(self) -> list[str]:
        return list(self._header)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv as arrow_csv

        wanted = self._header if columns is None else list(columns)
        with reading(self.name), self._open() as file:
            reader = arrow_csv.open_csv(
                file,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=BLOCK_BYTES,
                    column_names=self._header, skip_rows=self._header_lines,
                    encoding="utf8" if self.dialect.encoding == "utf-8" else self.dialect.encoding,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.dialect.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in self._header},
                    include_columns=wanted, null_values=list(self._missing),
                    strings_can_be_null=True, quoted_strings_can_be_null=True,
                ),
            )  # fmt: skip
            for batch in reader:
                if batch.num_rows:
                    yield batch


class ParquetSource:
    """A Parquet file, row groups in order."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.name = path.name
        self._path = path
        with reading(self.name), parquet.ParquetFile(path) as file:
            self._columns = [str(name) for name in file.schema_arrow.names]
        check_names(self._columns, self.name)

    def columns(self) -> list[str]:
        return list(self._columns)

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        from pyarrow import parquet

        with reading(self.name), parquet.ParquetFile(self._path) as file:
            wanted = None if columns is None else list(columns)
            yield from file.iter_batches(BLOCK_ROWS, columns=wanted)


class LibsvmSource:
    """Lines of `label index:value ...`; columns are called f1, f2 ... after their indices."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._width = 0
        for chunk, first in _lines(path):
            indices = [int(i) for i in re.findall(rb"[\s](\d+):", chunk)]
            if indices and min(indices) < 1:
                raise BadInput(f"{self.name}: index 0 near line {first}; indices start at 1")
            self._width = max([self._width, *indices])
        if self._width == 0:
            raise BadInput(f"{self.name} has no index:value pairs; is it a LIBSVM file?")

    def columns(self) -> list[str]:
        return ["label", *(f"f{i}" for i in range(1, self._width + 1))]

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = self.columns()
        for X, y in libsvm_blocks(self._path, self._width):
            step = max(1, BLOCK_BYTES // (8 * self._width))
            for start in range(0, X.shape[0], step):
                dense = X[start : start + step].toarray()
                arrays = [pa.array(y[start : start + step])]
                arrays += [pa.array(column) for column in np.ascontiguousarray(dense.T)]
                batch = pa.RecordBatch.from_arrays(arrays, names=names)
                yield batch if columns is None else batch.select(list(columns))


def libsvm_blocks(path: Path, width: int) -> Iterator[tuple["sparse.csr_matrix", np.ndarray]]:
    """The rows of a LIBSVM file, plain, .gz or .bz2, in blocks: X (m, width) and labels (m,)."""
    from sklearn.datasets import load_svmlight_file

    for chunk, first in _lines(path):
        try:
            yield load_svmlight_file(io.BytesIO(chunk), n_features=width, zero_based=False)
        except (ValueError, OverflowError):
            raise BadInput(f"{path.name}: {_bad_line(chunk, first, width)}") from None


def _lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """Whole lines of about BLOCK_BYTES, and the number of the first."""
    with reading(path.name), unpacked(path) as file:
        line = 1
        while chunk := file.read(BLOCK_BYTES):
            chunk += file.readline()
            yield chunk, line
            line += chunk.count(b"\n")


def _bad_line(chunk: bytes, first: int, width: int) -> str:
    pair = re.compile(rb"^\d+:[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?)$")
    number = re.compile(rb"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    for i, line in enumerate(chunk.splitlines()):
        parts = line.split(b"#")[0].split()
        if parts and not (number.match(parts[0]) and all(pair.match(p) for p in parts[1:])):
            shown = shorten(line.decode("utf-8", "replace"))
            return f"line {first + i} is not `label index:value ...`: {shown}"
        if parts[1:] and int(parts[-1].split(b":")[0]) > width:
            return f"line {first + i} has an index above {width}"
    return f"lines from {first} on are not `label index:value ...` with rising indices"


def check_names(names: Sequence[str], where: str) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name.strip():
            raise BadInput(f"{where}: column {i + 1} has no name")
        if name in seen:
            raise BadInput(f"{where}: two columns are called {name!r}")
        seen.add(name)
