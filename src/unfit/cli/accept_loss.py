"""`unfit accept-loss`."""

from typing import Annotated

import typer

from unfit.cli.common import JsonOption, WorkspaceOption, errors, find_workspace, print_json


def accept_loss(
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept the loss. Without this, say what is lost.")
    ] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Continue after the deletion list or its key was lost for good. Look for a copy first!

    Says what is lost; with --yes, takes the list and the key as they are now, or begins new ones.
    Everybody who was forgotten in this workspace stays forgotten.
    """
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        lost = ws.accept_loss(dry_run=not yes)
    if as_json:
        print_json({"lost": None if lost is None else lost.as_dict(), "accepted": yes})
        return
    if lost is None:
        typer.echo("nothing is lost: the deletion list and its key are intact")
        return
    for sentence in lost.consequences:
        typer.echo(sentence)
    if yes:
        typer.echo("accepted: the workspace continues with the list and the key as they are now")
    else:
        typer.echo("nothing was changed; `unfit accept-loss --yes` accepts this")
