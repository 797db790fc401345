"""The published streams: batch after batch of one law under a threshold, and where they retrain.

The rule is the paper's: c comes from a rehearsal, the estimate is c x AccErr_init, and an estimate
over the threshold means a retraining. It is followed in three manners:

published  with the published c. A retrained model's accuracy is the new initial one, and unlearning
           goes on from the model that was never retrained. (All of the published streams of a law
           end with the same unlearned model, whatever their threshold and wherever they retrained.)
rehearsed  the same, with c from a rehearsal of our own.
product    with our own c; the retrained model becomes active, and unlearning goes on from it, as a
           workspace does.

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
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.experiments.workbench import Deletion, Workbench
from unfit.lifecycle.pipeline import correct, rehearse
from unfit.methods import Method, State

BATCHES = 20  # of a data set that has no published stream


@dataclass(frozen=True)
class Course:
    """How much a stream deletes, and how many rows at a time."""

    fraction: float
    batch: int


def course_of(workbench: Workbench) -> Course | None:
    """The published course of a data set, or twenty batches up to its large volume."""
    name = workbench.name
    for stream in published.streams():
        if stream.dataset == name:
            return Course(stream.fraction, stream.batch)
    volumes = workbench.data.entry.volumes
    if volumes is None:
        return None
    return Course(volumes[-1], max(1, count_of(volumes[-1], workbench.data.n) // BATCHES))


def counts_of(course: Course, n: int) -> list[int]:
    """Rows gone after every batch; the last one may be short."""
    rows = count_of(course.fraction, n)
    return [*range(course.batch, rows, course.batch), rows]


def positions(workbench: Workbench, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one law and seed: policies x manners."""
    start = perf_counter()
    law, seed = runs[0].law, runs[0].seed
    course = course_of(workbench)
    assert course is not None
    counts = counts_of(course, workbench.data.n)
    order = workbench.deletion(law, counts[-1] / workbench.data.n, seed).rows
    walk = _Walk(workbench, CONTENDERS[runs[0].method].name, law, seed, order)
    theirs = {stream.slope for stream in published.streams() if stream.dataset == workbench.name}
    for run in runs:
        threshold = float(run.policy.rstrip("%"))
        slope = next(iter(theirs), walk.slope) if run.manner == "published" else walk.slope
        if run.manner == "product":
            where, final = walk.restart(counts, slope, threshold)
        else:
            where, final = walk.reset_accuracy_only(counts, slope, threshold)
        yield (
            run,
            {
                "deleted": counts[-1],
                "batches": len(counts),
                "retrainings": len(where),
                "positions": " ".join(map(str, where)),
                "slope": slope,
                "acc_test_initial": walk.initial,
                "acc_test_unlearned": final,
                "seconds_spent": perf_counter() - start,
            },
        )
        start = perf_counter()


class _Walk:
    """One stream: the rule's c, and the models after each batch that was never retrained."""

    def __init__(
        self, workbench: Workbench, method: str, law: str, seed: int, order: np.ndarray
    ) -> None:
        self._workbench, self._law, self._seed, self._order = workbench, law, seed, order
        self._method: Method = workbench.method(CONTENDERS[method], 0.0)
        self._start = State(method, workbench.initial(seed), workbench.data.n)
        self.initial = workbench.accuracy(self._start.weights)
        self.slope = self._rehearsed()
        self._never: list[np.ndarray] = []

    def _rehearsed(self) -> float:
        workbench = self._workbench
        data, entry = workbench.data, workbench.data.entry
        test = Rows(data.X_test, np.asarray(data.y_test), entry.intercept)
        rng = generator("rehearsal", workbench.name, self._seed)
        right = correct(self._start.weights, test)
        baseline = rehearse(
            self._method,
            self._method.prepare(self._start, workbench.engine),
            workbench.engine,
            test,
            right,
            rng,
            theta=entry.theta,
            target=entry.target,
        )
        return baseline.slope

    def reset_accuracy_only(
        self, counts: Sequence[int], slope: float, threshold: float
    ) -> tuple[list[int], float]:
        """As published: a retraining changes the accuracy that the next ones are held against.

        Where it retrained, and the accuracy of the unlearned model at the end.
        """
        where, reference, accuracy = [], self.initial, self.initial
        for count, weights in zip(counts, self._chain(counts), strict=True):
            accuracy = self._workbench.accuracy(weights)
            if slope * sape(reference, accuracy) > threshold:
                where.append(count)
                reference = self._workbench.accuracy(self._retrained(count))
        return where, accuracy

    def restart(
        self, counts: Sequence[int], slope: float, threshold: float
    ) -> tuple[list[int], float]:
        """As the product does it: unlearning goes on from the retrained model."""
        never = self._chain(counts)
        where: list[int] = []
        reference, accuracy = self.initial, self.initial
        state, data = self._start, self._workbench.engine.shared()
        for at, count in enumerate(counts):
            batch = self._order[counts[at - 1] if at else 0 : count]
            if where:
                state = self._method.unlearn(state, data, batch, self._rng())
            else:  # nothing was retrained yet: the same models
                state = State(state.method, never[at], data.n_remaining - len(batch))
            data.forget(batch)
            accuracy = self._workbench.accuracy(state.weights)
            if slope * sape(reference, accuracy) > threshold:
                where.append(count)
                state = State(state.method, self._retrained(count), data.n_remaining)
                accuracy = reference = self._workbench.accuracy(state.weights)
        return where, accuracy

    def _chain(self, counts: Sequence[int]) -> list[np.ndarray]:
        """Weights after every batch, never retrained; made once."""
        if not self._never:
            state, data, gone = self._start, self._workbench.engine.shared(), 0
            for count in counts:
                batch, gone = self._order[gone:count], count
                state = self._method.unlearn(state, data, batch, self._rng())
                data.forget(batch)
                self._never.append(state.weights)
        return self._never

    def _rng(self) -> np.random.Generator:
        """For unlearning without noise, which draws nothing."""
        return generator("positions", self._workbench.name, self._law, self._seed)

    def _retrained(self, count: int) -> np.ndarray:
        fraction = count / self._workbench.data.n
        deletion = Deletion(self._law, fraction, self._seed, self._order[:count])
        return self._workbench.retrained(deletion)
