"""The pipeline as pure steps: open with a baseline, unlearn and evaluate, facts for the policy.

Rows, randomness and everything else are handed in. May know methods, engines and core.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy, accuracy_disparity, sape
from unfit.core.objective import Rows
from unfit.core.predictions import margins_between_passes, predict, predicted_classes
from unfit.engines.base import Engine
from unfit.lifecycle.policies import THETA
from unfit.lifecycle.policy import Facts
from unfit.methods.base import Method, State, without_traces
from unfit.progress import ProgressCallback

_KEPT = 3  # weights: the old ones, the new ones before noise, and as released
Phase = Callable[[str], AbstractContextManager[None]]  # what is done goes on within it


def untimed(_: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The model the pipeline opened with: rows, test accuracy, and the slope c.

    c = AccDis / AccErr_init at one rehearsal: theta of the rows, all of one class, deleted at once.
    """

    rows: int
    accuracy: float
    slope: float
    theta: float
    rehearsed_acc_dis: float
    rehearsed_acc_err_init: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Baseline":
        return cls(**fields)


class TestScores:
    """Margins of the test rows under the weights that were asked for last, each computed once.

    An erasure asks for those of the new weights several times (accuracy, log-loss, what is shown),
    and for those of the old ones, which the erasure before has asked for.
    """

    __test__ = False  # to pytest: this is no class of tests

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []  # the last one asked for comes last
        self._loss: tuple[np.ndarray, np.ndarray, float] | None = None  # weights, rows, log-loss

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """(n, k) of all rows: to copy the chosen ones would take longer."""
        for place, (known, found) in enumerate(self._kept):
            if known is weights or np.array_equal(known, weights):
                self._kept.append(self._kept.pop(place))
                return found
        found = margins_between_passes(self.rows.X, weights)
        self._kept = [*self._kept[1 - _KEPT :], (weights, found)]
        return found

    def note_log_loss(self, weights: np.ndarray, chosen: np.ndarray, found: float) -> None:
        """That of chosen rows: the next erasure asks for it, as that of the old weights."""
        self._loss = weights, chosen, found

    def noted_log_loss(self, weights: np.ndarray, chosen: np.ndarray) -> float | None:
        """None where it was not noted of these."""
        if self._loss is None:
            return None
        known, rows, found = self._loss
        same = np.array_equal(known, weights) and np.array_equal(rows, chosen)
        return found if same else None

    def drop_others(self, *weights: np.ndarray) -> None:
        """Keep nothing but what was computed with some weights: others knew who has left."""
        stays = [any(np.array_equal(known, w) for w in weights) for known, _ in self._kept]
        self._kept = [kept for kept, stay in zip(self._kept, stays, strict=True) if stay]
        if self._loss is not None and not any(np.array_equal(self._loss[0], w) for w in weights):
            self._loss = None

    def correct(self, weights: np.ndarray) -> np.ndarray:
        """Which rows are predicted right, (n,) bool."""
        return np.asarray(predicted_classes(self.margins(weights)) == self.rows.codes)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A model as the pipeline needs it: with the rows it was trained on and is evaluated on.

    initially_correct: which test rows the baseline's model got right.
    """

    method: Method
    data: Engine
    test: TestScores
    class_names: Sequence[str]
    state: State
    baseline: Baseline
    initially_correct: np.ndarray


@dataclass(frozen=True)
class Step:
    """An updated state and what the policy must know of it.

    unlearned: whether the state has forgotten; it has not if a class lost its last row.
    """

    state: State
    facts: Facts
    unlearned: bool = True


def correct(weights: np.ndarray, test: Rows) -> np.ndarray:
    """Which rows are predicted right, (n,) bool."""
    if len(test) == 0:
        return np.zeros(0, np.bool_)
    return np.asarray(predict(test.X, weights) == test.codes)


def open_pipeline(
    method: Method,
    data: Engine,
    test: Rows,
    class_names: Sequence[str],
    rng: np.random.Generator,
    *,
    theta: float = THETA,
    progress: ProgressCallback | None = None,
    phase: Phase = untimed,
) -> TrainedModel:
    """Train, evaluate, rehearse."""
    with phase("train"):
        state = method.train(data, rng, progress)
    with phase("evaluate"):
        right = correct(state.weights, test)
    with phase("rehearse"):
        ready = method.prepare(state, data)
        baseline = rehearse(method, ready, data, test, right, rng, theta=theta)
    return TrainedModel(
        method=method,
        data=data,
        test=TestScores(test),
        class_names=class_names,
        state=state,
        baseline=baseline,
        initially_correct=right,
    )


def rehearse(
    method: Method,
    state: State,
    data: Engine,
    test: Rows,
    right: np.ndarray,
    rng: np.random.Generator,
    *,
    theta: float = THETA,
    target: int | None = None,
    retrain: Callable[[Engine], np.ndarray] | None = None,
) -> Baseline:
    """Learn c: delete theta of the rows from one class, unlearn and retrain, compare.

    state: prepared, where that pays. target: the class; by default the largest. retrain: weights
    for the rows that remain; by default as the method trains, from the weights at hand where its
    solver can.

    Differences finer than one test row or one deleted row cannot be seen, so both errors are
    taken to be at least that: c is neither infinite nor zero by accident.
    """
    initial = float(right.mean()) if len(right) else 0.0
    codes = data.codes
    remaining = np.flatnonzero(data.remaining)
    if target is None:
        target = int(np.bincount(codes[remaining]).argmax())
    members = remaining[codes[remaining] == target]
    count = min(int(theta * len(remaining)), len(members) - 1)
    if count < 1 or len(right) == 0:
        return Baseline(
            rows=len(remaining),
            accuracy=initial,
            slope=1.0,
            theta=0.0,
            rehearsed_acc_dis=0.0,
            rehearsed_acc_err_init=0.0,
        )
    deleted = np.sort(rng.choice(members, count, replace=False))
    updated = method.unlearn(state, data, deleted, rng)
    without = data.shared()
    without.forget(deleted)
    if retrain is not None:
        retrained = retrain(without)
    elif method.settings.sigma > 0:
        retrained = method.train(without, rng).weights
    else:
        retrained = method.optimum(without, rng, start=state.centre)
    gone = data.take(deleted)
    of_updated = accuracy(predict(gone.X, updated.weights), gone.codes)
    of_retrained = accuracy(predict(gone.X, retrained), gone.codes)
    after = float(correct(updated.weights, test).mean())
    acc_dis = accuracy_disparity(of_retrained, of_updated)
    acc_err = sape(initial, after)
    seen_dis = max(acc_dis, 50.0 / (len(gone) * max(of_retrained, 0.01)))
    seen_err = max(acc_err, 50.0 / (len(right) * max(initial, 0.01)))
    return Baseline(
        rows=len(remaining),
        accuracy=initial,
        slope=seen_dis / seen_err,
        theta=count / len(remaining),
        rehearsed_acc_dis=acc_dis,
        rehearsed_acc_err_init=acc_err,
    )


def step(
    model: TrainedModel,
    deleted: np.ndarray,
    held_out: np.ndarray,
    rng: np.random.Generator,
    phase: Phase = untimed,
) -> Step:
    """Unlearn and evaluate; changes nothing.

    deleted: positions of training rows. held_out: positions of the test rows that are still there.
    A class that loses its last row leaves nothing to unlearn towards: the state stays as it is and
    the facts say so.
    """
    data, state, baseline = model.data, model.state, model.baseline
    names = model.class_names
    left = data.classes_without(deleted, len(names))
    emptied = tuple(name for name, here in zip(names, left, strict=True) if not here)
    if len(deleted) and not emptied:
        with phase("unlearn"):
            state = model.method.unlearn(state, data, deleted, rng)
            state = without_traces(state, model.method, data.emptied_columns(deleted))
    initial = float(model.initially_correct[held_out].mean())
    now = float(model.test.correct(state.weights)[held_out].mean())
    error = sape(initial, now)
    facts = Facts(
        rows=baseline.rows,
        deleted=baseline.rows - data.n_remaining + len(deleted),
        initial_accuracy=initial,
        accuracy=now,
        acc_err_init=error,
        slope=baseline.slope,
        estimate=baseline.slope * error,
        emptied=emptied,
    )
    return Step(state, facts, unlearned=not emptied)
