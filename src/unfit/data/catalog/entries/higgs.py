"""HIGGS: simulated collisions, signal against background; a real subset, or all eleven million."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training

SEED = 0
_PUBLIC = "HIGGS.csv.gz"


def _read_subset(paths: Mapping[str, Path]) -> RawArrays:
    """The rows with the whole set's mix of classes, and which of them are for testing."""
    raw = formats.npz(paths["higgs_subset.npz"], ("X", "y", "natural", "test"))
    kept = raw["natural"] | raw["test"]
    return {"X": raw["X"][kept], "y": raw["y"][kept], "test": raw["test"][kept]}


def _read_csv(paths: Mapping[str, Path]) -> RawArrays:
    """The class, then 28 numbers; a tenth of each class is for testing."""
    table = formats.csv_numbers(paths[_PUBLIC], 29)
    y = np.array(table[:, 0] == 1, dtype=np.int64)
    return {"X": table[:, 1:], "y": y, "test": scaling.stratified(y, len(y) // 10, SEED)}


def prepare(raw: RawArrays) -> Parts:
    """Each column to [0, 1] over the training rows, then the largest norm."""
    test = raw["test"].astype(np.bool_)
    X, X_test = (np.ascontiguousarray(raw["X"][rows], np.float32) for rows in (~test, test))
    scaling.to_unit_range(X, X_test)
    scaling.max_norm(X, X_test)
    y = raw["y"].astype(np.int64)
    return Parts(X, y[~test], X_test, y[test])


ENTRIES = (
    Entry(
        name="higgs",
        title="HIGGS",
        about="Simulated particle collisions, Higgs signal against background.",
        citation="Baldi, Sadowski and Whiteson 2014, Searching for exotic particles in high-energy "
        "physics with deep learning",
        terms="CC BY 4.0 (UCI)",
        file_sets=(
            FileSet(
                (
                    File(
                        "higgs_subset.npz",
                        "sha256:c69ad1076764f1f2627733607bf04119f99f06f6b82d94e4e082d771be5cdd00",
                        25254285,
                    ),
                ),
                _read_subset,
            ),
            FileSet(
                (
                    File(
                        _PUBLIC,
                        "sha256:ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698",
                        2816407858,
                        "https://archive.ics.uci.edu/ml/machine-learning-databases/00280/"
                        f"{_PUBLIC}",
                    ),
                ),
                _read_csv,
            ),
        ),
        prepare=prepare,
        # 20 epochs of 9.9 million rows: 386,720 steps, of which a subset takes as many.
        training=Training(epochs=20, batch_size=512, burn_in=500),
        intercept=True,
        target=0,
        volumes=(0.01, 0.05, 0.1),
        theta=0.35,
        rehearsed=(0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35),
        rows=9_900_000,
        paper=True,
    ),
)
