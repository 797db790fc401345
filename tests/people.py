"""Tables of people for tests: numbers, truth, categories, gaps, several rows a person."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

COLUMNS = ("age", "income", "member", "plan", "city")


def people(n: int = 400, subjects: int = 150, classes: int = 2, seed: int = 0) -> pa.Table:
    """n rows of `subjects` people; the label depends on age, income and plan."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 12, n).round(1)
    income = rng.lognormal(3, 0.4, n)
    plan = rng.choice(["basic", "plus", "pro"], n, p=[0.5, 0.3, 0.2])
    member = rng.random(n) < 0.4
    score = (age - 45) / 12 + 0.04 * (income - 20) + 0.8 * (plan == "pro") + rng.logistic(size=n)
    cut = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    label = np.array(["no", "yes", "maybe", "never"])[np.searchsorted(cut, score)]
    who = rng.integers(0, subjects, n)
    return pa.table(
        {
            "person": pa.array([f"p{i:04d}" for i in who]),
            "record": pa.array([f"r{i:05d}" for i in range(n)]),
            "age": pa.array(np.where(rng.random(n) < 0.05, np.nan, age), from_pandas=True),
            "income": pa.array(income),
            "member": pa.array(member),
            "plan": pa.array(plan.tolist()),
            "city": pa.array([None if rng.random() < 0.1 else f"c{i}" for i in who % 7]),
            "label": pa.array(label.tolist()),
        }
    )


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path)
    return path
