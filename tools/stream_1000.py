"""A thousand requests of one row each: passes, how often the point moves, and what is left.

    UNFIT_DATA=... python tools/stream_1000.py [--dataset mnist-b] [--requests 1000]
                                               [--png docs/stream-1000.png] [--json FILE]

`unlearn` of FISHER through the estimator, one random row after the other. After each the mean
gradient of the rows that remain is measured, off the clock; seconds are those of `unlearn` alone,
new sums included. The point is where sums are known (unfit.methods.stream): it moves when new ones
are made.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure

import unfit
from unfit.data import catalog
from unfit.experiments.figures.look import INK, SOFT, look
from unfit.methods.onestep import STREAM_TOLERANCE

RESIDUAL, MOVED = "#0072B2", "#D55E00"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One request. passes: over the rows, for a measured residual or for new sums, so far. moved:
    whether new sums were made for it. residual: the mean gradient after it."""

    seconds: float
    passes: float
    moved: bool
    residual: float


def answered(clf: unfit.LogisticRegression, rows: Sequence[int]) -> list[Answer]:
    """What each of the requests took and left."""
    data, found, passes = clf._data, [], 0.0
    for row in rows:
        before, read = _point(clf), data.rows_read
        start = perf_counter()
        clf.unlearn([row])
        seconds = perf_counter() - start
        passes += (data.rows_read - read) / data.n_remaining
        found.append(
            Answer(
                seconds=seconds,
                passes=passes,
                moved=_point(clf) is not before,
                residual=mean_gradient(clf),
            )
        )
    return found


def _point(clf: unfit.LogisticRegression) -> np.ndarray | None:
    """The weights at which sums are known."""
    state = clf._state
    known = state.statistics if state.stream is None else state.stream.statistics
    return None if known is None else known.weights


def mean_gradient(clf: unfit.LogisticRegression) -> float:
    data, W = clf._data, clf._state.centre
    total = data.gradient_sum(W) + clf.l2 * data.n_remaining * W
    return float(np.linalg.norm(total)) / data.n_remaining


def drawn(found: Sequence[Answer], allowed: float, title: str) -> Figure:
    """Residuals with the tolerance and where the point moved; below, passes so far."""
    at = np.arange(1, len(found) + 1)
    with look():
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.semilogy(at, [one.residual for one in found], ".", color=RESIDUAL, markersize=2.5)
        upper.axhline(allowed, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        upper.annotate(
            "tolerance", (1.0, allowed), (-4, 4), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", color=INK,
        )  # fmt: skip
        upper.set_ylabel("mean gradient\nafter each request")
        upper.set_title(title, loc="left")
        lower.plot(at, [one.passes for one in found], color=SOFT)
        lower.set_ylabel("passes over the rows\nso far")
        lower.set_xlabel("requests of one row")
        moves = [number for number, one in zip(at, found, strict=True) if one.moved]
        for axis in (upper, lower):
            for number in moves:
                axis.axvline(number, color=MOVED, linewidth=0.9, alpha=0.8)
        lower.annotate(
            f"orange: new sums, {len(moves)} times", (0.0, 1.0), (4, -4),
            xycoords="axes fraction", textcoords="offset points", va="top", color=MOVED,
        )  # fmt: skip
    return figure


def summary(found: Sequence[Answer], allowed: float) -> dict[str, float]:
    left, taken = [one.residual for one in found], [one.seconds for one in found]
    return {
        "requests": len(found),
        "moved": sum(one.moved for one in found),
        "passes": round(found[-1].passes, 1),
        "seconds": sum(taken),
        "median_ms": 1e3 * float(np.median(taken)),
        "median_residual": float(np.median(left)),
        "largest_residual": max(left),
        "within_tolerance": sum(one <= allowed for one in left),
        "tolerance": allowed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dataset", default="mnist-b")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--png", type=Path, default=Path("docs/stream-1000.png"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    data = catalog.load(given.dataset)
    clf = unfit.LogisticRegression("fisher", fit_intercept=data.entry.intercept, random_state=0)
    clf.fit(np.array(data.X), np.array(data.y))
    order = np.random.default_rng(7).permutation(data.n)[: given.requests]
    allowed = STREAM_TOLERANCE * clf.tol
    found = answered(clf, order.tolist())
    for name, value in summary(found, allowed).items():
        print(f"{name}: {value:g}")
    title = f"{data.entry.title}: {len(found):,} rows forgotten one at a time"
    drawn(found, allowed, title).savefig(given.png)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found]) + "\n")


if __name__ == "__main__":
    main()
