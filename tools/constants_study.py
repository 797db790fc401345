"""Constants that forget, on real data: are they a fit on what remains, how often do they change?

    UNFIT_DATA=DIR python tools/constants_study.py [--quick] [--processes N] [--out FILE]

1. Random sequences of erasures in workspaces of Adult and Diabetes: after every erasure the card's
   constants are compared with those of a fit written here, on the raw rows that remain.
2. Retrainings that constants make due: people leave one at a time, in random orders.
3. Accuracy with rounded constants against unrounded ones, on four data sets.

Prints tables in Markdown.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

CLOSE = 1e-9  # nearer to a boundary than this, relatively, fractions decide


@dataclass(frozen=True)
class Number:
    """A rounded mean and deviation."""

    mean: float
    deviation: float


def reference_number(values: np.ndarray, min_rows: int) -> Number:
    """By the definition: floating point where that is safe, fractions where it is close."""
    known = values[~np.isnan(values)].astype(np.float64)
    n = len(known)
    if n < max(1, min_rows):
        return Number(0.0, 1.0)
    mean = math.fsum(known) / n
    variance = math.fsum((known - mean) ** 2) / n
    if np.all(known == known[0]):
        deviation = 1.0
    else:
        power = math.log2(variance) / 2
        if abs(power - math.floor(power) - 0.5) < CLOSE or variance < CLOSE * mean**2:
            variance = _exact_variance(known)
            deviation = 1.0
            while variance >= 2 * Fraction(deviation) ** 2:
                deviation *= 2
            while variance < Fraction(deviation) ** 2 / 2:
                deviation /= 2
        else:
            deviation = 2.0 ** math.floor(power + 0.5)
    step = deviation / 8
    steps = mean / step
    if abs(steps - math.floor(steps) - 0.5) < CLOSE * (1 + abs(steps)):
        exact = sum(map(Fraction, known.tolist())) / n / Fraction(step)
        return Number(math.floor(exact + Fraction(1, 2)) * step, deviation)
    return Number(math.floor(steps + 0.5) * step, deviation)


def _exact_variance(known: np.ndarray) -> Fraction:
    each = [Fraction(v) for v in known.tolist()]
    mean = sum(each) / len(each)
    return sum((v - mean) ** 2 for v in each) / len(each)


def reference_categories(
    texts: Sequence[str], min_rows: int, most: int
) -> tuple[set[str], set[str]]:
    """Names with a column, and names with enough rows and none."""
    enough = {t: n for t, n in Counter(texts).items() if n >= max(1, min_rows)}

    def rung(n: int) -> float:
        """The highest min_rows 2^i (1 + j/4) that is not above n."""
        rungs = [min_rows * 2.0**i * (1 + j / 4) for i in range(60) for j in range(4)]
        return max(r for r in rungs if r <= n)

    ranked = sorted(enough, key=lambda t: (-rung(enough[t]), t))
    return set(ranked[:most]), set(ranked[most:])


def check_card(card: dict, rows: dict[str, Sequence], columns: dict, min_rows: int) -> list[str]:
    """Columns of an exported card that are not what a fit on these training rows gives.

    rows: by column, float32 values or texts ('' for missing). columns: of unfit.toml.
    """
    wrong = []
    parts = []
    for one in card["encoding"]["columns"]:
        name = one["column"]["name"]
        asked = columns[name]
        if asked["kind"] == "category":
            kept, others = reference_categories(rows[name], min_rows, asked["max_categories"])
            named = [t for t in one["categories"] if t is not None]
            right = set(named) == kept and set(one["others"]) == others
            hot = dict.fromkeys(named, 1)
            parts.append(np.array([hot.get(t, 0) for t in rows[name]], np.float64))
        else:
            values = np.asarray(rows[name], np.float32)
            number = reference_number(values, min_rows)
            if asked["kind"] == "boolean":
                right = (one["shift"], one["scale"], one["fill"]) == (0.0, 1.0, number.mean)
            elif asked.get("scale") != "standard" or "mean" in asked:
                right = True  # declared
            else:
                got = one["shift"], one["scale"], one["fill"]
                right = got == (number.mean, number.deviation, number.mean)
            filled = np.where(np.isnan(values), np.float32(one["fill"]), values)
            scaled = ((filled - one["shift"]) / one["scale"]).astype(np.float32)
            parts.append(scaled.astype(np.float64) ** 2)
        if not right:
            wrong.append(name)
    if card["encoding"]["norm_fitted"]:
        longest = math.sqrt(np.sum(parts, axis=0).max())
        if not card["encoding"]["norm"] / 2 < longest <= card["encoding"]["norm"]:
            wrong.append("norm")
    return wrong


def training_rows(dataset: object, live: np.ndarray) -> dict[str, np.ndarray]:
    """Raw training rows that remain, by column, from the files of a generation."""
    at = np.flatnonzero(live[: dataset.n_train])  # type: ignore[attr-defined]
    rows: dict[str, np.ndarray] = {}
    a = b = 0
    for name, kind in dataset.columns:  # type: ignore[attr-defined]
        if kind == "category":
            texts = np.array([t or "" for t in dataset.vocabularies[b]], object)  # type: ignore[attr-defined]
            rows[name] = texts[dataset["codes"][at, b]]  # type: ignore[index]
            b += 1
        else:
            rows[name] = dataset["values"][at, a]  # type: ignore[index]
            a += 1
    return rows
