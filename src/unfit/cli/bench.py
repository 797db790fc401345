"""`unfit bench`: speed against the alternatives and the limits, in one run on this machine.

The comparisons live in benchmarks/, beside the source or inside the installed package.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from unfit.errors import UnfitError

COLUMNS = ("section", "data", "what", "unfit", "against", "takes", "ratio")


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Built-in data only, under two minutes.")
    ] = False,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run only this data set (can be repeated).")
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this section: forgetting, stream, training ... (can be repeated)."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where the figures go, as JSON.")] = Path(
        "bench.json"
    ),
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the table as Markdown to this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON, no table.")
    ] = False,
) -> None:
    """Measure training and forgetting against scikit-learn, PyTorch and this machine's limits.

    Ratios above 1 mean that unfit is faster; against a limit, they are the share reached.
    The full run needs MNIST-b, CIFAR2 and COVTYPE: from the folder named by UNFIT_DATA, the cache,
    or the net.
    """
    for path in (output, markdown):
        if path is not None and not path.resolve().parent.is_dir():
            typer.echo(f"no folder {path.parent} to put {path.name} in", err=True)
            raise typer.Exit(2)
    root = _package()
    known = _modules(root, "datasets")
    wanted = dataset or [name for name, module in known.items() if quick == module.QUICK]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        typer.echo(f"unknown data set {unknown[0]!r}; there are {', '.join(known)}", err=True)
        raise typer.Exit(2)
    sections = importlib.import_module(f"{root}.sections")
    footprint = importlib.import_module(f"{root}.footprint")
    once = {"scaling": sections.scaling, "start-up": footprint.start_up}
    per_dataset = {**sections.PER_DATASET, "memory": footprint.memory}
    chosen = section or [*per_dataset, *once]
    wrong = [name for name in chosen if name not in per_dataset and name not in once]
    if wrong:
        typer.echo(
            f"unknown section {wrong[0]!r}; there are {', '.join([*per_dataset, *once])}", err=True
        )
        raise typer.Exit(2)

    machine = importlib.import_module(f"{root}.measure").machine()
    console = Console(stderr=True)
    rows = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
        transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("starting", total=None)
        for name in wanted:
            progress.update(task, description=f"{name}: loading")
            try:
                data = known[name].load()
            except UnfitError as missing:
                typer.echo(f"{missing}, or use --quick", err=True)
                raise typer.Exit(2) from None
            for step in chosen:
                if step in per_dataset:
                    progress.update(task, description=f"{name}: {step}")
                    rows += list(per_dataset[step](data))
        for step in chosen:
            if step in once:
                progress.update(task, description=step)
                rows += list(once[step]())

    figures = {"machine": machine, "rows": [row.as_dict() for row in rows]}
    output.write_text(json.dumps(figures, indent=1) + "\n")
    if markdown is not None:
        markdown.write_text(_markdown(machine, rows))
    if as_json:
        typer.echo(json.dumps(figures))
        return
    out = Console()
    if not out.is_terminal:  # a file or a pipe has no width to keep to
        out = Console(width=140)
    out.print(_table(machine, rows))
    typer.echo(f"figures: {output}")


def _title(machine: dict[str, object]) -> str:
    versions = machine["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    return f"{machine['processor']}, {machine['cores']} cores; {named}"


def _ratio(value: float) -> str:
    return f"{value:,.3g}x" if value < 1000 else f"{value:,.0f}x"


def _markdown(machine: dict[str, object], rows: list) -> str:
    lines = [_title(machine), "", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        cells = (row.section, row.dataset, row.what.replace("|", "\\|"), row.ours, row.against,
                 row.theirs, _ratio(row.ratio))  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _table(machine: dict[str, object], rows: list) -> Table:
    table = Table(title=_title(machine), title_justify="left")
    for column in COLUMNS[:-1]:
        table.add_column(column, overflow="fold")
    table.add_column(COLUMNS[-1], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.section, row.dataset, row.what, row.ours, row.against, row.theirs,
            _ratio(row.ratio),
        )  # fmt: skip
    return table


def _package() -> str:
    """Import benchmarks/ under a name of its own, from the wheel or from the source tree."""
    name = "unfit_benchmarks"
    if name not in sys.modules:
        here = Path(__file__).resolve().parents[1]
        places = [here / "_benchmarks", here.parents[1] / "benchmarks"]
        found = next((p for p in places if (p / "__init__.py").exists()), None)
        if found is None:
            typer.echo(f"the benchmarks are not installed (looked in {places[0]})", err=True)
            raise typer.Exit(2)
        spec = importlib.util.spec_from_file_location(
            name, found / "__init__.py", submodule_search_locations=[str(found)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return name


def _modules(root: str, folder: str) -> dict[str, ModuleType]:
    """Every module of a folder of benchmarks/, by its NAME."""
    package = importlib.import_module(f"{root}.{folder}")
    names = sorted(p.stem for p in Path(package.__path__[0]).glob("*.py") if p.stem != "__init__")
    modules = [importlib.import_module(f"{root}.{folder}.{name}") for name in names]
    return {module.NAME: module for module in modules}
