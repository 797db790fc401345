"""The command line: one module a command group. May know everything."""

import typer

from unfit.cli import bench, demo

app = typer.Typer(
    name="unfit",
    help="Linear classifiers that can forget: train, unlearn, audit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)


@app.command("version")
def version() -> None:
    """Print the version."""
    from unfit import __version__

    typer.echo(__version__)
