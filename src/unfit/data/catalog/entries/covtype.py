"""COVTYPE: the forest's commonest cover, lodgepole pine, against the rest."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training
from unfit.errors import BadInput

N_TEST = 58_102
SEED = 0
_NAMES = ("X_num", "wilderness", "soil", "cover_type")
_PUBLIC = "covtype.data.gz"


def _read_npz(paths: Mapping[str, Path]) -> RawArrays:
    return formats.npz(paths["covtype.npz"], _NAMES)


def _read_csv(paths: Mapping[str, Path]) -> RawArrays:
    """10 numbers, 4 columns of which one is 1 (wilderness), 40 such (soil), the cover 1 to 7."""
    (path,) = paths.values()
    table = formats.csv_numbers(path, 55)
    for start, stop, what in ((10, 14, "wilderness"), (14, 54, "soil")):
        ones = table[:, start:stop].sum(axis=1) == 1
        if not ones.all():
            row = int(np.argmin(ones)) + 1
            raise BadInput(f"{path.name}: row {row} does not have exactly one {what}")
    return {
        "X_num": table[:, :10],
        "wilderness": table[:, 10:14].argmax(axis=1),
        "soil": table[:, 14:54].argmax(axis=1),
        "cover_type": table[:, 54],
    }


def prepare(raw: RawArrays, n_test: int = N_TEST) -> Parts:
    """Numbers to [0, 1] over all rows, codes one-hot, type 2 against the rest, the largest norm.

    The range is that of all rows, as the published scaled file has it.
    """
    n = len(raw["cover_type"])
    X = np.zeros((n, 54), np.float32)
    low, high = (f(raw["X_num"], axis=0).astype(np.float64) for f in (np.min, np.max))
    X[:, :10] = (raw["X_num"] - low) / np.where(high > low, high - low, 1)
    X[np.arange(n), 10 + raw["wilderness"].astype(np.int64)] = 1
    X[np.arange(n), 14 + raw["soil"].astype(np.int64)] = 1
    y = (raw["cover_type"] == 2).astype(np.int64)
    test = scaling.stratified(y, n_test, SEED)
    X_train, X_test = X[~test], X[test]
    scaling.max_norm(X_train, X_test)
    return Parts(X_train, y[~test], X_test, y[test])


ENTRIES = (
    Entry(
        name="covtype",
        title="COVTYPE",
        about="Forest cover from maps: lodgepole pine against six other covers.",
        citation="Blackard and Dean 1999, Comparative accuracies of artificial neural networks and "
        "discriminant analysis in predicting forest cover types",
        terms="CC BY 4.0 (UCI); (c) J. A. Blackard and Colorado State University",
        file_sets=(
            FileSet(
                (
                    File(
                        "covtype.npz",
                        "sha256:6994808f3cb856540e26364d08c7031c5a1f76224c8385be72ad4a2cfe4e1b3e",
                        5224280,
                    ),
                ),
                _read_npz,
            ),
            FileSet(
                (
                    File(
                        _PUBLIC,
                        "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
                        url="https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/"
                        f"{_PUBLIC}",
                    ),
                ),
                _read_csv,
            ),
        ),
        prepare=prepare,
        training=Training(epochs=200, batch_size=512, burn_in=10),
        intercept=False,
        target=0,
        volumes=(0.05, 0.1, 0.15),
        rows=522_910,
        paper=True,
    ),
)
