"""Which files hold rows: what a process elsewhere needs to map them, and to see that they are the
right ones.

The files are those of a generation of a workspace (data.dataset), or of a folder that `write_rows`
made in the same format from rows in memory: X.bin, or X_indptr.bin, X_indices.bin and X_data.bin
where rows are sparse; labels.bin; live.bin, 0 where a row was erased. A digest of manifest.json
tells one generation from another, the lengths of the files tell a whole file from a cut one. Knows
core, disk and errors.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.core.losses import Loss
from unfit.core.objective import Rows
from unfit.core.sparse_rows import SparseRows, stored_rows
from unfit.errors import Damaged

MANIFEST = "manifest.json"
_BLOCK = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Array:
    """A flat file of numbers: its dtype as NumPy writes it, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class RowFiles:
    """The first n rows of the files in a folder.

    width: columns without the intercept. digest: SHA-256 of the manifest. class_of_label: what
    labels.bin says -> class code. weight_of_class: of each class code, the last one for a class
    that is not known; None where all are 1. Rows with weights of their own have them in
    sample_weight.bin. temporary: the folder belongs to the engine, and goes with it.
    """

    folder: str
    digest: str
    n: int
    width: int
    arrays: dict[str, Array]
    class_of_label: tuple[int, ...]
    weight_of_class: tuple[float, ...] | None = None
    temporary: bool = False

    @property
    def sparse(self) -> bool:
        return "X" not in self.arrays

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.arrays["X_data" if self.sparse else "X"].dtype)

    @property
    def row_bytes(self) -> float:
        """Of a row's values, on average."""
        if not self.sparse:
            return float(self.width * self.dtype.itemsize)
        indptr, values = self.arrays["X_indptr"], self.arrays["X_data"]
        return 12 * values.shape[0] / max(1, indptr.shape[0] - 1) + 8  # with indices of 4 to 8

    def path(self, name: str) -> Path:
        return Path(self.folder) / f"{name}.bin"

    def mapped(self, name: str) -> np.ndarray:
        """A whole file, read-only. Damaged, in a sentence, where it is not as it was written."""
        array, path = self.arrays[name], self.path(name)
        where = f"{path.parent.name}/{path.name}"
        try:
            found = path.stat().st_size
        except OSError:
            raise Damaged(
                f"{where} is missing under {path.parent.parent}; every worker needs the storage of "
                "the rows under the same path, or restore the folder from a backup"
            ) from None
        if found != array.nbytes:
            raise Damaged(
                f"{where} has {found:,} bytes instead of {array.nbytes:,}; restore the folder from "
                "a backup"
            )
        if array.nbytes == 0:
            return np.empty(array.shape, array.dtype)
        return np.asarray(np.memmap(path, array.dtype, "r", shape=array.shape))

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Some rows of a file, read and not mapped: a page that is touched brings megabytes of its
        neighbours along into the memory of a process."""
        like, path = self.mapped(name), self.path(name)
        found = np.empty((len(rows), *like.shape[1:]), like.dtype)
        size = found[:1].nbytes
        with path.open("rb", buffering=0) as file:
            for i, row in enumerate(rows.tolist()):
                place = row + len(like) if row < 0 else row
                if (
                    os.preadv(file.fileno(), [found[i : i + 1].data.cast("B")], place * size)
                    != size
                ):
                    raise Damaged(
                        f"{path.parent.name}/{path.name} is cut; restore it from a backup"
                    )
        return found

    def check(self) -> None:
        """Raise Damaged if the folder holds other rows than those described here."""
        path = Path(self.folder) / MANIFEST
        try:
            found = digest_of(path)
        except OSError:
            raise Damaged(
                f"{path.parent.name}/{MANIFEST} is missing under {path.parent.parent}; every "
                "worker needs the storage of the rows under the same path, or restore the folder "
                "from a backup"
            ) from None
        if found != self.digest:
            raise Damaged(
                f"{path.parent.name} holds other rows than it did when they were opened; open the "
                "model again"
            )

    def rows(
        self, start: int, stop: int, intercept: bool, loss: Loss, *, in_place: bool = False
    ) -> Rows:
        """The rows of a range, where they lie; only their codes and weights are in memory, and with
        in_place not even those codes that can be read as they are."""
        of_label = np.asarray(self.class_of_label, np.int32)
        codes = coded(self.mapped("labels")[start:stop], of_label, in_place=in_place)
        weights = self._weights(start, stop, codes)
        if not self.sparse:
            X = self.mapped("X")[start:stop]
            return Rows(X, codes, intercept, loss, weights)
        indptr = self.mapped("X_indptr")[start : stop + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        parts = self.mapped("X_data")[part], self.mapped("X_indices")[part], indptr - indptr[0]
        like = Rows(np.zeros((0, self.width)), codes, intercept, loss, weights)
        return stored_rows(parts, (stop - start, self.width), like)

    def _weights(self, start: int, stop: int, codes: np.ndarray) -> np.ndarray | None:
        if "sample_weight" in self.arrays:
            return np.asarray(self.mapped("sample_weight")[start:stop])
        if self.weight_of_class is None:
            return None
        return np.asarray(np.asarray(self.weight_of_class)[codes])

    def live(self, start: int, stop: int) -> np.ndarray:
        """1 where a row is there, 0 where it was erased: the file itself, mapped."""
        return self.mapped("live")[start:stop]

    def zero(self, positions: np.ndarray) -> None:
        """Overwrite rows with zeros, in place and to the disk; can be repeated. First of all they
        are no longer live, so that no pass takes zeros for rows (`tasks.Loaded.require_live`)."""
        if len(positions) == 0:
            return
        names = "live", "X", "sample_weight", "labels"
        written = [(str(name), positions) for name in names if name in self.arrays]
        if self.sparse:
            places = self._entries(positions)
            written += [("X_indices", places), ("X_data", places)]
        for name, at in written:
            array = self.arrays[name]
            disk.zero_rows(self.path(name), array.nbytes // max(1, array.shape[0]), at)
        disk.sync_all([self.path(name) for name, _ in written])

    def _entries(self, positions: np.ndarray) -> np.ndarray:
        """The places of sparse rows' values, row after row."""
        indptr = self.mapped("X_indptr")
        counts = indptr[positions + 1] - indptr[positions]
        before = np.cumsum(counts) - counts
        return np.asarray(np.repeat(indptr[positions] - before, counts) + np.arange(counts.sum()))


def coded(labels: np.ndarray, class_of_label: np.ndarray, *, in_place: bool) -> np.ndarray:
    """The class codes of labels. in_place: the labels themselves where they are class codes, for
    whoever looks at few of many; kernels take arrays of their own."""
    if in_place and np.array_equal(class_of_label, np.arange(len(class_of_label))):
        return labels
    try:
        return np.asarray(class_of_label[labels])
    except IndexError:
        raise Damaged(
            f"the file labels.bin is damaged: it names a label that is none of the "
            f"{len(class_of_label)} there are; restore a backup"
        ) from None


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def row_arrays(n: int, width: int, dtype: np.dtype, weighted: bool) -> dict[str, Array]:
    """The files of n dense rows."""
    arrays = {
        "X": Array(dtype=dtype.str, shape=(n, width)),
        "labels": Array(dtype="<i4", shape=(n,)),
        "live": Array(dtype="|u1", shape=(n,)),
    }
    if weighted:
        arrays["sample_weight"] = Array(dtype="<f8", shape=(n,))
    return arrays


def described(
    folder: Path,
    arrays: dict[str, Array],
    width: int,
    n_classes: int,
    *,
    temporary: bool = False,
) -> RowFiles:
    """Write the manifest of a folder whose files are complete, and describe it."""
    shapes = {name: [array.dtype, *array.shape] for name, array in arrays.items()}
    content = {"arrays": shapes, "width": width, "id": secrets.token_hex(16)}
    disk.write(folder / MANIFEST, json.dumps(content).encode())
    return RowFiles(
        folder=str(folder),
        digest=digest_of(folder / MANIFEST),
        n=arrays["labels"].shape[0],
        width=width,
        arrays=arrays,
        class_of_label=tuple(range(n_classes)),
        temporary=temporary,
    )


def write_rows(folder: Path, rows: Rows, n_classes: int) -> RowFiles:
    """Write rows in memory into a new folder; it is complete when this returns, and gone where it
    fails."""
    os.makedirs(folder, mode=0o700)
    try:
        return _write_rows(folder, rows, n_classes)
    except BaseException:
        disk.remove(folder)
        raise


def _write_rows(folder: Path, rows: Rows, n_classes: int) -> RowFiles:
    n, width = len(rows), rows.d - rows.intercept
    arrays = row_arrays(n, width, rows.X.dtype, rows.sample_weight is not None)
    parts: dict[str, np.ndarray] = {"labels": rows.codes, "live": np.ones(n, np.uint8)}
    if rows.sample_weight is not None:
        parts["sample_weight"] = rows.sample_weight
    if isinstance(rows, SparseRows):
        del arrays["X"]
        found = {"X_indptr": rows.indptr, "X_indices": rows.indices, "X_data": rows.data}
        parts |= found
        arrays |= {k: Array(dtype=v.dtype.str, shape=v.shape) for k, v in found.items()}
    else:
        parts["X"] = rows.X
    disk.require_space(folder, sum(array.nbytes for array in arrays.values()), "the rows")
    for name, array in arrays.items():
        with disk.ArrayWriter(folder / f"{name}.bin", array.dtype) as writer:
            for block in _blocks(parts[name]):
                writer.append(block)
    return described(folder, arrays, width, n_classes, temporary=True)


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    step = _BLOCK if values.ndim > 1 else 1 << 20
    for start in range(0, len(values), step):
        yield values[start : start + step]
