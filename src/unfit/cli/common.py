"""What the commands share: options, finding the workspace, errors, progress and JSON output.

Nothing heavy is imported here or at the top of a command's module: every command pays for what it
uses and for nothing else.
"""

import json
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unfit.errors import BadInput, UnfitError
from unfit.progress import ProgressCallback

DEFAULT = "unfit-workspace"
UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
PURGED_BY = (
    "the next `unfit forget`, `predict`, `audit`, `retrain` or `export` purges what is left, "
    "and a running `unfit serve` does so within half a minute"
)
_IMPORTED = time.perf_counter()

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        envvar="UNFIT_WORKSPACE",
        show_default=False,
        help="Folder of the workspace. Default: this folder if it is a workspace, otherwise "
        "./unfit-workspace.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
FORMAT = typer.Option(
    help="csv, parquet, libsvm or an installed format. Default: by the file's name."
)


def find_workspace(named: Path | None) -> Path:
    if named is not None:
        return named
    from unfit.workspace.layout import CONFIG_FILE

    return Path() if Path(CONFIG_FILE).is_file() else Path(DEFAULT)


@contextmanager
def errors() -> Iterator[None]:
    """Turn errors that a person can fix into one sentence and an exit code."""
    try:
        yield
    except UnfitError as error:
        typer.echo(f"unfit: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None
    except OSError as error:
        where = f": {os.path.abspath(error.filename)}" if isinstance(error.filename, str) else ""
        typer.echo(f"unfit: {error.strerror or error}{where}; nothing was changed", err=True)
        raise typer.Exit(2) from None
    except MemoryError:
        typer.echo("unfit: not enough memory; nothing was changed", err=True)
        raise typer.Exit(2) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception:  # Python would exit with 1, which says that somebody is not forgotten
        traceback.print_exc()
        typer.echo("unfit: an unexpected error; please report it with the lines above", err=True)
        raise typer.Exit(UNEXPECTED) from None


@contextmanager
def progress_bar(quiet: bool) -> Iterator[ProgressCallback]:
    """A bar on stderr that names the stage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None, count="")

        def progress(stage: str, done: int, total: int) -> None:
            count = f"{done:,}" + (f" of {total:,}" if total else "")
            bar.update(
                task,
                description=stage,
                completed=done,
                total=total or None,
                count=count if done else "",
            )

        yield progress


def print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, default=str))


def require_folder(path: Path) -> None:
    """Refuse a file to write that is a folder or lies in none, before any work is done."""
    if path.is_dir():
        raise BadInput(f"{path.absolute()} is a folder; name a file to write")
    if not path.resolve().parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} to put {path.name} in")


def seconds_since_start() -> float:
    """Seconds since this process was started, imports included; where the system does not tell,
    since this module was imported."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shortened(texts: Sequence[str], most: int = 5) -> str:
    """The first few texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(t if len(t) <= 40 else f"{t[:37]}..." for t in texts[:most]) + more
