"""Processes that do one verb of a workspace and die where they are told to."""

import multiprocessing
import os
import signal
from pathlib import Path

from unfit import points
from unfit.workspace import Workspace

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["unfit.workspace.workspace", "unfit.cli", "crashing"])


def _kill_at(point: str | None, nth: int) -> None:
    seen = 0

    def observe(name: str) -> None:
        nonlocal seen
        if name == point:
            seen += 1
            if seen == nth:
                os.kill(os.getpid(), signal.SIGKILL)

    points.observer = observe


def act(folder: Path, verb: str, options: dict) -> None:
    """A verb as the command line does it."""
    with Workspace(folder) as ws:
        getattr(ws, verb)(**options)
        ws.prepare()


def _child(folder: Path, verb: str, options: dict, point: str | None, nth: int) -> None:
    _kill_at(point, nth)
    act(folder, verb, options)


def run(
    folder: Path, verb: str, options: dict | None = None, die_at: str | None = None, nth: int = 1
) -> int | None:
    """The exit code of a process that does the verb; -9 if it died at the point."""
    process = start(folder, verb, options, die_at, nth)
    process.join(120)
    return process.exitcode


def start(
    folder: Path, verb: str, options: dict | None = None, die_at: str | None = None, nth: int = 1
) -> multiprocessing.Process:
    process = _context.Process(target=_child, args=(folder, verb, options or {}, die_at, nth))
    process.start()
    return process


def forget_each(folder: Path, subjects: list[str], prefix: str) -> None:
    """A worker: one request after another."""
    with Workspace(folder) as ws:
        for subject in subjects:
            ws.forget(subjects=[subject], key=f"{prefix}-{subject}")


def start_worker(
    folder: Path, subjects: list[str], prefix: str, die_at: str | None = None, nth: int = 1
) -> multiprocessing.Process:
    process = _context.Process(target=_worker, args=(folder, subjects, prefix, die_at, nth))
    process.start()
    return process


def _worker(folder: Path, subjects: list[str], prefix: str, die_at: str | None, nth: int) -> None:
    _kill_at(die_at, nth)
    forget_each(folder, subjects, prefix)
