"""Doing runs: a group of them shares its trained models, and yields each row as it is finished.

Runs of a group have the data set in common, and what `group_of` says. Timings and streams are
done alone on the machine (`alone`); everything else beside other groups.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy_disparity, accuracy_error, sape
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.laboratory import Deletion, Laboratory
from unfit.experiments.positions import positions
from unfit.experiments.randomness import generator
from unfit.experiments.run import NONE, Run
from unfit.experiments.streaming import streams
from unfit.experiments.timing import timings
from unfit.methods import State

Rows = Iterator[tuple[Run, dict[str, Any]]]
ALONE = ("timing", "stream")


def group_of(run: Run) -> tuple[object, ...]:
    """Runs with the same answer share what is expensive."""
    if run.kind == "retrain":
        return (0, run.seed, run.dataset, run.kind, run.law, run.fraction)
    if run.kind in ("train", "unlearn"):
        shared = CONTENDERS[run.method].method.noise == "end"
        return (1, run.seed, run.dataset, run.method, -1.0 if shared else run.sigma)
    if run.kind == "positions":
        return (1, run.seed, run.dataset, run.kind, run.law)
    if run.kind == "timing":
        return (2, run.dataset, run.law, run.fraction)
    return (3, run.dataset, run.kind, run.law, run.seed)


def groups(runs: Iterable[Run]) -> list[list[Run]]:
    """In the order in which they are best done: shared models, then seed by seed, then alone."""
    found: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        found[group_of(run)].append(run)
    return [found[name] for name in sorted(found, key=lambda name: tuple(map(str, name)))]


def do(laboratory: Laboratory, runs: Sequence[Run]) -> Rows:
    """The rows of a group."""
    kind = runs[0].kind
    work: Callable[[Laboratory, Sequence[Run]], Rows] = {
        "retrain": retrainings, "timing": timings, "stream": streams, "positions": positions
    }.get(kind, unlearnings)  # fmt: skip
    return work(laboratory, runs)


def retrainings(laboratory: Laboratory, runs: Sequence[Run]) -> Rows:
    for run in runs:
        start = perf_counter()
        deletion = laboratory.deletion(run.law, run.fraction, run.seed)
        weights = laboratory.retrained(deletion)
        yield (
            run,
            {
                "deleted": len(deletion.rows),
                "acc_test_retrained": laboratory.accuracy(weights),
                "acc_deleted_retrained": laboratory.accuracy_deleted(weights, deletion),
                "seconds_spent": perf_counter() - start,
            },
        )


def unlearnings(laboratory: Laboratory, runs: Sequence[Run]) -> Rows:
    """Runs `train` and `unlearn` of one method and seed, and of one sigma if it matters earlier
    than at the end."""
    contender = CONTENDERS[runs[0].method]
    at_end = contender.method.noise == "end"
    sigma, seed = 0.0 if at_end else runs[0].sigma, runs[0].seed
    start = perf_counter()
    state = laboratory.trained_by(contender, sigma, seed)
    for run in runs:
        if run.kind == "train":
            yield run, _trained(laboratory, run, state) | {"seconds_spent": perf_counter() - start}
            start = perf_counter()
    unlearn = [run for run in runs if run.kind == "unlearn"]
    if not unlearn:
        return
    state = laboratory.method(contender, sigma).prepare(state, laboratory.engine)
    cases: dict[tuple[str, float, str, str], list[Run]] = defaultdict(list)
    for run in unlearn:
        cases[run.law, run.fraction, run.tau, run.manner].append(run)
    for (law, fraction, tau, manner), alike in cases.items():
        deletion = laboratory.deletion(law, fraction, seed)
        method = laboratory.method(contender, sigma, tau, len(deletion.rows), manner)
        names = (law, fraction, tau, sigma, seed, *([] if manner == NONE else [manner]))
        rng = generator("unlearn", laboratory.name, contender.name, *names)
        updated = method.unlearn(state, laboratory.engine, deletion.rows, rng)
        for run in alike:
            weights = updated.weights
            initial = state.weights
            if at_end and run.sigma > 0:
                noisy = laboratory.method(contender, run.sigma, tau)
                rng = generator("publish", laboratory.name, run)
                weights = noisy.released(weights, laboratory.without(deletion), rng)
                initial = noisy.released(initial, laboratory.engine, rng)
            yield (
                run,
                _compared(laboratory, run, deletion, initial, weights)
                | {"seconds_spent": perf_counter() - start},
            )
            start = perf_counter()


def _trained(laboratory: Laboratory, run: Run, state: State) -> dict[str, Any]:
    """The effect of sigma on the trained model: against the optimum of the same objective."""
    contender, weights = CONTENDERS[run.method], state.weights
    if contender.method.noise == "end":
        rng = generator("publish", laboratory.name, run)
        weights = laboratory.method(contender, run.sigma).released(weights, laboratory.engine, rng)
    optimum = laboratory.initial(run.seed)
    accuracies = laboratory.accuracy(optimum), laboratory.accuracy(weights)
    return {
        "acc_test_initial": accuracies[0],
        "acc_test_unlearned": accuracies[1],
        "acc_err": accuracy_error(*accuracies),
        "distance": float(np.linalg.norm(weights - optimum)),
    }


def _compared(
    laboratory: Laboratory, run: Run, deletion: Deletion, initial: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """The paper's measures of an updated model."""
    contender = CONTENDERS[run.method]
    optimum = laboratory.retrained(deletion)
    same = laboratory.retrained_by(contender, run.sigma, deletion)
    test = laboratory.accuracy(weights)
    best = laboratory.accuracy(optimum)
    gone = laboratory.accuracy_deleted(weights, deletion)
    gone_same = laboratory.accuracy_deleted(same, deletion)
    first = laboratory.accuracy(initial)
    return {
        "deleted": len(deletion.rows),
        "acc_test_initial": first,
        "acc_test_unlearned": test,
        "acc_deleted_unlearned": gone,
        "acc_test_retrained": best,
        "acc_deleted_retrained": gone_same,
        "acc_err": accuracy_error(best, test),
        "acc_dis": accuracy_disparity(gone_same, gone),
        "acc_err_init": sape(first, test),
        "distance": float(np.linalg.norm(weights - same) / np.linalg.norm(same)),
    }
