"""Diabetes in 130 US hospitals: will the patient be admitted again; split by patient."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unfit.data.catalog import formats, scaling, tables
from unfit.data.catalog.entry import Entry, File, FileSet, Parts, RawArrays, Training

SEED = 0
TEST_SHARE = 0.2  # of the patients
RARE = 50  # a text found in fewer training rows has no column
NUMBERS = (
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
)
DIAGNOSES = ("diag_1", "diag_2", "diag_3")
_LEFT_OUT = ("encounter_id", "patient_nbr", "weight", "readmitted")  # weight: nearly always missing
_NEEDED = (*NUMBERS, *DIAGNOSES, *_LEFT_OUT)
_CHAPTERS = (
    1,
    140,
    240,
    250,
    251,
    280,
    290,
    320,
    390,
    460,
    520,
    580,
    630,
    680,
    710,
    740,
    760,
    780,
    800,
)  # of ICD-9, diabetes (250) on its own


def _read_parquet(paths: Mapping[str, Path]) -> RawArrays:
    return formats.parquet_columns(paths["diabetes130.parquet"], _NEEDED)


def _read_zip(paths: Mapping[str, Path]) -> RawArrays:
    (path,) = paths.values()
    content = formats.zip_member(path, "diabetic_data.csv")
    return formats.csv_columns(content, f"{path.name}/diabetic_data.csv", needed=_NEEDED)


def _read_csv(paths: Mapping[str, Path]) -> RawArrays:
    (path,) = paths.values()
    return formats.csv_columns(path.read_bytes(), path.name, needed=_NEEDED)


def prepare(raw: RawArrays) -> Parts:
    """Class 1: readmitted at all. Numbers standardised, texts one-hot; the largest norm."""
    patients = tables.numbers(raw, ["patient_nbr"])[:, 0].astype(np.int64)
    test = scaling.by_group(patients, TEST_SHARE, SEED)
    blocks = [scaling.standardise_columns(tables.numbers(raw, NUMBERS), test)]
    for name in sorted(set(raw) - {*NUMBERS, *_LEFT_OUT}):
        column = chapters(raw[name]) if name in DIAGNOSES else raw[name]
        blocks.append(tables.one_hot(column, test, RARE))
    return tables.parts(blocks, raw["readmitted"] != "NO", test, patients)


def chapters(codes: np.ndarray) -> np.ndarray:
    """The chapter of each ICD-9 code: a number, or the letter of a code that begins with one."""
    texts, inverse = np.unique(codes, return_inverse=True)
    found = []
    for text in texts.tolist():
        number = text.replace(".", "", 1).isdigit()
        found.append(str(np.searchsorted(_CHAPTERS, float(text), "right")) if number else text[:1])
    return np.asarray(found)[inverse]


ENTRIES = (
    Entry(
        name="diabetes130",
        title="Diabetes 130",
        about="Hospital stays of diabetics: is the patient readmitted; many stays, one patient.",
        citation="Strack et al. 2014, Impact of HbA1c measurement on hospital readmission rates",
        terms="CC BY 4.0 (UCI), de-identified",
        file_sets=(
            FileSet(
                (
                    File(
                        "diabetes130.parquet",
                        "sha256:d0ab9ad6b8165ce70d50fc3d47ea20be7a3678bb8e38bc7be8add1128efd58f4",
                        2207092,
                    ),
                ),
                _read_parquet,
            ),
            FileSet((File("diabetic_data.csv"),), _read_csv),
            FileSet(
                (
                    File(
                        "dataset_diabetes.zip",
                        url="https://archive.ics.uci.edu/ml/machine-learning-databases/00296/"
                        "dataset_diabetes.zip",
                    ),
                ),
                _read_zip,
            ),
        ),
        prepare=prepare,
        training=Training(epochs=200, batch_size=512, burn_in=10),
        intercept=True,
        volumes=(0.05, 0.1, 0.2),
    ),
)
