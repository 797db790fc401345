"""What the paper's authors measured, to stand beside what we measure.

Mahadevan and Mathioudakis, "Certifiable Machine Unlearning for Linear Models", 2021. accuracy.csv,
curves.csv and streams.csv hold figures from their experiments; the constants are from the paper's
tables and text. None of it is ours, and none of it enters a result.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PEARSON = {
    "mnist-b": 0.963, "mnist": 0.999, "covtype": 0.881, "higgs": 0.478, "cifar2": 0.938,
    "epsilon": 0.8787,
}  # fmt: skip
SPEARMAN = {
    "mnist-b": 0.612, "mnist": 1.0, "covtype": 0.964, "higgs": 0.892, "cifar2": 0.976,
    "epsilon": 0.891,
}  # fmt: skip
ESTIMATOR_MSE = {
    "mnist-b": 0.15, "mnist": 3.249, "covtype": 427.77, "higgs": 2445.24, "cifar2": 47.088,
    "epsilon": 35.775,
}  # fmt: skip
# The largest speed-up at sigma 1, large volume, largest tau, rounded up.
BEST_SPEED_UP = {"mnist-b": 167, "mnist": 29, "covtype": 249, "cifar2": 20, "higgs": 47}
# Rows and columns as the paper's Table 1 gives them; CIFAR2 has 10,000 training rows, not 20,000.
SIZES = {
    "mnist-b": (11_982, 1_984, 784, 2), "mnist": (60_000, 10_000, 784, 10),
    "cifar2": (20_000, 2_000, 3072, 2), "covtype": (522_910, 58_102, 54, 2),
    "higgs": (9_900_000, 1_100_000, 28, 2), "epsilon": (400_000, 100_000, 2000, 2),
}  # fmt: skip


@cache
def accuracy() -> "pd.DataFrame":
    """Accuracies and seconds of FISHER and INFLUENCE, in one part and in eight."""
    frame = _read("accuracy.csv")
    frame["tau"] = frame["parts"].map({1: "m", 8: "m/8"})
    return frame


@cache
def curves() -> "pd.DataFrame":
    """Accuracies of the retrained model after deletions by each law."""
    return _read("curves.csv")


@dataclass(frozen=True)
class Stream:
    """One of their streams under a threshold: so many rows a batch, where they retrained (rows gone
    by then), c, and the accuracy of the unlearned model at the end."""

    dataset: str
    law: str
    fraction: float
    batch: int
    threshold: float
    slope: float
    rows: int
    positions: tuple[int, ...]
    final: float


@cache
def streams() -> tuple[Stream, ...]:
    """Their streams that go by a threshold; to retrain always or never needs no comparison."""
    text = (files("unfit.experiments.published") / "streams.csv").read_text(encoding="utf-8")
    return tuple(
        Stream(
            dataset=row["dataset"],
            law=row["law"],
            fraction=float(row["remove_ratio"]),
            batch=int(row["deletion_batch_size"]),
            threshold=float(row["threshold"]),
            slope=float(row["slope_c"]),
            rows=int(row["rows"]),
            positions=tuple(map(int, row["positions"].split())),
            final=float(row["final_test"]),
        )
        for row in csv.DictReader(text.splitlines())
        if row["policy"] == "disparity"
    )


def _read(name: str) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv((files("unfit.experiments.published") / name).open(encoding="utf-8"))
