"""MNIST: ten handwritten digits, and 3 against 8."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training

_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_NPZ = File(
    "mnist.npz", "sha256:6ff3272174ad1dcb2ce270847ad63698633925ed0249e1e856d6fd92a3fbd58e", 11490517
)
_IDX = {
    "x_train": ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
    "y_train": ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432", 28881),
    "x_test": ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3", 1648877),
    "y_test": ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c", 4542),
}
_PLAIN = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def _read_npz(paths: Mapping[str, Path]) -> RawArrays:
    return formats.npz(paths["mnist.npz"], tuple(_IDX))


def _read_idx(paths: Mapping[str, Path]) -> RawArrays:
    by_stem = {name.removesuffix(".gz"): path for name, path in paths.items()}
    return {key: formats.idx(by_stem[stem]) for key, (stem, _, _) in _IDX.items()}


SOURCES = (
    FileSet((_NPZ,), _read_npz),
    FileSet(
        tuple(
            File(f"{stem}.gz", f"md5:{md5}", size, f"{_MIRROR}{stem}.gz")
            for stem, md5, size in _IDX.values()
        ),
        _read_idx,
    ),
    FileSet(tuple(File(stem, f"md5:{md5}") for stem, md5 in _PLAIN.items()), _read_idx),
)


# One mean and one deviation of the training pixels of all ten digits, as they are commonly given.
_MEAN, _DEVIATION = np.float32(0.1307), np.float32(0.3081)


def ten(raw: RawArrays) -> Parts:
    """x/255, then (x - 0.1307) / 0.3081, then the largest norm."""
    X, X_test = (_standardised(raw[name]) for name in ("x_train", "x_test"))
    scaling.max_norm(X, X_test)
    return Parts(X, raw["y_train"].astype(np.int64), X_test, raw["y_test"].astype(np.int64))


def three_eight(raw: RawArrays) -> Parts:
    """As for ten digits, the largest norm too: only then are 3 and 8 chosen, as was published."""
    X = _standardised(raw["x_train"])
    norm = scaling.largest_norm(X)
    kept = {part: np.isin(raw[f"y_{part}"], (3, 8)) for part in ("train", "test")}
    X, X_test = X[kept["train"]], _standardised(raw["x_test"][kept["test"]])
    y, y_test = ((raw[f"y_{part}"][rows] == 8).astype(np.int64) for part, rows in kept.items())
    scaling.divide(norm, X, X_test)
    return Parts(X, y, X_test, y_test)


def _standardised(bytes_: np.ndarray) -> np.ndarray:
    pixels = bytes_.astype(np.float32) / np.float32(255)
    return np.asarray((pixels - _MEAN) / _DEVIATION)


_CITATION = (
    "LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document "
    "recognition"
)
_TERMS = "(c) Y. LeCun and C. Cortes; commonly given as CC BY-SA 3.0"

ENTRIES = (
    Entry(
        name="mnist-b",
        title="MNIST-b",
        about="Handwritten digits, 3 against 8.",
        citation=_CITATION,
        terms=_TERMS,
        file_sets=SOURCES,
        prepare=three_eight,
        training=Training(epochs=1000, batch_size=1024, burn_in=10),
        intercept=False,
        target=0,
        volumes=(0.2, 0.3, 0.375),
        version=2,
        rows=11_982,
        paper=True,
    ),
    Entry(
        name="mnist",
        title="MNIST",
        about="Handwritten digits, ten classes.",
        citation=_CITATION,
        terms=_TERMS,
        file_sets=SOURCES,
        prepare=ten,
        training=Training(epochs=200, batch_size=512, burn_in=20),
        intercept=False,
        target=3,
        volumes=(0.01, 0.05, 0.075),
        theta=0.1,
        rehearsed=(0.01, 0.05, 0.1),
        rows=60_000,
        paper=True,
    ),
)
