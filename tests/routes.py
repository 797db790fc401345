"""Made-up or real files of a data set, laid out as each of its file sets wants them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from unfit.data import catalog
from unfit.data.catalog import prepared, scaling
from unfit.data.catalog.entry import Entry, Prepared

OF_TEN = ("mnist-b", "cifar2")  # two of ten classes, divided by the largest norm of all


def unchecked(entry: Entry) -> Entry:
    """The entry for made-up files: they have other checksums."""

    def plain(file_set: catalog.FileSet) -> catalog.FileSet:
        files = tuple(replace(file, checksum=None, size=None) for file in file_set.files)
        return replace(file_set, files=files)

    return replace(entry, file_sets=tuple(plain(file_set) for file_set in entry.file_sets))


def routes(entry: Entry, data: Path, *writers: Callable[[Path], None]) -> list[Prepared]:
    """What is prepared of each route's files, when they are all there is."""
    made = []
    for write in writers:
        for old in data.iterdir():
            old.unlink()
        write(data)
        made.append(prepared.prepare(unchecked(entry)))
    for other in made[1:]:
        for name in ("X", "y", "X_test", "y_test"):
            one, two = getattr(other.dense(), name), getattr(made[0].dense(), name)
            np.testing.assert_array_equal(one, two)
    if entry.name not in OF_TEN:
        assert np.isclose(scaling.largest_norm(made[0].X), 1, atol=1e-6)
    return made
