"""Rows that are a Dask array or data frame: workers write their blocks into one file, and this
process never has them. May know Dask."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import delayed

from unfit import disk
from unfit.engines.cluster.connection import connect
from unfit.engines.cluster.settings import Dask
from unfit.errors import BadInput
from unfit.row_files import RowFiles, described, row_arrays


@dataclass(frozen=True, kw_only=True)
class Written:
    """Rows on the disk that have no labels yet."""

    folder: Path
    shape: tuple[int, int]
    dtype: np.dtype

    def mapped(self) -> np.ndarray:
        """All of them, mapped."""
        return np.memmap(self.folder / "X.bin", self.dtype, "r", shape=self.shape)

    def labelled(self, codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> RowFiles:
        """The same with class codes and sample weights; whoever has it removes the folder."""
        n, width = self.shape
        arrays = row_arrays(n, width, self.dtype, weights is not None)
        parts = {"labels": codes, "live": np.ones(n, np.uint8)}
        if weights is not None:
            parts["sample_weight"] = weights
        for name, values in parts.items():
            with disk.ArrayWriter(self.folder / f"{name}.bin", arrays[name].dtype) as writer:
                writer.append(values)
        return described(self.folder, arrays, width, n_classes, temporary=True)


def write_collection(X: Any, dtype: np.dtype, folder: Path, settings: Dask) -> Written:
    """Write the blocks of a Dask array or data frame, by those who have them."""
    cluster = connect(settings)
    client = cluster.client()
    array = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if array.ndim != 2:
        raise BadInput(f"X has {array.ndim} dimensions instead of 2")
    if np.isnan(array.shape[0]):
        array = array.compute_chunk_sizes()
    array = array.rechunk({1: -1})
    n, width = (int(size) for size in array.shape)
    os.makedirs(folder, mode=0o700)
    try:
        disk.require_space(folder, n * width * dtype.itemsize, "the rows")
        with disk.create(folder / "X.bin") as file:
            file.truncate(n * width * dtype.itemsize)
        starts = np.concatenate([[0], np.cumsum(array.chunks[0])[:-1]]).tolist()
        blocks = array.to_delayed().ravel().tolist()
        write = delayed(_write_block, pure=False)
        path = str(folder / "X.bin")
        made = [write(b, path, at, dtype.str) for b, at in zip(blocks, starts, strict=True)]
        cluster.results(client.compute(made))
        disk.sync_file(folder / "X.bin")
    except BaseException:
        disk.remove(folder)
        raise
    return Written(folder=folder, shape=(n, width), dtype=dtype)


def gathered(values: Any, settings: Dask) -> Any:
    """A small collection, such as labels, in the memory of this process."""
    cluster = connect(settings)
    return cluster.results([cluster.client().compute(values)])[0]


def _write_block(block: Any, path: str, start: int, dtype: str) -> int:
    """Rows of a block at their place in the file; how many they are."""
    rows = np.ascontiguousarray(np.asarray(block), dtype=dtype)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise BadInput(f"row {start + wrong[0]} of X holds a value that is not a finite number")
    with open(path, "r+b", buffering=0) as file:
        file.seek(start * rows.shape[1] * rows.itemsize)
        left = rows.reshape(-1).view(np.uint8).data
        while left:
            left = left[file.write(left) :]
    return len(rows)
