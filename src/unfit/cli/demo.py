"""`unfit demo`: train, forget with each method, audit; one table and one picture."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from unfit import LogisticRegression, MaxNormScaler
from unfit.methods import METHODS

VOLUMES = (0.01, 0.10, 0.25)
REPEATS = 5


@dataclass(frozen=True)
class Result:
    """One method at one volume. Times in seconds, AccErr and AccDis in percent."""

    method: str
    volume: float
    rows: int
    seconds: float
    prepare_seconds: float
    sgd_seconds: float
    accuracy: float
    retrained_accuracy: float
    acc_err: float
    acc_dis: float
    passed: bool


def demo(
    output: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo.png"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON, no table.")
    ] = False,
) -> None:
    """Train on handwritten digits, forget rows with each method, and audit every one of them.

    The rows to forget are chosen to hurt: all of one class, the largest first. Takes a few seconds
    once the kernels are compiled (the first run compiles them).
    """
    if not output.resolve().parent.is_dir():
        typer.echo(f"no folder {output.parent} to put {output.name} in", err=True)
        raise typer.Exit(2)
    X, y, X_test, y_test = _digits()
    console = Console(stderr=True)
    results = []
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console,
        transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("compiling", total=len(VOLUMES) * len(METHODS))
        _warm_up(X, y)
        for volume in VOLUMES:
            rows = _worst_rows(X, y, volume)
            keep = np.delete(np.arange(len(y)), rows)
            sgd = _retraining(X[keep], y[keep])
            for method in METHODS:
                progress.update(task, description=f"forgetting {volume:.0%} with {method}")
                results.append(_forget(method, X, y, X_test, y_test, rows, volume, sgd))
                progress.advance(task)
    drawn = _draw(results, output)
    if as_json:
        typer.echo(json.dumps([asdict(r) for r in results]))
        return
    Console().print(_table(results, len(y)))
    typer.echo(
        "prepare: work ahead of the next request. faster: than retraining by SGD; the row\n"
        "'retrain' is the fastest exact way. AccErr, AccDis: how far the accuracy is from a\n"
        "retrained model's, on test rows and on the forgotten rows (0 % is perfect).\n"
        "Over 1 % of AccDis the audit says retrain."
    )
    if drawn:
        typer.echo(f"picture: {output}")
    else:
        typer.echo("no picture: pip install 'unfit[plots]'")


def _digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, digit = load_digits(return_X_y=True)
    labels = np.where(digit < 5, "0 to 4", "5 to 9")
    X, X_test, y, y_test = train_test_split(X, labels, test_size=0.25, random_state=0)
    scaler = MaxNormScaler().fit(X)
    return (
        scaler.transform(X).astype(np.float32), y,
        scaler.transform(X_test).astype(np.float32), y_test,
    )  # fmt: skip


def _worst_rows(X: np.ndarray, y: np.ndarray, volume: float) -> np.ndarray:
    """Targeted and informed: rows of one class, largest norm first."""
    rows = np.flatnonzero(y == "0 to 4")
    norms = np.linalg.norm(X[rows], axis=1)
    return rows[np.argsort(-norms, kind="stable")][: round(volume * len(y))]


def _model(method: str, **changes: object) -> LogisticRegression:
    model = LogisticRegression(epochs=200, batch_size=128, random_state=0)
    model.set_params(method=method, **changes)
    return model


def _warm_up(X: np.ndarray, y: np.ndarray) -> None:
    for method in METHODS:
        _model(method, epochs=1).fit(X, y).unlearn([0, 1])


def _retraining(X: np.ndarray, y: np.ndarray) -> float:
    """Seconds of SGD from scratch, as in the paper; best of several."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        _model("retrain", solver="sgd").fit(X, y)
        best = min(best, time.perf_counter() - start)
    return best


def _forget(
    method: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray,
    rows: np.ndarray, volume: float, sgd: float,
) -> Result:  # fmt: skip
    taken = float("inf")
    for _ in range(REPEATS):
        clf = _model(method).fit(X, y)
        start = time.perf_counter()
        clf.unlearn(rows)
        taken = min(taken, time.perf_counter() - start)
    start = time.perf_counter()
    clf.prepare()
    prepare = time.perf_counter() - start
    audit = clf.audit(X_test, y_test, random_state=1)
    return Result(
        method, volume, len(rows), taken, prepare, sgd, audit.accuracy_updated,
        audit.accuracy_retrained, audit.acc_err, audit.acc_dis or 0.0, audit.passed,
    )  # fmt: skip


def _table(results: list[Result], n: int) -> Table:
    title = f"Forgetting some of {n:,} handwritten digits"
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column("method", no_wrap=True)
    for column in ("rows", "time", "prepare", "faster", "accuracy", "AccErr", "AccDis"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("audit", no_wrap=True)
    for i, r in enumerate(results):
        table.add_row(
            r.method,
            f"{r.rows}",
            f"{1e3 * r.seconds:.2f} ms",
            f"{1e3 * r.prepare_seconds:.1f} ms",
            f"{r.sgd_seconds / r.seconds:,.0f}x",
            f"{r.accuracy:.3f}",
            f"{r.acc_err:.2f} %",
            f"{r.acc_dis:.2f} %",
            "passed" if r.passed else "retrain",
            end_section=(i + 1) % len(METHODS) == 0,
        )
    return table


def _draw(results: list[Result], output: Path) -> bool:
    """Speed-up against disparity; False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
    except ImportError:
        return False
    colours = dict(zip(METHODS, ("#0072B2", "#E69F00", "#009E73", "#555555"), strict=False))
    sizes = dict(zip(VOLUMES, (45, 120, 260), strict=True))
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for method in METHODS:
        points = [r for r in results if r.method == method]
        x, y = [r.sgd_seconds / r.seconds for r in points], [r.acc_dis for r in points]
        axes.plot(x, y, color=colours[method], linewidth=1, alpha=0.5)
        axes.scatter(
            x, y, s=[sizes[r.volume] for r in points], color=colours[method], edgecolor="white",
            zorder=3,
        )  # fmt: skip
    axes.axhline(1, color="#888888", linestyle="--", linewidth=1)
    axes.annotate(
        "over this the audit says retrain", (0.01, 1), xycoords=("axes fraction", "data"),
        textcoords="offset points", xytext=(0, 4), color="#666666", fontsize=9,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("speed-up over retraining by SGD (faster to the right)")
    axes.set_ylabel("AccDis, % (0: as if the rows had never been there)")
    axes.set_title("How fast and how well each method forgets")
    marks = [
        axes.scatter([], [], s=sizes[v], color="#aaaaaa", label=f"{v:.0%}", edgecolor="white")
        for v in VOLUMES
    ]
    beside = {"frameon": False, "alignment": "left", "borderaxespad": 0}
    first = axes.legend(
        handles=[axes.scatter([], [], s=60, color=colours[m], label=m) for m in METHODS],
        title="method", loc="upper left", bbox_to_anchor=(1.02, 1), **beside,
    )  # fmt: skip
    axes.add_artist(first)
    axes.legend(
        handles=marks, title="rows forgotten", loc="upper left", bbox_to_anchor=(1.02, 0.6),
        labelspacing=1.1, **beside,
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=-0.2)
    figure.savefig(output, dpi=150)
    return True
