"""How near our figures are to the published ones: bounds, and what explains the farther ones."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from unfit.experiments.findings import Findings

SETS = ("mnist-b", "mnist", "cifar2", "covtype")
MEAN = {"test": 0.01, "deleted": 0.02}
CASE = ("law", "method", "tau", "model")
SINGLE = {"test": 0.03, "deleted": 0.06}


@dataclass(frozen=True)
class Agreement:
    """Differences of one kind against their bounds."""

    what: str
    part: str
    count: int
    mean: float
    largest: float

    @property
    def within(self) -> bool:
        return self.mean <= MEAN[self.part] and self.largest <= SINGLE[self.part]

    @property
    def sentence(self) -> str:
        rows = "test rows" if self.part == "test" else "deleted rows"
        return (
            f"{self.what}, {rows}: {self.count} values, mean absolute difference {self.mean:.4f} "
            f"(bound {MEAN[self.part]:g}), largest {self.largest:.4f} (bound {SINGLE[self.part]:g})"
        )


def judged(findings: Findings) -> dict[str, pd.DataFrame]:
    """The published values that are held to the bounds."""
    accuracy, curves = findings.beside_accuracy, findings.beside_curves
    found = {}
    if len(accuracy):
        found["Updated and retrained models, sigma 0.01"] = accuracy[
            accuracy["dataset"].isin(SETS) & (accuracy["sigma"] <= 0.01)
        ]
    if len(curves):
        found["Deletion curves up to 0.45"] = curves[
            curves["dataset"].isin(SETS) & (curves["fraction"] <= 0.45)
        ]
    return {what: frame for what, frame in found.items() if len(frame)}


def agreements(findings: Findings) -> list[Agreement]:
    found = []
    for what, frame in judged(findings).items():
        for part in ("test", "deleted"):
            off = frame[f"{part}_difference"].abs()
            found.append(Agreement(what, part, len(off), float(off.mean()), float(off.max())))
    return found


def farther(findings: Findings) -> pd.DataFrame:
    """Values over half of a single bound, each with an explanation."""
    rows = []
    sizes = {s.name: (s.n_test, s.n) for s in findings.subjects}
    for what, frame in judged(findings).items():
        for part in ("test", "deleted"):
            over = frame[frame[f"{part}_difference"].abs() > SINGLE[part] / 2]
            for row in over.to_dict("records"):
                n = sizes[row["dataset"]][0]
                if part == "deleted":
                    n = max(1, int(row["fraction"] * sizes[row["dataset"]][1] + 1e-9))
                rows.append({
                    "what": what, "part": part, "dataset": row["dataset"],
                    "case": ", ".join(str(row[c]) for c in CASE if c in row),
                    "fraction": row["fraction"], "ours": row[f"{part}_ours"],
                    "published": row[f"{part}_published"],
                    "difference": row[f"{part}_difference"],
                    "why": explanation(row, part, n),
                })  # fmt: skip
    return pd.DataFrame(rows)


def explanation(row: dict[str, object], part: str, n: int) -> str:
    """What can make a difference of this size: few rows, or a steep curve."""
    ours, difference = float(str(row[f"{part}_ours"])), abs(float(str(row[f"{part}_difference"])))
    error = float(np.sqrt(max(ours * (1 - ours), 1 / n) / n))
    if difference <= 2.5 * np.sqrt(2) * error:
        return f"sampling: {n:,} rows, a standard error of {error:.3f} in each of the two values"
    return (
        f"more than the sampling error of {n:,} rows ({error:.3f}): the order of the mini-batches "
        "decides here, where the curve is steep"
    )
