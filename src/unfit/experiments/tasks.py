"""The work of a run: a group of runs shares its trained models and yields each row as it finishes.

The runs of a group have the data set in common, and whatever `group_of` returns. Timings and
streams (`ALONE`) have the machine to themselves; everything else runs beside other groups.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy_disparity, accuracy_error, sape
from unfit.experiments.beyond import beyond
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.positions import positions
from unfit.experiments.randomness import generator
from unfit.experiments.run import NONE, Run
from unfit.experiments.streaming import streams
from unfit.experiments.timing import timings
from unfit.experiments.workbench import Deletion, Workbench
from unfit.methods import State

Rows = Iterator[tuple[Run, dict[str, Any]]]
ALONE = ("timing", "stream", "beyond")


def group_of(run: Run) -> tuple[object, ...]:
    """The key of a run's group; runs of one group share what is expensive to train."""
    if run.kind == "retrain":
        return (0, run.seed, run.dataset, run.kind, run.law, run.fraction)
    if run.kind in ("train", "unlearn"):
        shared = CONTENDERS[run.method].method.noise == "end"
        return (1, run.seed, run.dataset, run.method, -1.0 if shared else run.sigma)
    if run.kind == "positions":
        return (1, run.seed, run.dataset, run.kind, run.law)
    if run.kind == "beyond":
        return (4, run.dataset, run.kind, run.law, run.fraction, run.seed)
    if run.kind == "timing":
        return (2, run.dataset, run.law, run.fraction)
    return (3, run.dataset, run.kind, run.law, run.seed)


def groups(runs: Iterable[Run]) -> list[list[Run]]:
    """The groups, in the best order: shared models first, then seed by seed, then `ALONE`."""
    found: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        found[group_of(run)].append(run)
    return [found[name] for name in sorted(found, key=lambda name: tuple(map(str, name)))]


def run_group(workbench: Workbench, runs: Sequence[Run]) -> Rows:
    """Do the runs of a group; each is yielded with its measures when it is finished."""
    return TASKS[runs[0].kind](workbench, runs)


def retrainings(workbench: Workbench, runs: Sequence[Run]) -> Rows:
    for run in runs:
        start = perf_counter()
        deletion = workbench.deletion(run.law, run.fraction, run.seed)
        weights = workbench.retrained(deletion)
        yield (
            run,
            {
                "deleted": len(deletion.rows),
                "acc_test_retrained": workbench.accuracy(weights),
                "acc_deleted_retrained": workbench.accuracy_deleted(weights, deletion),
                "seconds_spent": perf_counter() - start,
            },
        )


def unlearnings(workbench: Workbench, runs: Sequence[Run]) -> Rows:
    """Runs `train` and `unlearn` of one method and seed, and of one sigma unless the method adds
    its noise at the end."""
    contender = CONTENDERS[runs[0].method]
    at_end = contender.method.noise == "end"
    sigma, seed = 0.0 if at_end else runs[0].sigma, runs[0].seed
    start = perf_counter()
    state = workbench.trained_by(contender, sigma, seed)
    for run in runs:
        if run.kind == "train":
            yield run, _trained(workbench, run, state) | {"seconds_spent": perf_counter() - start}
            start = perf_counter()
    unlearn = [run for run in runs if run.kind == "unlearn"]
    if not unlearn:
        return
    state = workbench.method(contender, sigma).prepare(state, workbench.engine)
    cases: dict[tuple[str, float, str, str], list[Run]] = defaultdict(list)
    for run in unlearn:
        cases[run.law, run.fraction, run.tau, run.manner].append(run)
    for (law, fraction, tau, manner), alike in cases.items():
        deletion = workbench.deletion(law, fraction, seed)
        method = workbench.method(contender, sigma, tau, len(deletion.rows), manner)
        names = (law, fraction, tau, sigma, seed, *([] if manner == NONE else [manner]))
        rng = generator("unlearn", workbench.name, contender.name, *names)
        updated = method.unlearn(state, workbench.engine, deletion.rows, rng)
        for run in alike:
            weights = updated.weights
            initial = state.weights
            if at_end and run.sigma > 0:
                noisy = workbench.method(contender, run.sigma, tau)
                rng = generator("publish", workbench.name, run)
                weights = noisy.released(weights, workbench.without(deletion), rng)
                initial = noisy.released(initial, workbench.engine, rng)
            yield (
                run,
                _compared(workbench, run, deletion, initial, weights)
                | {"seconds_spent": perf_counter() - start},
            )
            start = perf_counter()


def _trained(workbench: Workbench, run: Run, state: State) -> dict[str, Any]:
    """The effect of sigma on the trained model: against the optimum of the same objective."""
    contender, weights = CONTENDERS[run.method], state.weights
    if contender.method.noise == "end":
        rng = generator("publish", workbench.name, run)
        weights = workbench.method(contender, run.sigma).released(weights, workbench.engine, rng)
    optimum = workbench.initial(run.seed)
    accuracies = workbench.accuracy(optimum), workbench.accuracy(weights)
    return {
        "acc_test_initial": accuracies[0],
        "acc_test_unlearned": accuracies[1],
        "acc_err": accuracy_error(*accuracies),
        "distance": float(np.linalg.norm(weights - optimum)),
    }


def _compared(
    workbench: Workbench, run: Run, deletion: Deletion, initial: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """The paper's measures of an updated model."""
    contender = CONTENDERS[run.method]
    optimum = workbench.retrained(deletion)
    same = workbench.retrained_by(contender, run.sigma, deletion)
    test = workbench.accuracy(weights)
    best = workbench.accuracy(optimum)
    gone = workbench.accuracy_deleted(weights, deletion)
    gone_same = workbench.accuracy_deleted(same, deletion)
    first = workbench.accuracy(initial)
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


TASKS: dict[str, Callable[[Workbench, Sequence[Run]], Rows]] = {
    "beyond": beyond,
    "positions": positions,
    "retrain": retrainings,
    "stream": streams,
    "timing": timings,
    "train": unlearnings,
    "unlearn": unlearnings,
}
