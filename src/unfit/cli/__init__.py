"""The command line: one module per command or group of commands. May import every room.

Modules of commands import typer and `unfit.cli.common` at the top and everything else inside their
functions, so that `unfit --help` and `unfit status` start fast; tests/test_cli_start.py counts.
"""

from typing import Annotated

import typer

from unfit.cli import (
    accept_loss,
    audit,
    bench,
    certificate,
    demo,
    export,
    forget,
    init,
    predict,
    reproduce,
    serve,
    status,
    tokens,
    train,
    verify,
)

app = typer.Typer(
    name="unfit",
    help=(
        "Linear classifiers that can forget. Create a workspace with `unfit init DATA`, then "
        "train, predict, forget, status, audit, retrain, export; `unfit serve` puts it on the "
        "network; `unfit verify` checks a certificate that somebody gave you. Exit codes: 0 done, "
        "1 an audit found that somebody is not forgotten, or a certificate does not hold, "
        "2 an error, explained in a sentence, that changed nothing, 3 an audit cannot tell, "
        "4 an id matched nobody (forget --strict), 70 an unexpected error in unfit itself."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("forget")(forget.forget)
app.command("status")(status.status)
app.command("audit")(audit.audit)
app.command("retrain")(train.retrain)
app.command("accept-loss")(accept_loss.accept_loss)
app.command("export")(export.export)
app.command("certificate")(certificate.certificate)
app.add_typer(certificate.log_app, name="log")
app.add_typer(certificate.key_app, name="key")
app.command("verify")(verify.verify)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.add_typer(tokens.app, name="token")
app.command("bench")(bench.bench)
app.command("reproduce")(reproduce.reproduce)


@app.command("version")
def version() -> None:
    """Print the version."""
    from unfit import __version__

    typer.echo(__version__)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass
