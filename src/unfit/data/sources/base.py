"""What a source is: rows in blocks, from a place that a Location names.

A new kind of source is one class: a `Source` with `open`, `columns` and `blocks`, registered under
the name of its format (unfit.data.sources). Light: config reads Location without reading rows.
"""

import bz2
import gzip
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, cast

from unfit.data.dialect import Dialect
from unfit.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_ROWS = 1 << 16
BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class Location:
    """Where rows are and how to read them; what `[source]` of unfit.toml says.

    path or url: a file, or anything else. format: the name of a registered source; None: found by
    the file's suffix or the URL's scheme. table, query: of a database. missing: texts that mean "no
    value". delimiter, encoding: of a CSV file; None: detected. like: the dialect of similar files,
    used where it fits. options: whatever else a format needs.
    """

    path: Path | None = None
    _: KW_ONLY
    format: str | None = None
    url: str | None = None
    table: str | None = None
    query: str | None = None
    missing: tuple[str, ...] = ("",)
    delimiter: str | None = None
    encoding: str | None = None
    like: Dialect | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def file(self) -> Path:
        """The path of a file that exists."""
        if self.path is None:
            raise BadInput(f"the format {self.format!r} reads files; give a path, not a URL")
        if self.path.is_dir():
            raise BadInput(f"{self.path} is a folder; name a file")
        if not self.path.exists():
            raise BadInput(f"there is no file {self.path}")
        return self.path


class Source(ABC):
    """Rows in blocks, never more than one block in memory.

    name: what messages call it, such as the name of the file. Whatever is wrong with a file becomes
    one sentence (BadInput) that names it. A source knows nothing of what its columns mean.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()  # names of files that are read by it: (".csv", ".tsv")
    schemes: ClassVar[tuple[str, ...]] = ()  # URLs that are read by it: ("postgresql",)
    ordered: ClassVar[bool] = True  # rows come in the same order each time, so they have numbers
    name: str
    dialect: Dialect | None = None  # of a text file with delimiters

    @classmethod
    @abstractmethod
    def open(cls, location: Location) -> "Source":
        """The source at a location; its header has been read."""

    def preferred_options(self) -> Mapping[str, str]:
        """Options of the location with which a new workspace should read it instead."""
        return {}

    def parts(self, most: int) -> "Sequence[Source]":
        """The same rows in at most so many parts, in order, for readers at once in processes of
        their own; the source itself where it cannot be divided."""
        return [self]

    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the columns, each once."""

    @abstractmethod
    def blocks(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """The rows: all columns, or the named ones in the order given."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever a reader raises into one sentence that names the file."""
    import pyarrow as pa

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
    """A file opened for reading; .gz and .bz2 are decompressed on the way."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(path))
    return cast(BinaryIO, bz2.BZ2File(path)) if suffix == ".bz2" else path.open("rb")


def even_cuts(n: int, most: int) -> list[int]:
    """Where to cut n things into at most so many ranges, none of them empty."""
    count = max(1, min(n, most))
    return [n * i // count for i in range(count + 1)] if n else []


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse columns without a name, and two of the same name."""
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name.strip():
            raise BadInput(f"{where}: column {i + 1} has no name")
        if name in seen:
            raise BadInput(f"{where}: two columns are called {name!r}")
        seen.add(name)
