"""HAPT: six activities from a smartphone's sensors; thirty people, nine of them for testing."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling, tables
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training

TEST_PEOPLE = (2, 4, 9, 10, 12, 13, 18, 20, 24)  # as in the published split


def _read(paths: Mapping[str, Path]) -> RawArrays:
    return formats.npz(paths["hapt_features.npz"], ("X", "y", "subject"))


def prepare(raw: RawArrays) -> Parts:
    """Columns standardised by the training people; the largest norm."""
    test = np.isin(raw["subject"], TEST_PEOPLE)
    X = scaling.standardise_columns(raw["X"].astype(np.float64), test)
    return tables.parts([X], raw["y"], test, raw["subject"])


ENTRIES = (
    Entry(
        name="hapt",
        title="HAPT",
        about="Six activities of thirty people from a phone's sensors (215 features of our own).",
        citation="Reyes-Ortiz et al. 2016, Transition-aware human activity recognition using "
        "smartphones",
        terms="CC BY 4.0 (UCI); its readme asks for citation and no commercial use",
        file_sets=(
            FileSet(
                (
                    File(
                        "hapt_features.npz",
                        "sha256:3316788ff3afd93a5c742e11d6211221138b9359b1c8a09c5fa45174cc410d70",
                        7784665,
                    ),
                ),
                _read,
            ),
        ),
        prepare=prepare,
        training=Training(epochs=200, batch_size=512, burn_in=10),
        intercept=True,
        volumes=(0.01, 0.05, 0.1),
        theta=0.15,
    ),
)
