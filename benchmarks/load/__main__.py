"""`python -m benchmarks.load`: the service under load, on this machine, for a bounded time."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unfit.errors import UnfitError

from .report import figures, table
from .run import Options, run_load


def main(
    *,
    seconds: Annotated[
        float | None, typer.Option(min=2, help="Duration of the load. Default: 60, with --quick 6.")
    ] = None,
    rate_erasures: Annotated[float, typer.Option(min=0, help="Erasures per second.")] = 5.0,
    target_rate: Annotated[
        float, typer.Option(min=0, help="Predictions per second; 0: as fast as they are answered.")
    ] = 900.0,
    connections: Annotated[
        int, typer.Option(min=1, help="Connections that ask for predictions.")
    ] = 16,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes of the service that answer.")
    ] = 1,
    store: Annotated[
        str, typer.Option(help="sqlite; postgresql, which starts one; or the URL of a database.")
    ] = "sqlite",
    kills: Annotated[
        int,
        typer.Option(
            min=0, help="Number of kill -9: in turn an API process, the worker, everything."
        ),
    ] = 0,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Also measure during an audit and a retraining.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for the moments of kills and for the people erased.")
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small synthetic table, a short run.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write the figures here, as JSON.")] = None,
    log: Annotated[Path | None, typer.Option(help="Keep the service's log here.")] = None,
) -> None:
    """Ask the real service for predictions while people are erased from its model.

    Diabetes 130 from the folder UNFIT_DATA, else a synthetic table of its shape. Ends with 1 if an
    accepted erasure was lost or applied twice, or a prediction came from a version too old.
    """
    console = Console(stderr=True)
    options = Options(
        seconds=seconds or (6.0 if quick else 60.0),
        rate_erasures=rate_erasures,
        target_rate=target_rate,
        connections=connections,
        processes=processes,
        store=store,
        kills=kills,
        jobs=jobs,
        quick=quick,
        seed=seed,
        log=log,
    )
    for path in (output, log):
        if path is not None and not path.resolve().parent.is_dir():
            console.print(f"no folder {path.parent} to put {path.name} in")
            raise typer.Exit(2)
    try:
        with console.status("starting") as status:
            results = run_load(options, status.update)
    except UnfitError as error:
        console.print(str(error))
        raise typer.Exit(2) from None
    made = figures(options, results)
    out = Console()
    (out if out.is_terminal else Console(width=120)).print(table(options, results, made["machine"]))
    if output is not None:
        output.write_text(json.dumps(made, indent=1) + "\n")
        typer.echo(f"figures: {output}")
    findings = results.findings
    for problem in [*findings.lost, *findings.twice, *findings.remembered][:20]:
        typer.echo(problem, err=True)
    if not findings.good:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
