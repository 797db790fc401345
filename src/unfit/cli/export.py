"""`unfit export`."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import (
    JsonOption,
    WorkspaceOption,
    errors,
    find_workspace,
    print_json,
    require_folder,
)


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="The zip file to write.")],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the active model to a file: weights, the card that explains them, and how to use both.

    A copy does not forget: whoever is erased later is still in it.
    """
    from unfit import disk
    from unfit.errors import BadInput
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        require_folder(output)
        if output.suffix.lower() not in ("", ".zip"):
            raise BadInput(
                f"an exported model is a zip file: name it .zip, and not {output.suffix}"
            )
        version, content = ws.export()
        disk.write(output, content)
    if as_json:
        print_json({"version": version, "file": str(output), "bytes": len(content)})
    else:
        typer.echo(f"version {version}: {output}, {len(content):,} bytes")
