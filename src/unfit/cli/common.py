"""What the commands share: finding the workspace, errors in a sentence, progress, JSON."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from unfit.errors import UnfitError

if TYPE_CHECKING:
    from unfit.progress import ProgressCallback

DEFAULT = "unfit-workspace"
REMOVES = (
    "the next `unfit forget`, `predict`, `audit`, `retrain` or `export` removes what is left, "
    "and a running `unfit serve` does within a second or so"
)
_IMPORTED = time.perf_counter()

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", envvar="UNFIT_WORKSPACE", show_default=False,
        help="The workspace's folder. By default this folder if it is one, else ./unfit-workspace.",
    ),
]  # fmt: skip
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


def find_workspace(named: Path | None) -> Path:
    if named is not None:
        return named
    return Path() if Path("unfit.toml").is_file() else Path(DEFAULT)


@contextmanager
def errors() -> Iterator[None]:
    """One sentence and an exit code, whatever goes wrong that a person can put right."""
    try:
        yield
    except UnfitError as error:
        typer.echo(f"unfit: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None
    except OSError as error:
        where = f": {Path(error.filename).name}" if error.filename else ""
        typer.echo(f"unfit: {error.strerror or error}{where}; nothing was changed", err=True)
        raise typer.Exit(2) from None
    except MemoryError:
        typer.echo("unfit: not enough memory; nothing was changed", err=True)
        raise typer.Exit(2) from None


@contextmanager
def progress(quiet: bool) -> Iterator["ProgressCallback"]:
    """A bar on stderr that names the stage."""
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=30),
        TextColumn("{task.fields[count]}"), TimeElapsedColumn(),
        console=console, transient=True, disable=quiet or not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None, count="")

        def update(stage: str, done: int, of: int) -> None:
            count = f"{done:,}" + (f" of {of:,}" if of else "")
            bar.update(task, description=stage, completed=done, total=of or None,
                       count=count if done else "")  # fmt: skip

        yield update


def say(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, default=str))


def since_start() -> float:
    """Seconds since this process was started, imports and all; where the system does not say, since
    this module was imported."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def took(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
