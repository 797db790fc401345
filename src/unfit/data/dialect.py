"""How a text file is written: what separates its cells, and which encoding it has.

Detected where it is clear: a byte order mark, valid UTF-8, or else one of the two encodings of
Western Europe; the one delimiter that cuts all of the first lines into as many cells as the header.
"""

import codecs
import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from unfit.errors import BadInput

DELIMITERS = (",", ";", "\t", "|")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 1 << 16
_BLOCK = 1 << 22
_NOT_CP1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)

Open = Callable[[], BinaryIO]


@dataclass(frozen=True)
class Dialect:
    """delimiter: one character. encoding: as Python names it; utf-8 takes a byte order mark."""

    delimiter: str = ","
    encoding: str = "utf-8"

    @property
    def codec(self) -> str:
        """For reading text: a byte order mark at the beginning is not part of it."""
        return "utf-8-sig" if self.encoding == "utf-8" else self.encoding


def checked(delimiter: str | None, encoding: str | None) -> None:
    """Refuse a delimiter or an encoding that cannot be used."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise BadInput(f"the delimiter must be one character, such as ';', not {delimiter!r}")
    if encoding is not None:
        try:
            text = codecs.lookup(encoding).incrementaldecoder is not None
            "".encode(encoding)
        except (LookupError, TypeError):
            text = False
        if not text:
            raise BadInput(f"unknown encoding {encoding!r}; try utf-8, latin-1, cp1252 or utf-16")


def detect(
    open_file: Open, delimiter: str | None, encoding: str | None, like: Dialect | None = None
) -> Dialect:
    """The dialect of a file, as far as it is not given.

    like: that of similar files; its delimiter is used if it fits, its encoding if the file is not
    UTF-8.
    """
    checked(delimiter, encoding)
    encoding = encoding or _encoding(open_file, None if like is None else like.encoding)
    if delimiter is None:
        delimiter = _delimiter(open_file, Dialect(encoding=encoding), like)
    return Dialect(delimiter, encoding)


def _encoding(open_file: Open, otherwise: str | None) -> str:
    import numpy as np

    with open_file() as file:
        start = file.read(_SAMPLE)
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    zeros = np.frombuffer(start, np.uint8) == 0
    if zeros.any():
        at_odd, at_even = zeros[1::2].mean(), zeros[::2].mean()
        if max(at_odd, at_even) > 0.5 and min(at_odd, at_even) < 0.1:
            return "utf-16-le" if at_odd > at_even else "utf-16-be"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in _blocks(open_file):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        if otherwise is not None and codecs.lookup(otherwise).name != "utf-8":
            return otherwise
        return _western(open_file)
    return "utf-8"


def _western(open_file: Open) -> str:
    """cp1252 has letters where latin-1 has control characters, but not for every byte."""
    import numpy as np

    counts = np.zeros(256, np.int64)
    for block in _blocks(open_file):
        counts += np.bincount(np.frombuffer(block, np.uint8), minlength=256)
    letters = counts[0x80:0xA0].any() and not counts[list(_NOT_CP1252)].any()
    return "cp1252" if letters else "latin-1"


def _blocks(open_file: Open) -> Iterator[bytes]:
    with open_file() as file:
        while block := file.read(_BLOCK):
            yield block


def _delimiter(open_file: Open, dialect: Dialect, like: Dialect | None) -> str:
    """The one that splits the header and the next lines into the same number of cells, the most."""
    with open_file() as file:
        start = file.read(_SAMPLE)
    text = codecs.getincrementaldecoder(dialect.codec)(errors="replace").decode(start)
    cut = len(start) == _SAMPLE  # the last line may be half
    known = DELIMITERS if like is None else (like.delimiter, *DELIMITERS)
    found = {delimiter: _widths(text, delimiter, cut) for delimiter in known}
    alike = {d: widths[0] for d, widths in found.items() if len(set(widths)) == 1 and widths[0] > 1}
    if like is not None and like.delimiter in alike:
        return like.delimiter
    if alike:
        return max(alike, key=lambda d: alike[d])  # the first of equals
    header = text.split("\n", 1)[0]
    often = max(DELIMITERS, key=header.count)  # the reader names the lines that differ
    return often if header.count(often) else ","


def _widths(text: str, delimiter: str, cut: bool) -> list[int]:
    try:
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row
        ]
    except csv.Error:
        return []
    return [len(row) for row in (rows[:-1] if cut else rows)]
