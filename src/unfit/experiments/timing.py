"""Times of one comparison, taken in one process and in turn: unlearning against two retrainings.

The retrainings are the paper's SGD on the remaining rows, and Newton from the current weights to
convergence, the fastest exact one. Unlearning starts from a prepared state; the time to prepare is
measured beside it. Each time is the shortest of several; long ones are measured less often.

A shared machine is half as fast in one minute as in the next. Where unlearning takes about as long
as SGD, SGD is therefore measured again beside it, one after the other.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.machine import machine
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.experiments.workbench import Deletion, Workbench
from unfit.methods import METHODS, Method, Settings, State

ENOUGH, AT_MOST = 2.0, 9  # seconds, and times, that one thing is measured
ALIKE = 4  # unlearning is measured beside SGD unless it is so many times faster


def timings(workbench: Workbench, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one deletion: methods x tau x sigma, each against two retrainings."""
    deletion = workbench.deletion(runs[0].law, runs[0].fraction, runs[0].seed)
    start = perf_counter()
    by_sgd = _sgd(workbench, deletion)
    retraining = shortest(by_sgd), shortest(_exact(workbench, deletion))
    here = machine()
    state_of: tuple[object, State, float] | None = None
    for run in runs:
        contender = CONTENDERS[run.method]
        wanted = (run.method, run.sigma)
        if state_of is None or state_of[0] != wanted:
            trained = workbench.trained_by(contender, run.sigma, run.seed)
            method = workbench.method(contender, run.sigma)
            before = perf_counter()
            state = method.prepare(trained, workbench.engine)
            state_of = wanted, state, perf_counter() - before
        method = workbench.method(contender, run.sigma, run.tau, len(deletion.rows))
        work = Unlearning(workbench, method, state_of[1], deletion)
        unlearn, sgd = beside(work, by_sgd, retraining[0])
        yield (
            run,
            {
                "deleted": len(deletion.rows),
                "seconds_unlearn": unlearn,
                "seconds_prepare": state_of[2],
                "seconds_retrain_sgd": sgd,
                "seconds_retrain_exact": retraining[1],
                "load": os.getloadavg()[0],
                "cores": here["cores"],
                "processor": here["processor"],
                "when": here["when"],
                "seconds_spent": perf_counter() - start,
            },
        )
        start = perf_counter()


def once(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def shortest(work: Callable[[], object]) -> float:
    """The shortest of several runs, fewer if they are long."""
    best, spent = float("inf"), 0.0
    for _ in range(AT_MOST):
        took = once(work)
        best, spent = min(best, took), spent + took
        if spent > ENOUGH:
            break
    return best


class Unlearning:
    """A deletion from a prepared state, again and again."""

    def __init__(
        self, workbench: Workbench, method: Method, state: State, deletion: Deletion
    ) -> None:
        self._engine, self._method, self._rows = workbench.engine, method, deletion.rows
        self._state = self._ready = state
        self._rng = generator("timing")
        # Once off the clock, to compile: two mini-batches use what many do, a replay of one row
        # what that of many does.
        self.reset()
        rows = self._rows if state.run is None else self._rows[:1]
        few = replace(method.settings, deletion_batch_size=max(1, -(-len(rows) // 2)))
        type(method)(few).unlearn(self._ready, self._engine, rows, self._rng)

    def reset(self) -> None:
        if self._state.run is not None:  # a state's spare file serves once
            self._ready = self._method.prepare(replace(self._state, spare=None), self._engine)

    def __call__(self) -> None:
        self._method.unlearn(self._ready, self._engine, self._rows, self._rng)


def beside(work: Unlearning, by_sgd: Callable[[], object], sgd: float) -> tuple[float, float]:
    """The shortest times of unlearning and of SGD; sgd: what is known of the latter.

    Whether they are alike is decided once, so that both are the shortest of as many runs.
    """
    times: list[tuple[float, float]] = []
    alike = False
    for _ in range(AT_MOST):
        work.reset()
        took = once(work)
        alike = alike if times else ALIKE * took > sgd
        times.append((took, once(by_sgd) if alike else sgd))
        if sum(took for took, _ in times) > ENOUGH:
            break
    unlearn, retrain = zip(*times, strict=True)
    return min(unlearn), min(retrain)


def _sgd(workbench: Workbench, deletion: Deletion) -> Callable[[], object]:
    """The paper's training on what is left, compiled."""
    sgd, rng, without = workbench.sgd(), generator("timing"), workbench.without(deletion)
    type(sgd)(replace(sgd.settings, epochs=1)).optimum(without, rng)
    return lambda: sgd.optimum(without, rng)


def _exact(workbench: Workbench, deletion: Deletion) -> Callable[[], object]:
    newton, rng = METHODS["retrain"](Settings(solver="newton", tol=1e-8)), generator("timing")
    start = newton.optimum(workbench.engine, rng, start=workbench.initial(deletion.seed))
    state = State("retrain", start, workbench.engine.n_remaining)
    return lambda: newton.unlearn(state, workbench.engine, deletion.rows, rng)
