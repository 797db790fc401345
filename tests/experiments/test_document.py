"""docs/reproduction.md says what its runs say: every sentence with a figure is computed again."""

import importlib.util
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from unfit.experiments.agreement import agreements
from unfit.experiments.claims import claims
from unfit.experiments.findings import Findings, Subject
from unfit.experiments.plans import plans
from unfit.experiments.tables import TABLES

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "docs" / "reproduction"


@pytest.fixture(scope="module")
def writer():
    path = ROOT / "tools" / "write_reproduction.py"
    spec = importlib.util.spec_from_file_location("write_reproduction", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found():
    subjects = []
    for fields in json.loads((PLACE / "subjects.json").read_text()):
        volumes = fields.pop("volumes")
        subjects.append(Subject(**fields, volumes=volumes and tuple(volumes)))
    return Findings(pd.read_parquet(PLACE / "runs.parquet"), tuple(subjects))


def test_every_sentence_with_a_figure_is_generated_from_the_runs(writer, found):
    text = (ROOT / "docs" / "reproduction.md").read_text()
    start, stop = text.index("## What the paper claims"), text.index("## Beside the published")
    said = text[start:stop].splitlines()[4:]
    assert said == writer.claim_lines(claims(found))
    for line in writer.agreement_lines(agreements(found)):
        assert line in text


def test_every_table_is_generated_from_the_runs(found):
    for name in TABLES:
        kept = pd.read_csv(PLACE / f"{name}.csv")
        made = pd.read_csv(io.StringIO(TABLES[name](found).csv()))
        # Another processor adds numbers up in another order: the last digits may differ.
        pd.testing.assert_frame_equal(kept, made, rtol=1e-12, atol=0, obj=name)


def test_a_document_of_a_small_study_says_its_claims(writer, tiny):
    _, _, outcome = tiny
    text = writer.document(outcome)
    for line in writer.claim_lines(outcome.claims):
        assert line in text
    for table in outcome.tables:
        assert f"### {plans()[table.name].title}" in text
