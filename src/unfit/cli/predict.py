"""`unfit predict`."""

from pathlib import Path
from typing import Annotated

import typer

from unfit.cli.common import FORMAT, WorkspaceOption, errors, find_workspace, progress_bar
from unfit.cli.train import not_numbers


def predict(
    data: Annotated[
        str, typer.Argument(help="A CSV, Parquet or LIBSVM file, or - for stdin (CSV).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv or .parquet file; - is stdout (CSV).")
    ] = Path("-"),
    format: Annotated[str | None, FORMAT] = None,
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put an apostrophe in front of CSV texts that a spreadsheet would run as "
            "formulas: those that begin with =, +, -, @, a tab or a carriage return.",
        ),
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Predict the rows of a file: class, probabilities and the version that answered.

    With more than two classes, probabilities are one-vs-rest: scores of separate models, scaled to
    sum to 1, and less well calibrated than those of a softmax model. Under a loss that estimates no
    probabilities (model.loss in unfit.toml) they are scores between 0 and 1.

    A category without a column counts as none of the others. The command reports how many rows hold
    such a category: one that too few training rows hold (preprocessing.min_rows, max_categories),
    or one that no row of this workspace holds.

    With the engine "dask", its workers predict the parts of a large Parquet or CSV file; they must
    see it under the same path.
    """
    from unfit.workspace import Workspace

    quiet = str(output) == "-"
    with (
        errors(),
        Workspace(find_workspace(workspace)) as ws,
        progress_bar(quiet) as progress,
    ):
        made = ws.predict(data, output, format=format, spreadsheet=spreadsheet, progress=progress)
    facts = [f"{made.rows:,} rows predicted by version {made.version}"]
    if made.accuracy is not None:
        facts.append(f"{100 * made.accuracy:.2f} % match the label")
    if made.rare:
        facts.append(f"{made.rare:,} with a category too rare for a column of its own")
    if made.unseen:
        facts.append(f"{made.unseen:,} with a category never seen")
    if made.unreadable:
        facts.append(not_numbers(made.unreadable))
    typer.echo(", ".join(facts), err=True)
    if made.formulas and output.suffix != ".parquet":
        typer.echo(
            f"warning: a spreadsheet would run {made.formulas:,} of the texts as formulas; "
            "--spreadsheet writes them so that it does not",
            err=True,
        )
