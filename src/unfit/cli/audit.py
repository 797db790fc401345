"""`unfit audit`."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import (
    JsonOption,
    WorkspaceOption,
    errors,
    find_workspace,
    print_json,
    progress_bar,
    require_folder,
)

EXIT_CODES = {"forgotten": 0, "not forgotten": 1, "cannot tell": 3}  # 2 is an error


def audit(
    *,
    deleted: Annotated[
        Path | None,
        typer.Option(
            help="The deleted rows with their ids and labels, if you have them (CSV or Parquet)."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Limit for AccDis, in percent, and for probabilities, in points. Default: "
            "policy.disparity.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Retrainings for AccDis. Default: 5 with noise, otherwise 1."),
    ] = None,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack",
            help="Also try to tell what is released from releases of a retraining, here and on "
            "random halves of the rows. Takes seconds to minutes.",
        ),
    ] = False,
    splits: Annotated[
        int | None,
        typer.Option(
            min=16, help="Random halves of the rows that an attack trains on. Default: 512."
        ),
    ] = None,
    targets: Annotated[
        int | None,
        typer.Option(min=1, help="Rows that an attack unlearns from each half. Default: 10."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Where to write the page. Default: reports/ in the workspace."),
    ] = None,
    random_state: Annotated[
        int | None, typer.Option(min=0, help="Seed of the retrainings.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retrain independently and compare: did the model forget? The active model is not touched.

    Exit codes: 0 forgotten, 1 not forgotten, 2 an error, 3 the audit cannot tell. A claim that an
    attack refutes is not forgotten.
    """
    from unfit import disk
    from unfit.errors import BadInput
    from unfit.pages.audit import audit_page
    from unfit.workspace import Workspace

    with errors(), Workspace(find_workspace(workspace)) as ws:
        if not attack and (splits is not None or targets is not None):
            raise BadInput("--splits and --targets say how an attack is made; add --attack")
        if report is not None:
            require_folder(report)
        with progress_bar(as_json) as progress:
            progress("retraining independently", 0, 0)
            made = ws.audit(
                deleted=deleted,
                threshold=threshold,
                draws=draws,
                random_state=random_state,
                attack=attack,
                splits=splits,
                targets=targets,
                progress=progress,
            )
        page = report or ws.layout.audit_report(made.version)
        if report is None:
            disk.private_folder(page.parent)
        kept = made.recorded(ws.config.preprocessing.min_rows)  # a page stays; a screen does not
        disk.write(page, audit_page(kept, ws.status()).encode())
    if as_json:
        print_json(made.as_dict() | {"page": str(page)})
    else:
        from rich.console import Console

        from unfit.cli.screen import audit_screen

        audit_screen(made, Console())
        typer.echo(f"page: {page}")
    if code := EXIT_CODES[made.outcome]:
        raise typer.Exit(code)
