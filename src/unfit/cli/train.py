"""`unfit train` and `unfit retrain`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unfit.cli.common import (
    JsonOption,
    WorkspaceOption,
    duration,
    errors,
    find_workspace,
    print_json,
    progress_bar,
    seconds_since_start,
)

if TYPE_CHECKING:
    from unfit.workspace.results import Trained

_PHASES = {"read": "reading", "encode": "encoding", "train": "training", "rehearse": "rehearsing"}


def train(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Read the source, train the first model and make it active."""
    _train(workspace, as_json, again=False)


def retrain(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Train again from scratch on the rows that remain, and make that model active."""
    _train(workspace, as_json, again=True)


def _train(named: Path | None, as_json: bool, again: bool) -> None:
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(named)) as ws:
        with progress_bar(as_json) as progress:
            trained = ws.retrain(progress) if again else ws.train(progress)
            ws.prepare()
        if as_json:
            print_json(trained.as_dict() | {"command_seconds": seconds_since_start()})
            return
        _show(trained)
        if not again:
            where = os.path.relpath(ws.list_path)
            typer.echo(f"the ids of people who are forgotten will be listed in {where}")


def _show(trained: "Trained") -> None:
    from unfit.cli.screen import accuracy_line

    phases = ", ".join(
        f"{_PHASES[name]} {duration(s)}" for name, s in trained.phases.items() if name in _PHASES
    )
    typer.echo(
        f"version {trained.version} ({trained.kind}, {trained.method}) is active after "
        f"{duration(trained.seconds)} ({phases})\n"
        f"the whole command took {duration(seconds_since_start())}, including "
        f"{duration(trained.kernels)} to load the kernels\n"
        f"{trained.rows:,} training rows, {trained.columns} encoded columns; "
        f"{trained.subjects:,} subjects in training and test\n"
        f"test accuracy {accuracy_line(trained.accuracy, trained.held_out)}\n"
        f"slope c {trained.slope:.3g}"
    )
    if trained.dropped:
        typer.echo(f"rows left out because label, subject or id is missing: {trained.dropped:,}")
    for name, count in trained.unreadable.items():
        typer.echo(f"column {name!r}: {not_numbers(count)}")
    if trained.left_out:
        typer.echo(f"rows left out because the deletion list names them: {trained.left_out:,}")


def not_numbers(count: int) -> str:
    if count == 1:
        return "1 value is not a number and counts as missing"
    return f"{count:,} values are not numbers and count as missing"
