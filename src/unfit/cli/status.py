"""`unfit status`."""

from unfit.cli.common import JsonOption, WorkspaceOption, errors, find_workspace, print_json


def status(workspace: WorkspaceOption = None, as_json: JsonOption = False) -> None:
    """Show the active model, who is left, what waits, what was decided and why."""
    with errors():
        from unfit.workspace.reader import WorkspaceReader

        with WorkspaceReader(find_workspace(workspace)) as reader:
            found = reader.status()
    if as_json:
        print_json(found.as_dict())
        return
    from rich.console import Console

    from unfit.cli.screen import status_screen

    status_screen(found, Console())
