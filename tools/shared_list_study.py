"""Two workspaces on one deletion list, erasures and kill -9 at random: is anybody remembered?

    python tools/shared_list_study.py --minutes 10

Each workspace has a process that forgets people one request after another, and now and then
retrains. Processes are killed at random moments, or at a random step of their work, and started
again; now and then a workspace that was killed is replaced by an older copy of itself. Between, and
in the end, everybody on the list is looked for in the rows of both workspaces. The list is read
here, line by line, and not by what is tested.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from unfit import points
from unfit.data.dataset import Dataset
from unfit.workspace import Workspace, init

NAMES = ("a", "b")
RETRAIN, RESTORE, BACKUP = 0.01, 0.1, 0.25  # chances: of a request, of a kill, of a kill
CHECK_EVERY = 5  # kills
LONGEST = 6.0  # seconds until a process is killed
STEPS = 60  # named points of the code until a process kills itself
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["unfit.workspace.workspace", "unfit.core.newton"])


@dataclass
class Figures:
    """What happened, and who is remembered though the list names them."""

    seconds: float = 0.0
    kills: int = 0
    killed_in_a_step: int = 0
    restores: int = 0
    checks: int = 0
    torn_lines: int = 0
    lines: int = 0
    ids_on_the_list: int = 0
    answered: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    answered_but_not_listed: int = 0
    said_to_be_caught_up_but_remembered: int = 0
    remembered: dict[str, int] = field(default_factory=dict)
    caught_up: dict[str, bool] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return (
            not any(self.remembered.values())
            and all(self.caught_up.values())
            and not self.said_to_be_caught_up_but_remembered
            and not self.answered_but_not_listed
        )


def people(subjects: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    n = 2 * subjects
    who = np.concatenate([np.arange(subjects), rng.integers(0, subjects, n - subjects)])
    X = rng.normal(size=(n, 4))
    label = np.where(X @ [1.0, -1.0, 0.5, 0.0] + rng.logistic(size=n) > 0, "yes", "no")
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(4)}
    return pa.table({"person": [f"s{i:05d}" for i in who], **columns, "label": label.tolist()})


def make(folder: Path, subjects: int, seed: int) -> None:
    """Two workspaces of the same people, with one list."""
    source = folder / "people.parquet"
    parquet.write_table(people(subjects, seed), source)
    for name in NAMES:
        init(source, folder / name, label="label", subject="person", threshold=50.0)
        toml = folder / name / "unfit.toml"
        toml.write_text(toml.read_text().replace(f'"../{name}.forgotten"', '"../shared.forgotten"'))
        with Workspace(folder / name) as ws:
            ws.train()
        (folder / f"{name}.answered").touch()


def forget_people(folder: Path, name: str, subjects: int, seed: int, dies_after: int) -> None:
    """A process: one request after another, until it is killed."""
    left = dies_after

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    points.observer = count if dies_after else None
    rng = np.random.default_rng(seed)
    with Workspace(folder / name) as ws, (folder / f"{name}.answered").open("a") as answered:
        while True:
            asked = [f"s{i:05d}" for i in rng.integers(0, subjects, rng.integers(1, 3))]
            ws.forget(subjects=asked)
            answered.write("".join(f"{person}\n" for person in asked))
            answered.flush()
            if rng.random() < RETRAIN:
                ws.retrain()


class Study:
    def __init__(self, folder: Path, subjects: int, seed: int, by_the_clock: bool) -> None:
        self.folder, self.subjects, self.by_the_clock = folder, subjects, by_the_clock
        self.rng = np.random.default_rng(seed)
        self.found = Figures()
        self.running: dict[str, multiprocessing.process.BaseProcess] = {}

    def run(self, seconds: float, kills: int | None) -> Figures:
        started = time.monotonic()
        for name in NAMES:
            self.start(name)
        while time.monotonic() - started < seconds and (kills is None or self.found.kills < kills):
            self.kill_one()
            if self.found.kills % CHECK_EVERY == 0:
                self.stop()
                self.check()
                for name in NAMES:
                    self.start(name)
        self.stop()
        self.found.seconds = round(time.monotonic() - started, 1)
        self.conclude()
        return self.found

    def start(self, name: str) -> None:
        at_a_step = not self.by_the_clock or self.rng.random() < 0.5
        steps = int(self.rng.integers(1, STEPS)) if at_a_step else 0
        arguments = (self.folder, name, self.subjects, int(self.rng.integers(2**31)), steps)
        self.running[name] = _context.Process(target=forget_people, args=arguments)
        self.running[name].start()

    def kill_one(self) -> None:
        """Wait for a process to kill itself, or kill one at a random moment."""
        until = time.monotonic() + self.rng.uniform(0.05, LONGEST)
        while not self.by_the_clock or time.monotonic() < until:
            dead = [name for name, process in self.running.items() if process.exitcode is not None]
            if dead:
                self.bury(dead[0], itself=True)
                return
            time.sleep(0.01)
        self.bury(str(self.rng.choice(NAMES)), itself=False)

    def bury(self, name: str, itself: bool) -> None:
        process = self.running[name]
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            raise SystemExit(f"a process of {name} ended with {process.exitcode}")
        self.found.kills += 1
        self.found.killed_in_a_step += itself
        content = (self.folder / "shared.forgotten").read_bytes()
        self.found.torn_lines += not content.endswith(b"\n")
        self.maybe_swap(name)
        self.start(name)

    def maybe_swap(self, name: str) -> None:
        """A copy of a workspace is kept, or takes its place."""
        copy, at = self.folder / f"{name}.copy", self.folder / name
        if copy.exists() and self.rng.random() < RESTORE:
            shutil.rmtree(at)
            shutil.copytree(copy, at)
            self.found.restores += 1
        elif self.rng.random() < BACKUP:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(at, copy)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.join()
            self.found.kills += 1

    def listed(self) -> list[str]:
        """Everybody on the list, as its whole lines say."""
        content = (self.folder / "shared.forgotten").read_bytes()
        lines = content[: content.rfind(b"\n") + 1].splitlines()
        self.found.lines = len(lines)
        return list(dict.fromkeys(e["subject"] for e in map(json.loads, lines) if "subject" in e))

    def check(self) -> None:
        """Whoever says that it has caught up has forgotten everybody on the list."""
        self.found.checks += 1
        listed = self.listed()
        for name in NAMES:
            with Workspace(self.folder / name) as ws:
                if ws.caught_up():
                    lost = remembered(ws, listed)
                    self.found.said_to_be_caught_up_but_remembered += len(lost)

    def conclude(self) -> None:
        for _ in range(2):  # the second may add to the list what the first must still read
            for name in NAMES:
                with Workspace(self.folder / name) as ws:
                    ws.active_model()
                    ws.apply()
        listed = self.listed()
        self.found.ids_on_the_list = len(listed)
        for name in NAMES:
            answered = (self.folder / f"{name}.answered").read_text().split()
            self.found.answered[name] = len(answered)
            self.found.answered_but_not_listed += len(set(answered).difference(listed))
            with Workspace(self.folder / name) as ws:
                self.found.remembered[name] = len(remembered(ws, listed))
                self.found.caught_up[name] = ws.caught_up()
                version = ws.store.versions.active()
                self.found.versions[name] = 0 if version is None else version.number


def remembered(ws: Workspace, listed: list[str]) -> list[str]:
    """Who of the list has rows that are not forgotten."""
    version = ws.store.versions.active()
    assert version is not None
    assert version.generation is not None
    dataset = Dataset(ws.layout.generation(version.generation))
    gone = {row for row, _ in ws.store.forgotten.rows()}
    found = []
    for person in listed:
        rows = dataset.subject_rows(person)
        if rows is not None and not gone.issuperset(dataset["numbers"][rows].tolist()):
            found.append(person)
    return found


def study(
    folder: Path,
    *,
    subjects: int,
    seed: int,
    seconds: float = float("inf"),
    kills: int | None = None,
) -> Figures:
    """Until the time is over; or until so many kills, all of them at a step of the work."""
    make(folder, subjects, seed)
    return Study(folder, subjects, seed, by_the_clock=kills is None).run(seconds, kills)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--subjects", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="60 seconds, 300 people")
    options = parser.parse_args()
    seconds, subjects = (60.0, 300) if options.quick else (60 * options.minutes, options.subjects)
    with tempfile.TemporaryDirectory(prefix="unfit-shared-list-") as folder:
        found = study(Path(folder), seconds=seconds, subjects=subjects, seed=options.seed)
    print(json.dumps(asdict(found), indent=2))
    print("nobody on the list is remembered" if found.good else "NOT as it should be")
    sys.exit(0 if found.good else 1)


if __name__ == "__main__":
    main()
