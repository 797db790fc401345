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


FEATURES = "features"  # the column of pairs
WIDE = 1024  # columns from which a file is better read as pairs


class LibsvmSource(Source):
    """Lines of `label index:value ...`.

    Columns are called f1, f2 ... after their indices, which start at 1; or, with the option rows =
    "sparse", all pairs of a line are one value of the column `features`, under the indices that the
    file has, be they from 0 or from 1 on.
    """

    suffixes = (".libsvm", ".svm", ".svmlight")

    def __init__(self, path: Path, *, sparse: bool = False) -> None:
        self.name = path.name
        self._path = path
        self._largest = -1
        self._sparse = sparse
        for chunk, first in _lines(path):
            indices = np.array(re.findall(rb"[\s](\d+):", chunk)).astype(np.int64)
            if len(indices) and indices.min() < 1 and not sparse:
                raise BadInput(
                    f"{self.name}: index 0 near line {first}; indices start at 1, unless the rows "
                    "are read as sparse ones (--source-option rows=sparse)"
                )
            self._largest = max(self._largest, int(indices.max(initial=-1)))
        if self._largest < 0 or (self._largest == 0 and not sparse):
            raise BadInput(f"{self.name} has no index:value pairs; is it a LIBSVM file?")

    @classmethod
    def open(cls, location: Location) -> "LibsvmSource":
        rows = location.options.get("rows", "dense")
        if rows not in ("dense", "sparse"):
            raise BadInput(f"{location.file().name}: the option rows is 'dense' or 'sparse'")
        return cls(location.file(), sparse=rows == "sparse")

    def preferred_options(self) -> dict[str, str]:
        return {"rows": "sparse"} if self._largest >= WIDE and not self._sparse else {}

    def columns(self) -> list[str]:
        if self._sparse:
            return ["label", FEATURES]
        return ["label", *(f"f{i}" for i in range(1, self._largest + 1))]

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        found = self._pairs() if self._sparse else self._columns()
        for batch in found:
            yield batch if columns is None else batch.select(list(columns))

    def _pairs(self) -> Iterator[pa.RecordBatch]:
        for X, y in libsvm_blocks(self._path, self._largest + 1, from_zero=True):
            maps = pa.MapArray.from_arrays(
                pa.array(X.indptr.astype(np.int32)),
                pa.array(X.indices.astype(np.int32)),
                pa.array(X.data),
            )
            yield pa.RecordBatch.from_arrays([pa.array(y), maps], names=self.columns())

    def _columns(self) -> Iterator[pa.RecordBatch]:
        names, width = self.columns(), self._largest
        for X, y in libsvm_blocks(self._path, width):
            step = max(1, base.BLOCK_BYTES // (8 * width))
            for start in range(0, X.shape[0], step):
                dense = X[start : start + step].toarray()
                arrays = [pa.array(y[start : start + step])]
                arrays += [pa.array(column) for column in np.ascontiguousarray(dense.T)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)


def libsvm_blocks(
    path: Path, width: int, *, from_zero: bool = False
) -> Iterator[tuple["sparse.csr_matrix", np.ndarray]]:
    """The rows of a LIBSVM file, plain, .gz or .bz2, in blocks: X (m, width) and labels (m,).

    from_zero: the columns of X are the indices of the file; otherwise they are one less.
    """
    from sklearn.datasets import load_svmlight_file

    for chunk, first in _lines(path):
        try:
            yield load_svmlight_file(io.BytesIO(chunk), n_features=width, zero_based=from_zero)
        except (ValueError, OverflowError):
            raise BadInput(f"{path.name}: {_bad_line(chunk, first, width - from_zero)}") from None


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
