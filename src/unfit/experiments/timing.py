"""Times of one comparison, taken in one process and in turn: unlearning against two retrainings.

The retrainings are the paper's SGD on the remaining rows, and Newton from the current weights to
convergence, the fastest exact one. Unlearning starts from a prepared state; the time to prepare is
measured beside it. Each time is the shortest of several; long ones are measured less often.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.laboratory import Deletion, Laboratory
from unfit.experiments.machine import machine
from unfit.experiments.randomness import generator
from unfit.experiments.runs import Run
from unfit.methods import METHODS, Method, Settings, State

ENOUGH, AT_MOST = 2.0, 9  # seconds, and times, that one thing is measured


def timings(laboratory: Laboratory, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one deletion: methods x tau x sigma against the same two retrainings."""
    deletion = laboratory.deletion(runs[0].law, runs[0].fraction, runs[0].seed)
    start = perf_counter()
    retraining = _retrainings(laboratory, deletion)
    here = machine()
    state_of: tuple[object, State, float] | None = None
    for run in runs:
        contender = CONTENDERS[run.method]
        wanted = (run.method, run.sigma)
        if state_of is None or state_of[0] != wanted:
            trained = laboratory.trained_by(contender, run.sigma, run.seed)
            method = laboratory.method(contender, run.sigma)
            before = perf_counter()
            state = method.prepare(trained, laboratory.engine)
            state_of = wanted, state, perf_counter() - before
        method = laboratory.method(contender, run.sigma, run.tau, len(deletion.rows))
        yield (
            run,
            {
                "deleted": len(deletion.rows),
                "seconds_unlearn": _unlearning(laboratory, method, state_of[1], deletion),
                "seconds_prepare": state_of[2],
                **retraining,
                "load": os.getloadavg()[0],
                "cores": here["cores"],
                "processor": here["processor"],
                "when": here["when"],
                "seconds_spent": perf_counter() - start,
            },
        )
        start = perf_counter()


def shortest(work: Callable[[], object], reset: Callable[[], object] | None = None) -> float:
    """The shortest of several runs: at least two, unless one alone is enough."""
    best, spent = float("inf"), 0.0
    for _ in range(AT_MOST):
        if reset is not None:
            reset()
        start = perf_counter()
        work()
        took = perf_counter() - start
        best, spent = min(best, took), spent + took
        if spent > ENOUGH:
            break
    return best


def _unlearning(laboratory: Laboratory, method: Method, state: State, deletion: Deletion) -> float:
    rng = generator("timing")
    ready = [state]

    def prepare() -> None:  # a state's spare file serves once
        if state.run is not None:
            ready[0] = method.prepare(replace(state, spare=None), laboratory.engine)

    def unlearn() -> None:
        method.unlearn(ready[0], laboratory.engine, deletion.rows, rng)

    return shortest(unlearn, prepare)


def _retrainings(laboratory: Laboratory, deletion: Deletion) -> dict[str, float]:
    sgd, rng = laboratory.sgd(), generator("timing")
    without = laboratory.without(deletion)
    by_sgd = shortest(lambda: sgd.optimum(without, rng))
    newton = METHODS["retrain"](Settings(solver="newton", tol=1e-8))
    start = newton.optimum(laboratory.engine, rng, start=laboratory.initial(deletion.seed))
    state = State("retrain", start, laboratory.engine.n_remaining)
    exact = shortest(lambda: newton.unlearn(state, laboratory.engine, deletion.rows, rng))
    return {"seconds_retrain_sgd": by_sgd, "seconds_retrain_exact": exact}
