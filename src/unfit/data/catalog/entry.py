"""A data set of the catalogue: where its files are, how they become rows, how it is trained.

Plain records; a new data set is one `Entry`. Knows only errors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy import sparse

from unfit.data.catalog.sparse_arrays import check_canonical, split_arrays
from unfit.errors import BadInput

RawArrays = Mapping[str, np.ndarray]  # what a file set holds: named arrays, the same in each set
Matrix: TypeAlias = np.ndarray | sparse.csr_array

BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class Training:
    """The paper's SGD on this data set, and DELTAGRAD's burn-in steps."""

    epochs: int
    batch_size: int
    burn_in: int

    def steps(self, rows: int) -> int:
        return self.epochs * -(-rows // self.batch_size)

    def for_subset(self, rows: int, whole: int) -> "Training":
        """The same number of steps on fewer rows: epochs alone would end far from the optimum."""
        each = -(-rows // self.batch_size)
        return replace(self, epochs=max(self.epochs, round(self.steps(whole) / each)))


@dataclass(frozen=True)
class File:
    """A file by its name, its checksum ("sha256:..." or "md5:...") and where it is public."""

    name: str
    checksum: str | None = None
    size: int | None = None
    url: str | None = None


@dataclass(frozen=True)
class FileSet:
    """One way to the raw data: files, and a reader that is handed their paths by name."""

    files: tuple[File, ...]
    read: Callable[[Mapping[str, Path]], RawArrays]


@dataclass(frozen=True)
class Parts:
    """Rows ready for a model: X (n, p) float32, y (n,) int64 codes 0..k-1, and the test rows.

    X, X_test: both dense or both sparse (CSR). groups: whose row it is (a patient, a user, an
    author), where the data set says so.
    """

    X: Matrix
    y: np.ndarray
    X_test: Matrix
    y_test: np.ndarray
    groups: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """What is written: the arrays by name, three for sparse rows."""
        named = {"y": self.y, "y_test": self.y_test}
        for name, rows in (("X", self.X), ("X_test", self.X_test)):
            named |= {name: rows} if isinstance(rows, np.ndarray) else split_arrays(name, rows)
        return named if self.groups is None else {**named, "groups": self.groups}

    def check(self, name: str) -> None:
        """An error if the rows are not what a model takes."""
        for rows, codes in ((self.X, self.y), (self.X_test, self.y_test)):
            plain = not isinstance(rows, np.ndarray) or rows.flags.c_contiguous
            shape = rows.ndim == 2 and rows.dtype == np.float32 and plain
            if not shape or codes.shape != rows.shape[:1] or codes.dtype != np.int64:
                raise BadInput(
                    f"{name}: rows must be float32 (n, p), row after row, and classes int64 (n,)"
                )
            if not isinstance(rows, np.ndarray):
                check_canonical(rows, name)
                continue
            for start, stop in blocks(rows):
                if not np.isfinite(rows[start:stop]).all():
                    raise BadInput(f"{name}: rows {start} to {stop} hold a non-finite number")
        if isinstance(self.X, np.ndarray) != isinstance(self.X_test, np.ndarray):
            raise BadInput(f"{name}: training and test rows must both be dense, or both sparse")
        if self.X.shape[1] != self.X_test.shape[1]:
            raise BadInput(f"{name}: training and test rows have different columns")
        present = np.unique(self.y)
        if len(present) < 2 or not np.array_equal(present, np.arange(len(present))):
            raise BadInput(f"{name}: classes must be 0..k-1, each with a training row")
        if not np.isin(self.y_test, present).all():
            raise BadInput(f"{name}: a test row is of a class that has no training row")
        if self.groups is not None and self.groups.shape != self.y.shape:
            raise BadInput(f"{name}: groups must name one group for each training row")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A data set of the catalogue.

    target: the class that targeted deletions hit. volumes: small, medium and large deletions as
    fractions of the training rows. theta: the fraction deleted in the rehearsal that learns when
    to retrain. rehearsed: fractions at which the published estimate was judged, where they are not
    those of the others. rows: training rows of the whole set; what has another number is titled a
    subset. version: to be raised when `prepare` changes, so that what was prepared before is not
    used. speed_only: made up, so its accuracies say nothing. paper: one of the paper's six.
    """

    name: str
    title: str
    about: str
    citation: str
    terms: str
    file_sets: tuple[FileSet, ...]
    prepare: Callable[[RawArrays], Parts]
    training: Training
    intercept: bool
    target: int = 0
    volumes: tuple[float, float, float] | None = None
    theta: float = 0.45
    rehearsed: tuple[float, ...] | None = None
    version: int = 1
    rows: int | None = None
    speed_only: bool = False
    paper: bool = False


@dataclass(frozen=True)
class Prepared:
    """An entry with its rows, memory-mapped from the cache."""

    entry: Entry
    X: Matrix
    y: np.ndarray
    X_test: Matrix
    y_test: np.ndarray
    groups: np.ndarray | None = None

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def d(self) -> int:
        """Weights per class: a column each, and one for the intercept."""
        return int(self.X.shape[1]) + self.entry.intercept

    @property
    def k(self) -> int:
        return int(self.y.max()) + 1

    @property
    def sparse(self) -> bool:
        return not isinstance(self.X, np.ndarray)

    def dense(self) -> "Prepared":
        """The same with dense rows, in memory where they were sparse."""
        if isinstance(self.X, np.ndarray) or isinstance(self.X_test, np.ndarray):
            return self
        return replace(self, X=self.X.toarray(), X_test=self.X_test.toarray())

    @property
    def training(self) -> Training:
        """The entry's; on a subset of a set of the paper, as many steps as on the whole."""
        whole = self.entry.rows
        if whole is None or self.n >= whole or not self.entry.paper:
            return self.entry.training
        return self.entry.training.for_subset(self.n, whole)

    @property
    def title(self) -> str:
        """The entry's title; of a part of the data, it says how much was loaded."""
        if self.entry.rows in (None, self.n):
            return self.entry.title
        return f"{self.entry.title}, subset of {self.n:,} rows"


def blocks(rows: np.ndarray) -> list[tuple[int, int]]:
    """Bounds of blocks of rows of about BLOCK_BYTES, for passes over what may not fit in memory."""
    each = max(1, rows.nbytes // max(1, len(rows)))
    step = max(1, BLOCK_BYTES // each)
    return [(start, min(start + step, len(rows))) for start in range(0, len(rows), step)]
