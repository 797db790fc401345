"""What the service is made from: Diabetes 130 where its file is at hand, else a table like it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import unfit.workspace
from unfit.data.catalog import fetch, find
from unfit.data.catalog.entries.diabetes130 import DIAGNOSES, NUMBERS, chapters
from unfit.workspace import Workspace

PATIENT, LABEL, POSITIVE = "patient_nbr", "readmitted", "<30"
RARE = 50  # rows; a text found in fewer shares a column with the other rare ones
BODIES = 2000  # different rows that are asked for
_CODES = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
_LEFT_OUT = ("encounter_id", "weight")  # weight: nearly always missing


@dataclass(frozen=True)
class Population:
    """A workspace with a model, and who is in it."""

    folder: Path
    data: str
    rows: int
    width: int  # encoded columns
    subjects: Sequence[str]  # in a random order
    rows_of: dict[str, int]
    bodies: Sequence[bytes]  # of requests for a prediction of one row


def populate(folder: Path, store: str, quick: bool, seed: int) -> Population:
    """Write the table, make a workspace from it, train its model."""
    rng = np.random.default_rng(seed)
    source = None if quick else fetch.choose(find("diabetes130").file_sets)
    if source is not None:
        table, name = _diabetes(), "Diabetes 130"
    else:
        table, name = (
            _synthetic(rng, *((3_000, 1_500) if quick else (101_766, 71_518))),
            "synthetic",
        )
    path, made = folder / "table.parquet", folder / "workspace"
    parquet.write_table(table, path)
    unfit.workspace.init(
        path,
        made,
        label=LABEL,
        subject=PATIENT,
        positive=[POSITIVE],
        store=store,
        random_state=seed,
    )
    settings = made / "unfit.toml"
    settings.write_text(settings.read_text().replace("min_rows = 10", f"min_rows = {RARE}"))
    with Workspace(made) as workspace:
        width = workspace.train().columns
    subjects, counts = np.unique(table[PATIENT].to_numpy().astype(str), return_counts=True)
    rows_of = dict(zip(subjects.tolist(), counts.tolist(), strict=True))
    asked = table.drop_columns([PATIENT, LABEL]).take(rng.integers(0, table.num_rows, BODIES))
    bodies = [json.dumps({"rows": [row]}).encode() for row in asked.to_pylist()]
    order = rng.permutation(subjects).tolist()
    return Population(made, name, table.num_rows, width, order, rows_of, bodies)


def _diabetes() -> pa.Table:
    """Hospital stays as the catalogue reads them; diagnoses by their chapter."""
    source, paths = fetch.obtain("Diabetes 130", find("diabetes130").file_sets)
    columns = {}
    for name, values in source.read(paths).items():
        if name in _LEFT_OUT:
            continue
        if name in (*NUMBERS, PATIENT):
            columns[name] = pa.array(values.astype(np.int64))
        else:
            texts = chapters(values) if name in DIAGNOSES else values
            code = "code " if name in (*DIAGNOSES, *_CODES) else ""  # no quantities
            columns[name] = pa.array([None if t in ("?", "") else code + t for t in texts.tolist()])
    return pa.table(columns)


def _synthetic(rng: np.random.Generator, rows: int, subjects: int) -> pa.Table:
    """As many stays, patients, numbers and categories, drawn at random."""
    columns: dict[str, pa.Array] = {}
    score = rng.logistic(size=rows) - 2.2
    for i in range(8):
        values = rng.poisson(2.0 + 3 * i, rows)
        score += 0.1 * (values - values.mean()) / values.std()
        columns[f"number_{i}"] = pa.array(values)
    for i in range(37):
        codes = rng.zipf(1.6, rows) % (3 + i % 10)
        score += 0.1 * (codes == 1)
        columns[f"category_{i}"] = pa.array([f"c{code}" for code in codes.tolist()])
    stays = np.concatenate([np.arange(subjects), rng.integers(0, subjects, rows - subjects)])
    columns[PATIENT] = pa.array(1_000_000 + stays)
    columns[LABEL] = pa.array(np.where(score > 0, POSITIVE, "NO").tolist())
    return pa.table(columns)
