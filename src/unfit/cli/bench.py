"""`unfit bench`: speed against the alternatives and the limits, in one run on this machine.

The comparisons live in benchmarks/, beside the source or inside the installed package.
"""

import importlib
import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unfit.cli.common import errors, print_json, require_folder
from unfit.errors import BadInput, Unavailable, UnfitError

if TYPE_CHECKING:
    from rich.table import Table

SPARSE = "sparse"  # the section of sparse data sets, which are for no other
NEED_SGD = ("accuracy", "training", "deltagrad", "batches", "memory")  # that walk through rows
NEED_DASK = ("cluster",)
COLUMNS = ("section", "data", "what", "unfit", "against", "takes", "ratio")


def bench(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Built-in data only; takes under two minutes.")
    ] = False,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run only this data set (repeatable).")
    ] = None,
    section: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this section: forgetting, stream, fit, sparse ... (repeatable)."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Who holds unfit's rows: cpu, torch, dask, auto ... Default: UNFIT_ENGINE."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where to write the figures, as JSON.")] = Path(
        "bench.json"
    ),
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the table as Markdown to this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON instead of a table.")
    ] = False,
) -> None:
    """Measure training and forgetting against scikit-learn, PyTorch and this machine's limits.

    Ratios above 1 mean that unfit is faster; against a limit, they are the share that is reached;
    against its preparation, how much longer that takes than the request.
    The full run needs MNIST, MNIST-b, CIFAR2, COVTYPE, 20 Newsgroups, news20 and a9a: from the
    folder named by UNFIT_DATA, the cache, or the net.
    """
    from unfit.fitted_steps import FittedStepWarning

    with errors():
        for path in (output, markdown):
            if path is not None:
                require_folder(path)
        benchmarks = _Benchmarks.load()
        datasets = benchmarks.chosen_datasets(dataset, quick)
        with warnings.catch_warnings():
            # The data sets are scaled to norm 1 by their longest row, as in the paper; nobody is in
            # them.
            warnings.simplefilter("ignore", FittedStepWarning)
            chosen = benchmarks.chosen_sections(section, quick)
            with _engine(engine) as used:
                sections, left_out = _possible(chosen, used, named=section is not None)
                if left_out:
                    typer.echo(left_out, err=True)
                rows = _measure(benchmarks, datasets, sections)
        machine = {**benchmarks.machine(), "engine": used}
        figures = {"machine": machine, "rows": [row.as_dict() for row in rows]}
        output.write_text(json.dumps(figures, indent=1) + "\n")
        if markdown is not None:
            markdown.write_text(_markdown(machine, rows))
    if as_json:
        print_json(figures)
        return
    from rich.console import Console

    out = Console()
    if not out.is_terminal:  # a file or a pipe has no width to keep to
        out = Console(width=140)
    out.print(_table(machine, rows))
    typer.echo(f"figures: {output}")


@dataclass(frozen=True, kw_only=True)
class _Benchmarks:
    """What benchmarks/ holds: data sets, and sections that run once or once per data set."""

    datasets: dict[str, ModuleType]
    per_dataset: dict[str, Callable[..., Iterator[Any]]]
    once: dict[str, Callable[[], Iterator[Any]]]
    machine: Callable[[], dict[str, object]]

    @classmethod
    def load(cls) -> "_Benchmarks":
        root = _package()
        sections = importlib.import_module(f"{root}.sections")
        footprint = importlib.import_module(f"{root}.footprint")
        newton = importlib.import_module(f"{root}.newton")
        cluster = importlib.import_module(f"{root}.cluster")
        sparse = importlib.import_module(f"{root}.sparse")
        return cls(
            datasets=_modules(root, "datasets"),
            per_dataset={
                **sections.PER_DATASET,
                "fit": newton.fit,
                "batches": newton.batches,
                "memory": footprint.memory,
                SPARSE: sparse.sparse,
            },
            once={
                "scaling": sections.scaling,
                "start-up": footprint.start_up,
                "cluster": cluster.cluster,
            },
            machine=importlib.import_module(f"{root}.measure").machine,
        )

    def chosen_datasets(self, named: list[str] | None, quick: bool) -> list[str]:
        chosen = named or [n for n, module in self.datasets.items() if quick == module.QUICK]
        return _known("data set", chosen, list(self.datasets))

    def chosen_sections(self, named: list[str] | None, quick: bool) -> list[str]:
        every = [*self.per_dataset, *self.once]
        lacking = quick or not importlib.util.find_spec("distributed")
        built_in = [name for name in every if not (lacking and name in NEED_DASK)]
        return _known("section", named or built_in, every)

    def sections_of(self, dataset: str) -> list[str]:
        """Those a data set is for: what it says, or all of dense rows."""
        dense = [section for section in self.per_dataset if section != SPARSE]
        return list(getattr(self.datasets[dataset], "SECTIONS", dense))


@contextmanager
def _engine(name: str | None) -> Iterator[str]:
    """The engine of every model that is made inside, by name."""
    from unfit.engines.base import AUTO, ENGINES, ENVIRONMENT, engine_name

    before, used = os.environ.get(ENVIRONMENT), name or engine_name()
    if used != AUTO:
        ENGINES.find(used)  # says what is wrong before any work
    os.environ[ENVIRONMENT] = used
    try:
        yield used
    finally:
        os.environ.pop(ENVIRONMENT)
        if before is not None:
            os.environ[ENVIRONMENT] = before


def _possible(chosen: list[str], engine: str, *, named: bool) -> tuple[list[str], str]:
    """The sections that an engine can run, and a sentence on those that it cannot; an error where
    one of these was named."""
    from unfit.engines.base import AUTO, ENGINES

    walks = engine == AUTO or getattr(ENGINES.find(engine), "walks_through_rows", True)
    lost = [] if walks else [name for name in chosen if name in NEED_SGD]
    if not lost:
        return chosen, ""
    why = f"the engine {engine!r} does not walk through rows, which SGD and DELTAGRAD do"
    if named:
        raise Unavailable(f"{why}: it cannot run the section {lost[0]!r}; choose another engine")
    return [n for n in chosen if n not in lost], f"left out, because {why}: {', '.join(lost)}"


def _known(what: str, chosen: list[str], every: Sequence[str]) -> list[str]:
    for name in chosen:
        if name not in every:
            raise BadInput(f"unknown {what} {name!r}; there are {', '.join(every)}")
    return chosen


def _measure(
    benchmarks: _Benchmarks, datasets: Sequence[str], sections: Sequence[str]
) -> list[Any]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    rows: list[Any] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        for name in datasets:
            wanted = [section for section in sections if section in benchmarks.sections_of(name)]
            if not wanted:
                continue
            progress.update(task, description=f"{name}: loading")
            try:
                data = benchmarks.datasets[name].load()
            except UnfitError as missing:
                raise Unavailable(f"{missing}, or use --quick") from None
            for section in wanted:
                progress.update(task, description=f"{name}: {section}")
                rows += list(benchmarks.per_dataset[section](data))
        for section in sections:
            if section in benchmarks.once:
                progress.update(task, description=section)
                rows += list(benchmarks.once[section]())
    return rows


def _title(machine: dict[str, object]) -> str:
    versions = machine["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    where = f"{machine['processor']}, {machine['cores']} cores, engine {machine['engine']}"
    return f"{where}; {named}"


def _cells(row: Any) -> tuple[str, ...]:
    """The cells of a row, in the order of COLUMNS."""
    ratio = f"{row.ratio:,.3g}x" if row.ratio < 1000 else f"{row.ratio:,.0f}x"
    return (row.section, row.dataset, row.what, row.ours, row.against, row.theirs, ratio)


def _markdown(machine: dict[str, object], rows: list[Any]) -> str:
    lines = [_title(machine), "", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in _cells(row))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _table(machine: dict[str, object], rows: list[Any]) -> "Table":
    from rich.table import Table

    table = Table(title=_title(machine), title_justify="left")
    for column in COLUMNS[:-1]:
        table.add_column(column, overflow="fold")
    table.add_column(COLUMNS[-1], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _package() -> str:
    """Import benchmarks/ under a name of its own, from the wheel or from the source tree."""
    name = "unfit_benchmarks"
    if name not in sys.modules:
        here = Path(__file__).resolve().parents[1]
        places = [here / "_benchmarks", here.parents[1] / "benchmarks"]
        found = next((p for p in places if (p / "__init__.py").exists()), None)
        if found is None:
            raise Unavailable(f"the benchmarks are not installed (looked in {places[0]})")
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
