"""A study: from the names of figures and tables to finished runs, pictures, tables and claims."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import pandas as pd

from unfit import disk
from unfit.data import catalog
from unfit.errors import BadInput, Unavailable
from unfit.experiments.agreement import Agreement, agreements, farther
from unfit.experiments.claims import Claim, claims
from unfit.experiments.extensions import Extensions
from unfit.experiments.figures import FIGURES, draw
from unfit.experiments.findings import Findings, subject_of
from unfit.experiments.machine import machine
from unfit.experiments.plans import Effort, Plan, plans
from unfit.experiments.runs import Run, Runs
from unfit.experiments.sweep import StatusCallback, sweep
from unfit.experiments.table import Table
from unfit.experiments.tables import BESIDE, TABLES
from unfit.experiments.workbench import Workbench
from unfit.progress import ProgressCallback

PAPER = ("mnist-b", "mnist", "cifar2", "covtype", "higgs")
QUICK = ("digits-b", "digits", "breast-cancer")


# Its name is older than the word provenance; studies of every version have it.
PROVENANCE = "makings.json"


@dataclass(frozen=True)
class Study:
    """What to reproduce. names: of plans, or `all`; an empty tuple of data sets: the paper's."""

    folder: Path
    names: tuple[str, ...] = ("all",)
    datasets: tuple[str, ...] = ()
    quick: bool = False
    seeds: int | None = None
    workers: int = 1
    resume: bool = False
    draw: bool = False  # from the finished runs alone
    extensions: Extensions = field(default_factory=Extensions)


@dataclass(frozen=True)
class StudyCallbacks:
    """Called while data is prepared, and while runs are made."""

    preparing: ProgressCallback | None = None
    running: StatusCallback | None = None


@dataclass(frozen=True)
class Drawn:
    """A plan's figures: SVG files by name. share: of the plan's runs that are there."""

    plan: Plan
    pictures: dict[str, Path]
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """The result of a study. done: runs done this time; finished: runs that there are by now;
    seconds: how long it took this time."""

    findings: Findings
    figures: list[Drawn]
    tables: list[Table]
    claims: list[Claim]
    agreements: list[Agreement]
    farther: pd.DataFrame
    machine: dict[str, object]
    done: int
    finished: int
    seconds: float
    quick: bool
    written: list[Path] = field(default_factory=list)
    data: list[Table] = field(default_factory=list)  # what figures were drawn from
    missing: list[Run] = field(default_factory=list)  # runs that the plans name and nobody did


def chosen(names: Sequence[str]) -> list[Plan]:
    known = plans()
    if not names or "all" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            raise BadInput(f"there is no figure or table {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def reproduce(study: Study, callbacks: StudyCallbacks | None = None) -> StudyResult:
    """Run what is missing, then draw and tabulate."""
    callbacks = callbacks or StudyCallbacks()
    wanted_plans = chosen(study.names)
    study.extensions.take_in()
    names = study.datasets or (QUICK if study.quick else PAPER)
    for name in names:
        catalog.find(name)
    with alone_in(study.folder):
        return _reproduce(study, wanted_plans, names, callbacks)


def _reproduce(
    study: Study, wanted_plans: list[Plan], names: Sequence[str], callbacks: StudyCallbacks
) -> StudyResult:
    start = monotonic()
    _check_folder(study)
    workbenches = {
        name: Workbench(
            catalog.load(name, callbacks.preparing),
            study.folder / "models",
            study.extensions.loss,
        )
        for name in names
    }
    _check_provenance(study, workbenches)
    runs = Runs(study.folder)
    effort = Effort(study.seeds or (2 if study.quick else None), 2 if study.quick else 1)
    wanted = {
        plan.name: [run for bench in workbenches.values() for run in plan.runs(bench, effort)]
        for plan in wanted_plans
    }
    done = 0
    if not study.draw:
        every = [run for named in wanted.values() for run in named]
        done = sweep(runs, every, workbenches, study.workers, study.extensions, callbacks.running)
    _note_machine(study, done, monotonic() - start)
    outcome = finish(study, runs, wanted, workbenches, done)
    return replace(outcome, seconds=monotonic() - start)


def finish(
    study: Study,
    runs: Runs,
    wanted: Mapping[str, Sequence[Run]],
    workbenches: dict[str, Workbench],
    done: int,
) -> StudyResult:
    """Figures, tables and claims from the finished runs. wanted: runs by the name of their plan."""
    subjects = tuple(subject_of(bench.data) for bench in workbenches.values())
    frame = runs.frame()
    frame = frame[frame["dataset"].isin(workbenches)]
    findings = Findings(frame, subjects)
    figures, tables, data, written = [], [], [], []
    every = dict.fromkeys(run for named in wanted.values() for run in named)
    missing = runs.missing(every)
    absent = set(missing)
    for plan in chosen(study.names):
        if plan.name in FIGURES:
            if not any(s.volumes for s in findings.real):
                continue  # data for speed only has no accuracies to draw
            pictures = draw(plan.name, findings, study.folder / "figures")
            named = set(wanted[plan.name])
            share = 1 - len(named & absent) / max(1, len(named))
            figures.append(Drawn(plan, pictures, share))
            written += list(pictures.values())
            if plan.name in BESIDE:
                beside = BESIDE[plan.name](findings)
                beside.write(study.folder / "tables")
                data.append(beside)
                written.append(study.folder / "tables" / f"{plan.name}.csv")
        else:
            table = TABLES[plan.name](findings)
            table.write(study.folder / "tables")
            tables.append(table)
            written.append(study.folder / "tables" / f"{plan.name}.txt")
    return StudyResult(
        findings=findings,
        figures=figures,
        tables=tables,
        claims=claims(findings),
        agreements=agreements(findings),
        farther=farther(findings),
        machine=machine(),
        done=done,
        finished=len(every) - len(missing),
        seconds=0.0,
        quick=study.quick,
        written=written,
        data=data,
        missing=missing,
    )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One study at a time in a folder; the system releases the lock when a process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / ".lock", wait=False) as mine:
        if not mine:
            raise Unavailable(f"another process is working in {folder}")
        for left in (*folder.glob(f".*{disk.TEMPORARY}"), *folder.glob(f"*/.*{disk.TEMPORARY}")):
            disk.remove(left)
        yield


def _check_folder(study: Study) -> None:
    there = (study.folder / "runs.parquet").exists() or (study.folder / "runs.journal").exists()
    if there and not (study.resume or study.draw):
        raise Unavailable(
            f"{study.folder} holds finished runs; continue them with --resume, or name another "
            "--output"
        )


def _check_provenance(study: Study, workbenches: dict[str, Workbench]) -> None:
    """Refuse to continue runs whose data sets or extensions have changed since."""
    path = study.folder / PROVENANCE
    known = json.loads(path.read_text()) if path.exists() else {}
    now = {f"data set {name}": bench.provenance for name, bench in workbenches.items()}
    now |= dict(study.extensions.digests())
    for what, provenance in now.items():
        if known.get(what, provenance) != provenance:
            raise Unavailable(
                f"{what} is not what it was for the runs in {study.folder}; name another --output"
            )
    disk.write(path, json.dumps(known | now, indent=1).encode())


def _note_machine(study: Study, done: int, seconds: float) -> None:
    """One line for each time runs were done: when, where, how many, how long."""
    if done:
        path = study.folder / "sessions.jsonl"
        before = path.read_bytes() if path.exists() else b""
        line = json.dumps(machine() | {"runs": done, "seconds": round(seconds, 1)})
        disk.write(path, before + line.encode() + b"\n")
