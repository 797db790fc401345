"""The command line: one module a command group. May know everything."""

import typer

from unfit.cli import bench, demo, reproduce, service, workspace

app = typer.Typer(
    name="unfit",
    help=(
        "Linear classifiers that can forget. A workspace is made with `unfit init DATA`, then: "
        "train, predict, forget, status, audit, retrain, export; `unfit serve` puts it on the "
        "network. Exit codes: 0 done, 1 an audit says no, "
        "2 an error, said in a sentence, that changed nothing, 3 an audit cannot tell, "
        "4 an id matched nobody (forget --strict)."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("init")(workspace.init)
app.command("train")(workspace.train)
app.command("predict")(workspace.predict)
app.command("forget")(workspace.forget)
app.command("status")(workspace.status)
app.command("audit")(workspace.audit)
app.command("retrain")(workspace.retrain)
app.command("accept-loss")(workspace.accept_loss)
app.command("export")(service.export)
app.command("serve")(service.serve)
app.command("worker")(service.worker)
app.add_typer(service.tokens, name="token")
app.command("bench")(bench.bench)
app.command("reproduce")(reproduce.reproduce)


@app.command("version")
def version() -> None:
    """Print the version."""
    from unfit import __version__

    typer.echo(__version__)
