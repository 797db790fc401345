"""Where rows come from: files, databases, and what installed packages add, all in blocks.

`open_source(location)` finds the source by the format, the file's suffix or the URL's scheme. A
package adds one by an entry point of the group `unfit.sources`; `unfit.testing.check_source` is the
contract it must pass.
"""

from pathlib import Path

from unfit.data.sources.base import Location, Source
from unfit.errors import BadInput
from unfit.registry import Registry

SOURCES: Registry[type[Source]] = Registry(
    "format",
    "unfit.sources",
    {
        "csv": "unfit.data.sources.csv_file:CsvSource",
        "parquet": "unfit.data.sources.parquet_file:ParquetSource",
        "libsvm": "unfit.data.sources.libsvm_file:LibsvmSource",
        "sql": "unfit.data.sources.database:DatabaseSource",
    },
)
COMPRESSED = (".gz", ".bz2")


def open_source(location: Location) -> Source:
    """The source of a location; its header has been read."""
    if (location.path is None) == (location.url is None):
        raise BadInput("a source needs either a path or a url")
    if location.url is not None:
        format = location.format or format_of_url(location.url)
    else:
        path = location.file()
        format = location.format or format_of_file(path)
    return SOURCES.find(format).open(location)


def format_of_file(path: Path) -> str:
    """The format whose suffix a file's name has, compressed or not."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in COMPRESSED]
    for name in SOURCES if suffixes else ():
        if suffixes[-1] in SOURCES[name].suffixes:
            return name
    raise BadInput(
        f"cannot tell the format of {path.name} from its name; use --format with one of "
        f"{', '.join(SOURCES)}"
    )


def format_of_url(url: str) -> str:
    """The format whose scheme a URL has; SQLAlchemy takes all others."""
    scheme = url.partition("://")[0].partition("+")[0]
    return next((name for name in SOURCES if scheme in SOURCES[name].schemes), "sql")


__all__ = ["SOURCES", "Location", "Source", "open_source"]
