"""What the published streams cost: always retraining against retraining by a threshold.

    UNFIT_DATA=... python tools/stream_seconds.py [--datasets a,b] [--laws a,b] [--method stream]
                                                  [--every 5] [--times 3] [--without-refit]
                                                  [--json FILE]

Streams, batches and thresholds are those of the paper's authors; everything that a policy does is
counted: rehearsing, unlearning, evaluating, retraining. By default batches are answered as `stream`
in unfit.experiments.unlearners, to no more of a gradient than SGD leaves; the largest one after any
batch stands beside SGD's. `always` retrains by SGD at every batch; of every five batches the one in
the middle is retrained and timed, and its seconds stand for all of them. Everything is done several
times, rehearsals, streams, retrainings and refits alike, and the fastest counts. `refit` is
scikit-learn's lbfgs from the weights at hand, run at every batch unless it is left out: once with a
tolerance of 1e-6, and once, as `loose`, with the residual that `stream` answers to, which lbfgs
asks of the largest component of the mean gradient. What each leaves at most stands behind it. The
ratios that are published stand beside ours.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unfit.data import catalog
from unfit.experiments.machine import machine
from unfit.experiments.positions import counts_of, course_of
from unfit.experiments.streaming import (
    Rehearsed,
    Retrained,
    open_stream,
    refits,
    retrained_by_sgd,
    under_policy,
)
from unfit.experiments.unlearners import STREAM, mean_gradient, unlearner_of
from unfit.experiments.workbench import Workbench

DATASETS = ("mnist-b", "cifar2", "covtype", "mnist")
LAWS = ("targeted-informed", "targeted-random")
THRESHOLDS = ("0.5%", "2%", "5%")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A stream under one threshold: seconds in all, and how often dearer the alternatives are.

    loose: a refit to the tolerance of the method. residual, refit_residual, loose_residual: the
    largest mean gradient after any batch; sgd_residual: that of SGD's first model.
    """

    dataset: str
    law: str
    threshold: str
    batches: int
    retrainings: int
    seconds: float
    always: float
    refit: float
    over_always: float
    over_refit: float
    residual: float
    sgd_residual: float
    refit_residual: float
    loose: float
    over_loose: float
    loose_residual: float
    published: float | None


def published_ratios() -> dict[tuple[str, str, str], float]:
    """Seconds of always retraining over those of a threshold, as the authors measured them."""
    text = (files("unfit.experiments.published") / "streams.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    always = {
        (row["dataset"], row["law"]): float(row["seconds"])
        for row in rows
        if row["policy"] == "always"
    }
    return {
        (row["dataset"], row["law"], f"{float(row['threshold']):g}%"): always[
            row["dataset"], row["law"]
        ]
        / float(row["seconds"])
        for row in rows
        if row["policy"] == "disparity"
    }


def retrainings(
    workbench: Workbench, law: str, counts: Sequence[int], every: int, times: int = 1
) -> list[Retrained]:
    """After each batch; of every so many the one in the middle is run, and the others are taken to
    be like it: rows become fewer, and so do seconds."""
    deletions = [workbench.deletion(law, count / workbench.data.n, 0) for count in counts]
    found: list[Retrained] = []
    for start in range(0, len(deletions), every):
        alike = deletions[start : start + every]
        again = (retrained_by_sgd(workbench, alike[len(alike) // 2]) for _ in range(times))
        middle = min(again, key=lambda one: one.seconds)
        found += [replace(middle, deletion=deletion) for deletion in alike]
    return found


def costs(
    workbench: Workbench,
    method: str,
    law: str,
    every: int,
    *,
    times: int = 1,
    with_refit: bool = True,
) -> Iterator[Cost]:
    course, unlearner = course_of(workbench), unlearner_of(workbench, method)
    assert course is not None
    retrained_by_sgd(workbench, workbench.deletion(law, 0.01, 0))  # compiles, off the clock
    rehearsals = (open_stream(workbench, unlearner, law, 0) for _ in range(times))
    opened: Rehearsed = min(rehearsals, key=lambda one: one.seconds)
    after = retrainings(workbench, law, counts_of(course, workbench.data.n), every, times)
    always = sum(one.seconds for one in after)
    refit, refit_residual = loose, loose_residual = math.nan, math.nan
    if with_refit:
        refit, refit_residual = _fastest(lambda: refits(workbench, opened, after), times)
        loose, loose_residual = _fastest(
            lambda: refits(workbench, opened, after, unlearner.tol), times
        )
    theirs = published_ratios()
    for threshold in THRESHOLDS:
        again = (
            list(under_policy(workbench, unlearner, opened, threshold, after)) for _ in range(times)
        )
        rows = min(again, key=_seconds_of)
        seconds = _seconds_of(rows)
        yield Cost(
            dataset=workbench.data.entry.title,
            law=law,
            threshold=threshold,
            batches=len(after),
            retrainings=sum(bool(row["retrained"]) for row in rows),
            seconds=seconds,
            always=always,
            refit=refit,
            over_always=always / seconds,
            over_refit=refit / seconds,
            residual=max(float(row["residual"]) for row in rows),
            sgd_residual=mean_gradient(workbench.engine, opened.model.state.weights),
            refit_residual=refit_residual,
            loose=loose,
            over_loose=loose / seconds,
            loose_residual=loose_residual,
            published=theirs.get((workbench.name, law, threshold)),
        )


def _seconds_of(rows: Sequence[dict[str, Any]]) -> float:
    return float(rows[-1]["seconds_total"])


def _fastest(stream: Callable[[], Iterable[dict[str, Any]]], times: int) -> tuple[float, float]:
    """Seconds of the fastest of several streams, and the largest mean gradient after any batch."""
    found = min((list(stream()) for _ in range(times)), key=_seconds_of)
    return _seconds_of(found), max(float(row["residual"]) for row in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--method", default=STREAM)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--without-refit", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in machine().items()))
    print(
        "| data set | law | threshold | retrained | seconds | always (SGD) | ratio | published "
        "| refit | ratio | leaves | loose | ratio | leaves | residual | of SGD |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    found: list[Cost] = []
    with TemporaryDirectory() as models:
        for name in given.datasets.split(","):
            workbench = Workbench(catalog.load(name), Path(models))
            for law in given.laws.split(","):
                found_here = costs(
                    workbench,
                    given.method,
                    law,
                    given.every,
                    times=given.times,
                    with_refit=not given.without_refit,
                )
                for cost in found_here:
                    found.append(cost)
                    print(_line(cost), flush=True)
    if given.json:
        given.json.write_text(json.dumps([asdict(cost) for cost in found], indent=1) + "\n")


def _line(cost: Cost) -> str:
    published = "-" if cost.published is None else f"{cost.published:.3g}x"
    return (
        f"| {cost.dataset} | {cost.law} | {cost.threshold} | {cost.retrainings} of {cost.batches} "
        f"| {cost.seconds:.3g} | {cost.always:.3g} | {cost.over_always:.3g}x | {published} "
        f"| {cost.refit:.3g} | {cost.over_refit:.3g}x | {cost.refit_residual:.1e} "
        f"| {cost.loose:.3g} | {cost.over_loose:.3g}x | {cost.loose_residual:.1e} "
        f"| {cost.residual:.1e} | {cost.sgd_residual:.1e} |"
    )


if __name__ == "__main__":
    main()
