"""Rows that are a Dask array or data frame: workers write their blocks into files, which are joined
here and never are in the memory of this process. May know Dask."""

import os
import secrets
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import Delayed, delayed

from unfit import disk
from unfit.engines.cluster.connection import Cluster, connect
from unfit.engines.cluster.settings import Dask, installed_version
from unfit.engines.cluster.tasks import require_fit
from unfit.errors import BadInput
from unfit.row_files import RowFiles, described, row_arrays


@dataclass(frozen=True, kw_only=True)
class Written:
    """Rows on the disk that have no labels yet."""

    folder: Path
    shape: tuple[int, int]
    dtype: np.dtype

    def labelled(self, codes: np.ndarray, weights: np.ndarray | None, n_classes: int) -> RowFiles:
        """The same with class codes and sample weights; whoever has it removes the folder. If that
        fails, nothing is left."""
        n, width = self.shape
        arrays = row_arrays(n, width, self.dtype, weights is not None)
        parts = {"labels": codes, "live": np.ones(n, np.uint8)}
        if weights is not None:
            parts["sample_weight"] = weights
        try:
            for name, values in parts.items():
                with disk.ArrayWriter(self.folder / f"{name}.bin", arrays[name].dtype) as writer:
                    writer.append(values)
            return described(self.folder, arrays, width, n_classes, temporary=True)
        except BaseException:
            disk.remove(self.folder)
            raise


def write_collection(X: Any, n: int, dtype: np.dtype, folder: Path, settings: Dask) -> Written:
    """Write the blocks of a Dask array or data frame of n rows, by those who have them.

    Every attempt at a block has a file of its own, of which those count whose tasks returned: a
    worker that was given up for dead writes into none that is read.
    """
    cluster = connect(settings)
    blocks, shapes = _blocks(X, cluster)
    rows, width = sum(rows for rows, _ in shapes), shapes[0][1]
    if rows != n:
        raise BadInput(f"X has {rows:,} rows but y has {n:,}")
    os.makedirs(folder, mode=0o700)
    try:
        disk.require_space(folder, n * width * dtype.itemsize, "the rows")
        with disk.parts_folder(folder) as parts:
            starts = accumulate((rows for rows, _ in shapes), initial=0)
            write = delayed(_write_block, pure=False)
            job = _Writing(parts=parts, dtype=dtype.str, version=installed_version())
            made = [
                write(block, job, start, shape)
                for block, start, shape in zip(blocks, starts, shapes, strict=False)
            ]
            written = cluster.results(cluster.submitted(lambda client: client.compute(made)))
            with disk.create(folder / "X.bin") as file:
                for part in written:
                    disk.append_part(file, part)
        disk.sync_file(folder / "X.bin")
    except BaseException:
        disk.remove(folder)
        raise
    return Written(folder=folder, shape=(n, width), dtype=dtype)


def _blocks(X: Any, cluster: Cluster) -> tuple[list[Delayed], list[tuple[int, int]]]:
    """The blocks of whole rows, and the shape of each; workers count rows that nobody knows."""
    array = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    if array.ndim != 2:
        raise BadInput(f"X has {array.ndim} dimensions instead of 2")
    array = array.rechunk({1: -1})
    blocks, counts = array.to_delayed().ravel().tolist(), array.chunks[0]
    if np.isnan(counts).any():
        counted = [delayed(len)(block) for block in blocks]
        counts = cluster.results(cluster.submitted(lambda client: client.compute(counted)))
    return blocks, [(int(count), int(array.shape[1])) for count in counts]


def gathered(values: Any, settings: Dask) -> Any:
    """A small collection, such as labels, in the memory of this process."""
    cluster = connect(settings)
    return cluster.results([cluster.submitted(lambda client: client.compute(values))])[0]


@dataclass(frozen=True, kw_only=True)
class _Writing:
    """Where blocks are written, as which numbers, and the unfit that asks."""

    parts: Path
    dtype: str
    version: str


def _write_block(block: Any, job: _Writing, start: int, shape: tuple[int, int]) -> Path:
    """The rows of a block in a new file. start, shape: of the block, as X describes it."""
    require_fit(job.version)
    rows = np.ascontiguousarray(np.asarray(block), dtype=job.dtype)
    if rows.shape != shape:
        raise BadInput(
            f"the block of X that starts at row {start} has the shape {rows.shape} instead of "
            f"{shape}, which X says it has; correct the chunks of X"
        )
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise BadInput(f"row {start + wrong[0]} of X holds a value that is not a finite number")
    part = job.parts / secrets.token_hex(8)
    with disk.create(part) as file:
        file.write(rows.data)
    return part
