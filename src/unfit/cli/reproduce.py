"""`unfit reproduce`: the paper's figures and tables, from data to picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unfit.cli.common import JsonOption, errors, print_json
from unfit.errors import Unavailable

if TYPE_CHECKING:
    from unfit.experiments.study import StudyCallbacks, StudyResult


def reproduce(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            show_default=False,
            help="Figures and tables (see --list). Default: `all` of them, and a report.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Everything at small scale, on data that ships with scikit-learn, in a few "
            "minutes.",
        ),
    ] = False,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Names from the catalogue, separated by commas. Default: "
            "mnist-b,mnist,cifar2,covtype,higgs.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for runs, figures, tables and the report. Default: ./reproduction "
            "(./reproduction-quick).",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the finished runs in the folder.")
    ] = False,
    draw: Annotated[
        bool, typer.Option("--draw", help="Run nothing; draw from the finished runs.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes for the runs. Default: one per core. Times are always measured by a "
            "single process.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Use at most this many seeds.", show_default=False)
    ] = None,
    extension: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="A Python file that adds a method, a data set or a deletion law, or the name of "
            "an installed method or policy (repeatable).",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        str,
        typer.Option(help="What models minimise. Published values are of the logistic loss."),
    ] = "logistic",
    listed: Annotated[
        bool, typer.Option("--list", help="List figures, tables and data sets, and stop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments and draw its figures and tables beside the published ones.

    Data comes from the folder UNFIT_DATA, from the cache, or from the net. Every finished run is
    saved at once: a study can be stopped at any time and continued with --resume.
    """
    with errors():
        study_of, reproduced, page_of = _extra()
        from unfit.experiments.extensions import Extensions

        extensions = Extensions(tuple(extension or ()), loss)
        if listed:
            extensions.take_in()
            _list(as_json)
            return
        folder = output or Path("reproduction-quick" if quick else "reproduction")
        from unfit.core.kernels.parallel import available_threads

        named = tuple(filter(None, map(str.strip, (datasets or "").split(","))))
        study = study_of(
            folder=folder,
            names=tuple(names or ("all",)),
            datasets=named,
            quick=quick,
            seeds=seeds,
            workers=workers or available_threads(),
            resume=resume,
            draw=draw,
            extensions=extensions,
        )
        with live(as_json) as callbacks:
            outcome = reproduced(study, callbacks)
        whole = "all" in study.names
        report = folder / ("report.html" if whole else f"report-{'-'.join(study.names)}.html")
        from unfit import disk

        disk.write(report, page_of(outcome).encode())
        if as_json:
            print_json(_as_dict(outcome, report))
        else:
            _show(outcome, report)


def _extra() -> tuple[Any, Any, Any]:
    try:
        from unfit.experiments.study import Study, reproduce
        from unfit.pages.reproduction import reproduction_page
    except ImportError as missing:
        raise Unavailable(
            f"`unfit reproduce` needs {missing.name}; install it with pip install "
            "'unfit[experiments]'"
        ) from None
    return Study, reproduce, reproduction_page


def _list(as_json: bool) -> None:
    from unfit.data.catalog import CATALOG
    from unfit.experiments.plans import plans

    if as_json:
        named = {p.name: {"kind": p.kind, "title": p.title} for p in plans().values()}
        datasets = {e.name: {"title": e.title, "about": e.about} for e in CATALOG.values()}
        print_json({"plans": named, "datasets": datasets})
        return
    from rich.console import Console
    from rich.table import Table

    out = Console()
    for kind in ("figure", "table"):
        table = Table(f"{kind}s", "what it shows", "in the paper", box=None, pad_edge=False)
        for plan in plans().values():
            if plan.kind == kind:
                table.add_row(plan.name, plan.title, plan.number)
        out.print(table, "")
    table = Table("data sets", "what they are", box=None, pad_edge=False)
    for entry in CATALOG.values():
        table.add_row(entry.name, entry.about)
    out.print(table)


@contextmanager
def live(quiet: bool) -> "Iterator[StudyCallbacks]":
    """Show what is being done, how much of it is done, and about how long the rest takes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from unfit.experiments.study import StudyCallbacks
    from unfit.experiments.sweep import SweepStatus

    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[count]}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None, count="", left="")

        def preparing(stage: str, done: int, total: int) -> None:
            count = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total else ""
            bar.update(task, description=stage, completed=done, total=total or None, count=count)

        def running(state: SweepStatus) -> None:
            left = "" if state.left is None else f"about {remaining(state.left)} left,"
            bar.update(
                task,
                description="; ".join(state.doing),
                completed=state.done,
                total=state.total,
                left=left,
                count=f"{state.done:,} of {state.total:,} runs",
            )

        yield StudyCallbacks(preparing, running)


def remaining(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _as_dict(outcome: "StudyResult", report: Path) -> dict[str, Any]:
    claims = [
        {
            "claim": c.sentence,
            "summary": c.summary,
            "verdicts": {
                title: {"holds": v.holds, "figure": v.figure} for title, v in c.verdicts.items()
            },
        }
        for c in outcome.claims
    ]
    return {
        "report": report,
        "runs_done": outcome.done,
        "runs": outcome.finished,
        "seconds": round(outcome.seconds, 1),
        "written": outcome.written,
        "claims": claims,
        "agreement": [{"what": a.sentence, "within": a.within} for a in outcome.agreements],
    }


def _show(outcome: "StudyResult", report: Path) -> None:
    if len(outcome.tables) == 1 and not outcome.figures:
        typer.echo(outcome.tables[0].text())
    for found in outcome.claims:
        typer.echo(f"{found.summary:<28} {found.sentence}")
    for agreement in outcome.agreements:
        typer.echo(
            f"{'within bounds' if agreement.within else 'OUT OF BOUNDS':<28} {agreement.sentence}"
        )
    typer.echo(
        f"{outcome.done:,} runs done in {remaining(outcome.seconds)}, {outcome.finished:,} in all; "
        f"report: {report}"
    )
