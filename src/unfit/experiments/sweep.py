"""Many runs: those that are missing, in groups, over processes, with an estimate of the time left.

One process hands out groups and writes the table; workers do the runs and send each row when it is
finished. When a worker dies, nothing that was finished is lost; when the first process dies, the
workers end at once, in the middle of a run. Timings and streams come last, in one process with all
cores.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

from threadpoolctl import threadpool_limits

from unfit.core.kernels.parallel import available_threads
from unfit.data import catalog
from unfit.errors import BadInput, UnfitError
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.extensions import Extensions
from unfit.experiments.runs import Run, Runs
from unfit.experiments.tasks import ALONE, groups, run_group
from unfit.experiments.workbench import Workbench


@dataclass(frozen=True)
class SweepStatus:
    """Runs done and in all; what is being done; seconds left, once they can be estimated."""

    done: int
    total: int
    doing: tuple[str, ...]
    left: float | None


StatusCallback = Callable[[SweepStatus], None]


def sweep(
    runs: Runs,
    wanted: Iterable[Run],
    workbenches: dict[str, Workbench],
    workers: int,
    extensions: Extensions,
    callback: StatusCallback | None = None,
) -> int:
    """Do those of the wanted runs that are missing, and return how many they were."""
    missing = runs.missing(wanted)
    meter = _Meter(missing, workbenches, callback)
    together = groups(run for run in missing if run.kind not in ALONE)
    alone = groups(run for run in missing if run.kind in ALONE)
    try:
        for some, count in ((together, workers), (alone, 1)):
            if some:
                _spread(runs, some, min(count, len(some)), extensions, meter)
    finally:
        runs.fold()
    return len(missing)


def _spread(
    runs: Runs, todo: list[list[Run]], workers: int, extensions: Extensions, meter: "_Meter"
) -> None:
    context = get_context("spawn")
    cores = available_threads()
    threads = max(1, cores // workers)
    pipes: dict[Connection, Any] = {}
    waiting = list(reversed(todo))
    try:
        for number in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=work,
                daemon=True,
                args=(theirs, runs.folder / "models", number, threads, extensions),
            )
            process.start()
            theirs.close()
            pipes[ours] = process
        for pipe in list(pipes):
            meter.started(pipe, _give(pipe, waiting))
        while pipes:
            for ready in wait(list(pipes)):
                assert isinstance(ready, Connection)
                _receive(ready, pipes, runs, waiting, meter)
    finally:
        for pipe, process in pipes.items():
            pipe.close()
            process.terminate()


def _give(pipe: Connection, waiting: list[list[Run]]) -> list[Run] | None:
    group = waiting.pop() if waiting else None
    pipe.send(group)
    return group


def _receive(
    pipe: Connection,
    pipes: dict[Connection, Any],
    runs: Runs,
    waiting: list[list[Run]],
    meter: "_Meter",
) -> None:
    """One message of a worker: a finished run, the end of a group (None), or an error."""
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        process = pipes.pop(pipe)
        process.join()
        if process.exitcode:
            doing = meter.doing.get(pipe, "")
            raise BadInput(
                f"a worker ended with code {process.exitcode} while doing {doing}; finished runs "
                "are kept, continue with --resume (and fewer --workers if memory ran out)"
            ) from None
        return
    if isinstance(message, Exception):
        raise message
    if message is None:
        meter.started(pipe, _give(pipe, waiting))
        return
    run, measures = message
    runs.add(run, measures)
    meter.finished(run)


def work(pipe: Connection, models: Path, number: int, threads: int, extensions: Extensions) -> None:
    """A worker: groups in, finished runs out."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        if threads < len(mine):
            start = number * threads
            os.sched_setaffinity(0, {mine[(start + i) % len(mine)] for i in range(threads)})
    workbench: Workbench | None = None
    try:
        with threadpool_limits(threads):
            extensions.take_in()
            while (group := pipe.recv()) is not None:
                name = group[0].dataset
                if workbench is None or workbench.name != name:
                    workbench = Workbench(catalog.load(name), models, extensions.loss)
                for row in _finished(workbench, group):
                    pipe.send(row)
                pipe.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
    except UnfitError as error:
        pipe.send(error)


def _die_with_parent() -> None:
    """A run that nobody waits for would slow down those that are timed after it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _finished(workbench: Workbench, group: list[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """The finished runs of a group; an error says what was being done."""
    try:
        yield from run_group(workbench, group)
    except (UnfitError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        first = group[0]
        where = ", ".join(
            p for p in (first.kind, first.dataset, first.method, first.law) if p != "-"
        )
        raise BadInput(
            f"{where}: {type(error).__name__}: {error}; finished runs are kept"
        ) from error


class _Meter:
    """Progress by work rather than by count: the cost of runs by a model, scaled by the time that
    finished runs took."""

    def __init__(
        self,
        runs: Sequence[Run],
        workbenches: dict[str, Workbench],
        callback: StatusCallback | None,
    ) -> None:
        self.cost = {run: cost(run, workbenches[run.dataset]) for run in runs}
        self.total, self.left = len(runs), sum(self.cost.values())
        self.done, self.spent = 0, 0.0
        self.doing: dict[Connection, str] = {}
        self.start, self._callback = monotonic(), callback

    def started(self, pipe: Connection, group: list[Run] | None) -> None:
        self.doing.pop(pipe, None)
        if group:
            first = group[0]
            parts = (first.kind, first.dataset, first.method, first.law)
            self.doing[pipe] = " ".join(part for part in parts if part != "-")
        self.tell()

    def finished(self, run: Run) -> None:
        self.done += 1
        self.left -= self.cost[run]
        self.spent += self.cost[run]
        self.tell()

    def tell(self) -> None:
        if self._callback is not None:
            elapsed = monotonic() - self.start
            left = elapsed * self.left / self.spent if self.spent > 0 and self.done > 3 else None
            self._callback(SweepStatus(self.done, self.total, tuple(self.doing.values()), left))


def cost(run: Run, workbench: Workbench) -> float:
    """About how many multiplications a run takes."""
    data = workbench.data
    n, d, k = data.n, data.d, max(1, data.k if data.k > 2 else 1)
    training = 2.0 * data.training.epochs * n * d * k
    if run.kind in ("retrain", "stream", "beyond"):
        return training
    hessian = n * d * d * k / 8
    taus = [tau.name for tau in CONTENDERS[run.method].taus]
    passes = 2 ** (len(taus) - 1 - taus.index(run.tau)) if run.tau in taus else 1
    if CONTENDERS[run.method].method.replays:
        return training / 4
    return training / 8 + passes * hessian * (3 if run.kind == "timing" else 1)
