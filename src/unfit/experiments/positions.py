"""The published streams: batch after batch of one law under a threshold, and where it retrains.

The rule is the paper's: c from a rehearsal, estimate = c x AccErr_init, over the threshold means
retrain. What becomes of the retrained model differs:

published  its accuracy is the new initial one; unlearning goes on from the model that was never
           retrained. (All of the published streams of a law end with the same unlearned model,
           whatever their threshold and wherever they retrained.)
product    it is employed, and unlearning goes on from it, as a workspace does.

A stream yields one row: how often it retrained, and after how many rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import sape
from unfit.core.objective import Rows
from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.deletions import count_of
from unfit.experiments.laboratory import Deletion, Laboratory
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.lifecycle.pipeline import hits, rehearse
from unfit.methods import Method, State

BATCHES = 20  # of a data set that has no published stream


@dataclass(frozen=True)
class Course:
    """How much a stream deletes, and how many rows at a time."""

    fraction: float
    batch: int


def course_of(laboratory: Laboratory) -> Course | None:
    """The published course of a data set, or twenty batches up to its large volume."""
    name = laboratory.name
    for stream in published.streams():
        if stream.dataset == name:
            return Course(stream.fraction, stream.batch)
    volumes = laboratory.data.entry.volumes
    if volumes is None:
        return None
    return Course(volumes[-1], max(1, count_of(volumes[-1], laboratory.data.n) // BATCHES))


def counts_of(course: Course, n: int) -> list[int]:
    """Rows gone after every batch; the last one may be short."""
    rows = count_of(course.fraction, n)
    return [*range(course.batch, rows, course.batch), rows]


def positions(laboratory: Laboratory, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one law and seed: policies x manners."""
    start = perf_counter()
    law, seed = runs[0].law, runs[0].seed
    course = course_of(laboratory)
    assert course is not None
    counts = counts_of(course, laboratory.data.n)
    order = laboratory.deletion(law, counts[-1] / laboratory.data.n, seed).rows
    walk = _Walk(laboratory, CONTENDERS[runs[0].method].name, law, seed, order)
    for run in runs:
        threshold = float(run.policy.rstrip("%"))
        if run.manner == "published":
            where = walk.reset_accuracy_only(counts, threshold)
        else:
            where = walk.restart(counts, threshold)
        yield (
            run,
            {
                "deleted": counts[-1],
                "batches": len(counts),
                "retrainings": len(where),
                "positions": " ".join(map(str, where)),
                "slope": walk.slope,
                "acc_test_initial": walk.initial,
                "acc_test_unlearned": walk.final,
                "seconds_spent": perf_counter() - start,
            },
        )
        start = perf_counter()


class _Walk:
    """One stream: the rule's c, and the models after each batch that was never retrained."""

    def __init__(
        self, laboratory: Laboratory, method: str, law: str, seed: int, order: np.ndarray
    ) -> None:
        self._laboratory, self._law, self._seed, self._order = laboratory, law, seed, order
        self._method: Method = laboratory.method(CONTENDERS[method], 0.0)
        self._start = State(method, laboratory.initial(seed), laboratory.data.n)
        self.initial = laboratory.accuracy(self._start.weights)
        self.final = self.initial
        self.slope = self._rehearsed()
        self._never: list[float] = []

    def _rehearsed(self) -> float:
        laboratory = self._laboratory
        data, entry = laboratory.data, laboratory.data.entry
        test = Rows(data.X_test, np.asarray(data.y_test), entry.intercept)
        rng = generator("rehearsal", laboratory.name, self._seed)
        right = hits(self._start.weights, test)
        baseline = rehearse(
            self._method, self._start, laboratory.engine, test, right, rng, entry.theta,
            entry.target,
        )  # fmt: skip
        return baseline.slope

    def reset_accuracy_only(self, counts: Sequence[int], threshold: float) -> list[int]:
        """As published: a retraining changes the accuracy that the next ones are held against."""
        if not self._never:
            self._never = list(self._accuracies(counts, None))
        where, reference = [], self.initial
        for count, accuracy in zip(counts, self._never, strict=True):
            if self.slope * sape(reference, accuracy) > threshold:
                where.append(count)
                reference = self._laboratory.accuracy(self._retrained(count))
        self.final = self._never[-1]
        return where

    def restart(self, counts: Sequence[int], threshold: float) -> list[int]:
        """As the product does it: unlearning goes on from the retrained model."""
        where: list[int] = []
        for _ in self._accuracies(counts, threshold, where):
            pass
        return where

    def _accuracies(
        self, counts: Sequence[int], threshold: float | None, where: list[int] | None = None
    ) -> Iterator[float]:
        laboratory, data = self._laboratory, self._laboratory.engine.shared()
        state, gone, reference = self._start, 0, self.initial
        rng = generator("positions", laboratory.name, self._law, self._seed)
        for count in counts:
            batch, gone = self._order[gone:count], count
            state = self._method.unlearn(state, data, batch, rng)
            data.forget(batch)
            accuracy = laboratory.accuracy(state.weights)
            if threshold is not None and self.slope * sape(reference, accuracy) > threshold:
                weights = self._retrained(count)
                state = State(state.method, weights, data.n_remaining)
                accuracy = reference = laboratory.accuracy(weights)
                assert where is not None
                where.append(count)
            self.final = accuracy
            yield accuracy

    def _retrained(self, count: int) -> np.ndarray:
        fraction = count / self._laboratory.data.n
        deletion = Deletion(self._law, fraction, self._seed, self._order[:count])
        return self._laboratory.retrained(deletion)
