"""Rows from a LIBSVM file."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from unfit.data.sources import base
from unfit.data.sources.base import Location, Source, reading, unpacked
from unfit.data.text import shorten
from unfit.errors import BadInput

if TYPE_CHECKING:
    from scipy import sparse


class LibsvmSource(Source):
    """Lines of `label index:value ...`; columns are called f1, f2 ... after their indices."""

    suffixes = (".libsvm", ".svm", ".svmlight")

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

    @classmethod
    def open(cls, location: Location) -> "LibsvmSource":
        return cls(location.file())

    def columns(self) -> list[str]:
        return ["label", *(f"f{i}" for i in range(1, self._width + 1))]

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = self.columns()
        for X, y in libsvm_blocks(self._path, self._width):
            step = max(1, base.BLOCK_BYTES // (8 * self._width))
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
        while chunk := file.read(base.BLOCK_BYTES):
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
