"""Doing many runs: what is missing, in groups, over processes, with an estimate of what is left.

One process hands out groups and writes the table; workers do the runs and send each row when it is
finished. A worker that dies takes nothing finished with it; when the first process dies, the
workers die with it, in the middle of whatever they do. Timings and streams come last, one process
with all cores.
"""

import hashlib
import importlib.util
import os
import sys
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
from unfit.experiments.doing import ALONE, do, groups
from unfit.experiments.laboratory import Laboratory
from unfit.experiments.runs import Run, Runs


@dataclass(frozen=True)
class SweepStatus:
    """done and total runs; what is being done; seconds left, if they can be told yet."""

    done: int
    total: int
    doing: tuple[str, ...]
    left: float | None


StatusCallback = Callable[[SweepStatus], None]


def sweep(
    runs: Runs, wanted: Iterable[Run], laboratories: dict[str, Laboratory], workers: int,
    extensions: Sequence[Path] = (), callback: StatusCallback | None = None,
) -> int:  # fmt: skip
    """Do what is missing of the wanted runs; how many that were."""
    missing = runs.missing(wanted)
    meter = _Meter(missing, laboratories, callback)
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
    runs: Runs, todo: list[list[Run]], workers: int, extensions: Sequence[Path], meter: "_Meter"
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
                target=work, daemon=True,
                args=(theirs, runs.folder / "models", number, threads, tuple(extensions)),
            )  # fmt: skip
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
    pipe: Connection, pipes: dict[Connection, Any], runs: Runs, waiting: list[list[Run]],
    meter: "_Meter",
) -> None:  # fmt: skip
    """One message of a worker: a finished run, the end of a group (None), or an error."""
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        process = pipes.pop(pipe)
        process.join()
        if process.exitcode:
            doing = meter.doing.get(pipe, "")
            raise BadInput(
                f"a worker ended with code {process.exitcode} while doing {doing}; what was "
                "finished is kept, --resume goes on (with fewer --workers if memory ran out)"
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


def work(
    pipe: Connection, models: Path, number: int, threads: int, extensions: tuple[Path, ...]
) -> None:
    """A worker: groups in, finished runs out."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        if threads < len(mine):
            start = number * threads
            os.sched_setaffinity(0, {mine[(start + i) % len(mine)] for i in range(threads)})
    laboratory: Laboratory | None = None
    try:
        with threadpool_limits(threads):
            extend(extensions)
            while (group := pipe.recv()) is not None:
                name = group[0].dataset
                if laboratory is None or laboratory.name != name:
                    laboratory = Laboratory(catalog.load(name), models)
                for row in _said(laboratory, group):
                    pipe.send(row)
                pipe.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
    except UnfitError as error:
        pipe.send(error)


def _die_with_parent() -> None:
    """A run nobody waits for must not slow down those that are timed after it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _said(laboratory: Laboratory, group: list[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """The rows of a group; whatever goes wrong in one names what was being done."""
    try:
        yield from do(laboratory, group)
    except (UnfitError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        first = group[0]
        where = ", ".join(
            p for p in (first.kind, first.dataset, first.method, first.law) if p != "-"
        )
        raise BadInput(
            f"{where}: {type(error).__name__}: {error}; what was finished is kept"
        ) from error


def extend(paths: Iterable[Path]) -> None:
    """Import files that add methods, data sets or laws."""
    for path in paths:
        if not path.is_file():
            raise BadInput(f"there is no file {path}")
        digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
        name = f"unfit_extension_{path.stem}_{digest}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise BadInput(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise BadInput(f"{path.name}: {type(error).__name__}: {error}") from error


class _Meter:
    """Progress by work rather than by count: a model of what a run costs, scaled by experience."""

    def __init__(
        self,
        runs: Sequence[Run],
        laboratories: dict[str, Laboratory],
        callback: StatusCallback | None,
    ) -> None:
        self.cost = {run: cost(run, laboratories[run.dataset]) for run in runs}
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


def cost(run: Run, laboratory: Laboratory) -> float:
    """About how much arithmetic a run is, in multiplications."""
    data = laboratory.data
    n, d, k = data.n, data.d, max(1, data.k if data.k > 2 else 1)
    training = 2.0 * data.training.epochs * n * d * k
    if run.kind in ("retrain", "stream"):
        return training
    hessian = n * d * d * k / 8
    taus = [tau.name for tau in CONTENDERS[run.method].taus]
    passes = 2 ** (len(taus) - 1 - taus.index(run.tau)) if run.tau in taus else 1
    if run.method == "deltagrad":
        return training / 4
    return training / 8 + passes * hessian * (3 if run.kind == "timing" else 1)
