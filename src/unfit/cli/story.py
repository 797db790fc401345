"""What `unfit demo` does: the whole story on made-up customers, in one folder to look at."""

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyarrow import csv
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from unfit import disk
from unfit.cli.common import duration, require_folder
from unfit.errors import BadInput
from unfit.pages.audit import audit_page
from unfit.pages.story import StoryFacts, Wave, story_page
from unfit.progress import ProgressCallback
from unfit.workspace import Workspace, init
from unfit.workspace.audit import Report
from unfit.workspace.layout import deletion_list_name
from unfit.workspace.results import Forgotten, Trained

MARK = ".unfit-demo"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """How many there are. waves: name, requests, and people in each."""

    customers: int
    contracts: int
    towns: int
    devices: int
    waves: tuple[tuple[str, int, int], ...]


WHOLE = Cast(
    customers=120_000,
    contracts=300_000,
    towns=150,
    devices=60,
    waves=(("random", 40, 1), ("targeted", 20, 8), ("informed", 40, 8)),
)
QUICK = Cast(
    customers=6_000,
    contracts=15_000,
    towns=4,
    devices=3,
    waves=(("random", 40, 1), ("targeted", 15, 20), ("informed", 40, 40)),
)
AFTERWARDS = 5  # requests after a retraining, so that the audit has something to look at


@dataclass(frozen=True)
class Served:
    """Predictions made while people were being forgotten."""

    rows: int
    by_version: dict[int, int]
    slowest: float


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened."""

    cast: Cast
    trained: Trained
    waves: Sequence[Wave]
    answers: Sequence[Forgotten]
    served: Served
    report: Report


@dataclass(frozen=True)
class Timed:
    """An answer, and the seconds from the request to it: the bytes are purged then."""

    answer: Forgotten
    seconds: float


def play(output: Path, progress: ProgressCallback, cast: Cast = WHOLE) -> Story:
    """Create the folder and play the story in it."""
    _clear(output)
    progress("making up customers", 0, 0)
    people = customers(cast)
    csv.write_csv(people, output / "customers.csv")
    init(
        output / "customers.csv",
        output / "workspace",
        label="left",
        subject="customer",
        random_state=0,
        threshold=2.0,
        audit_window="30d",
        max_categories=cast.towns,
    )
    with Workspace(output / "workspace") as ws:
        trained = ws.train(progress)
        waves, answers, served = _three_waves(ws, people, cast.waves, progress)
        progress("auditing", 0, 0)
        ws.prepare()
        report = ws.audit(random_state=0)
        status = ws.status()
    disk.write(output / "audit.html", audit_page(report, status).encode())
    pictured = StoryFacts(
        trained=trained, waves=waves, served=asdict(served), report=report, status=status
    )
    disk.write(output / "report.html", story_page(pictured).encode())
    return Story(
        cast=cast, trained=trained, waves=waves, answers=answers, served=served, report=report
    )


def as_dict(story: Story, output: Path) -> dict[str, Any]:
    return {
        "trained": story.trained.as_dict(),
        "waves": [asdict(w) for w in story.waves],
        "served": asdict(story.served),
        "audit": story.report.as_dict(),
        "report": str(output / "report.html"),
    }


def show(story: Story, output: Path) -> None:
    trained, served = story.trained, story.served
    typer.echo(
        f"{story.cast.contracts:,} contracts of {trained.subjects:,} made-up customers, some "
        f"held out\ntrained on {trained.rows:,} of the contracts, {trained.columns} columns, "
        f"in {duration(trained.seconds)}: "
        f"test accuracy {trained.accuracy:.3f}"
    )
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 100)
    console.print(_table(story.waves))
    typer.echo(
        "each: median time of a request that was answered by unlearning; retrain: of the first\n"
        "that led to a retraining. Both run from the request until all bytes are purged, and\n"
        "`faster` compares them. estimate: of the disparity, the largest"
    )
    typer.echo(
        f"meanwhile {served.rows:,} predictions were answered by {len(served.by_version)} "
        f"versions, 200 rows at a time, each within {duration(served.slowest)}"
    )
    for answer in story.answers:
        if answer.action == "retrain":
            typer.echo(f"version {answer.version} was retrained: {answer.reason}")
    typer.echo(f"audit: {story.report.verdict}")
    typer.echo(f"\nthe story with pictures: {output / 'report.html'}")
    command = "unfit" if shutil.which("unfit") else os.path.relpath(sys.argv[0])
    typer.echo(f"look around: {command} status -w {output / 'workspace'}")
    typer.echo(f"open the dashboard on it: {command} serve -w {output / 'workspace'}")


def customers(cast: Cast = WHOLE, seed: int = 0) -> pa.Table:
    """Contracts of customers; who leaves depends on all columns but region and paperless."""
    rng = np.random.default_rng(seed)
    n = cast.contracts
    who = rng.integers(0, cast.customers, n)
    age = rng.normal(45, 14, cast.customers).clip(18, 90).round()[who]
    use = rng.gamma(2.0, 12.0, n).round(1)
    price = (9.83 + 0.4 * use + rng.normal(0, 6, n)).clip(5).round(2)
    plan = rng.choice(["basic", "family", "pro"], n, p=[0.5, 0.3, 0.2])
    region = rng.choice(["north", "south", "east", "west"], cast.customers)[who]
    town = rng.integers(0, cast.towns, cast.customers)[who]
    device = rng.integers(0, cast.devices, n)
    complaints = rng.poisson(0.7, n)
    paperless = rng.random(n) < 0.6
    score = (
        -0.05 * (age - 45)
        + 0.09 * (price - 20)
        - 0.03 * (use - 24)
        + 1.0 * (complaints - 0.7)
        + 0.8 * (plan == "basic")
        - 0.9 * (plan == "pro")
        + rng.normal(0, 0.3, cast.towns)[town]
        + rng.normal(0, 0.3, cast.devices)[device]
        + rng.logistic(size=n)
    )
    gaps = rng.random(n) < 0.04
    return pa.table(
        {
            "customer": who + 100_000,
            "age": age,
            "hours_of_use": use,
            "price": pa.array(np.where(gaps, np.nan, price), from_pandas=True),
            "complaints": complaints,
            "plan": plan.tolist(),
            "region": region.tolist(),
            "town": np.array([f"town {i + 1}" for i in range(cast.towns)])[town].tolist(),
            "device": np.array([f"device {i + 1}" for i in range(cast.devices)])[device].tolist(),
            "paperless": paperless,
            "left": np.where(score > 0.3, "yes", "no").tolist(),
        }
    )


def _clear(output: Path) -> None:
    if (output / MARK).exists():
        disk.remove(output)
        disk.remove(output.with_name(deletion_list_name(output)))
    elif output.exists():
        raise BadInput(
            f"{output} already exists and is not a demo; name another folder with --output"
        )
    require_folder(output)
    output.mkdir()
    (output / MARK).touch()


def _three_waves(
    ws: Workspace,
    people: pa.Table,
    waves: Sequence[tuple[str, int, int]],
    progress: ProgressCallback,
) -> tuple[list[Wave], list[Forgotten], Served]:
    queues = _queues(people, waves)
    found: list[Wave] = []
    answers: list[Timed] = []
    done, total = 0, sum(requests for _, requests, _ in waves)
    with _Visitors(ws.folder, people.slice(0, 200)) as visitors:
        for name, requests, size in waves:
            before, last = len(answers), requests
            for i in range(requests):
                progress(f"forgetting: {name}", done + i, total)
                asked = queues[name][i * size : (i + 1) * size]
                answers.append(_forget(ws, asked, f"{name}-{i}"))
                last = i + AFTERWARDS if answers[-1].answer.action == "retrain" else last
                if i == last:  # the story goes on with the audit
                    break
            done += requests
            found.append(_wave(name, answers[before:], ws))
    return found, [one.answer for one in answers], visitors.served()


def _forget(ws: Workspace, subjects: Sequence[str], key: str) -> Timed:
    started = time.perf_counter()
    answer = ws.forget(subjects=subjects, key=key)
    return Timed(answer, time.perf_counter() - started)


def _queues(people: pa.Table, waves: Sequence[tuple[str, int, int]]) -> dict[str, list[str]]:
    """Whom each wave takes, nobody twice."""
    rng = np.random.default_rng(1)
    who = people["customer"].to_numpy()
    left = np.array(people["left"].to_pylist()) == "yes"
    numbers = np.column_stack(
        [people[c].to_numpy(zero_copy_only=False) for c in ("age", "hours_of_use", "price")]
    )
    numbers = np.nan_to_num((numbers - np.nanmean(numbers, 0)) / np.nanstd(numbers, 0))
    weight = dict(zip(who.tolist(), np.linalg.norm(numbers, axis=1).tolist(), strict=True))
    everyone, leavers = np.unique(who), np.unique(who[left])
    taken: set[int] = set()
    queues: dict[str, list[str]] = {}
    for name, requests, size in waves:
        pool = (everyone if name == "random" else leavers).tolist()
        pool = [p for p in rng.permutation(pool).tolist() if p not in taken]
        if name == "informed":
            pool.sort(key=lambda p: -weight[p])
        chosen = pool[: requests * size]
        taken.update(chosen)
        queues[name] = [str(p) for p in chosen]
    return queues


def _wave(name: str, timed: Sequence[Timed], ws: Workspace) -> Wave:
    answers = [one.answer for one in timed]
    estimates = [a.estimate for a in answers if a.estimate is not None]
    updated = [one.seconds for one in timed if one.answer.action != "retrain"]
    retrained = [one.seconds for one in timed if one.answer.action == "retrain"]
    version = ws.store.versions.active()
    return Wave(
        name=name,
        requests=len(answers),
        people=sum(a.subjects for a in answers),
        rows=sum(a.rows for a in answers),
        seconds=float(np.median(updated)) if updated else None,
        retraining=retrained[0] if retrained else None,
        estimate=max(estimates, default=0.0),
        retrainings=len(retrained),
        accuracy=0.0 if version is None else version.accuracy or 0.0,
    )


class _Visitors:
    """Ask for predictions all the time, through a workspace of their own."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._folder, self._rows = folder, rows
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._answers: Counter[int] = Counter()
        self._slowest = 0.0

    def __enter__(self) -> "_Visitors":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with Workspace(self._folder) as ws:
            while not self._stop.wait(0.02):
                started = time.perf_counter()
                made = ws.predict(self._rows)
                self._slowest = max(self._slowest, time.perf_counter() - started)
                self._answers[made.version] += made.rows

    def served(self) -> Served:
        return Served(sum(self._answers.values()), dict(self._answers), self._slowest)


def _table(waves: Sequence[Wave]) -> Table:
    table = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title="three waves of erasures"
    )
    counts, times = ("asked", "people", "rows"), ("each", "retrain", "faster", "estimate")
    for name in ("wave", *counts, *times, "accuracy"):
        table.add_column(
            name, justify="left" if name == "wave" else "right", no_wrap=True, min_width=len(name)
        )
    for w in waves:
        each, retrain = (
            "-" if seconds is None else duration(seconds) for seconds in (w.seconds, w.retraining)
        )
        faster = "-" if w.faster is None else f"{w.faster:.0f}x"
        counts = (str(w.requests), f"{w.people:,}", f"{w.rows:,}")
        figures = (each, retrain, faster, f"{w.estimate:.2f} %", f"{w.accuracy:.3f}")
        table.add_row(w.name, *counts, *figures)
    return table
