"""Where the time of one person's erasure goes, in a process that stays.

    UNFIT_DATA=DIR python tools/erasure_costs.py [OTHER] [--people 100] [--certified] [--quick]

Patients of the Diabetes data leave one at a time; each is an erasure from the call to its answer,
bytes purged. OTHER is a folder with another checkout and its .venv: it erases the same patients
from a workspace of its own, by turns with this one, so that both see the same machine; a rest comes
before each turn, for threads of BLAS that the other one has left spinning. --quick: made-up
patients. Prints Markdown: a table of medians in milliseconds, and one of what was counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyarrow import parquet
from verdict_study import LABEL, PERSON, made_up

from unfit.experiments.machine import machine

HERE = Path(__file__).parents[1]
WARM_UP = 10  # erasures that are not counted
REST = 0.1  # seconds before each
STEPS = {
    "before": "lock, records read, request filed",
    "open": "model and statistics at hand",
    "resolve": "ids become rows",
    "unlearn": "weights without the rows",
    "certify": "bound for the certificate",
    "evaluate": "held-out rows, constants, decision",
    "write": "the model's file",
    "commit": "deletion list, transaction",
    "between": "between the phases",
    "purge": "rows, ids, files and log purged",
}
COUNTS = {
    "passes": "passes over the rows",
    "statements": "SQL statements",
    "syncs": "files and folders synced",
    "in_turn": "of these, waited for in turn",
}

# Runs in both checkouts, so it uses what both have. One erasure for each line of its input.
CHILD = """
import json, os, sys, threading, time
from pathlib import Path
import numpy as np, sqlalchemy as sa
from pyarrow import parquet
from unfit.workspace import Workspace, init

source, folder, epsilon, label, person = sys.argv[1:]
counted = {"syncs": 0, "in_turn": 0, "statements": 0}
real, main = os.fsync, threading.get_ident()

def fsync(handle):
    counted["syncs"] += 1
    counted["in_turn"] += threading.get_ident() == main
    return real(handle)

def statement(*_):
    counted["statements"] += 1

os.fsync = fsync
ignore = [c for c in ("encounter_id",) if c in parquet.read_schema(source).names]
init(Path(source), Path(folder), max_categories=20, epsilon=float(epsilon) if epsilon else None,
     label=label, subject=person, positive=["<30", ">30"], ignore=ignore)
with Workspace(Path(folder)) as ws:
    ws.train()
    with ws.session() as session:
        data = session.dataset()
        codes = np.unique(data["subjects"][: data.n_train])
        drawn = np.random.default_rng(0).permutation(codes)
        people = [str(data.subject_ids.text(int(code))) for code in drawn]
    sa.event.listen(ws.store.database.engine, "before_cursor_execute", statement)
    print(json.dumps({"rows": int(data.n_train), "columns": int(data["X"].shape[1])}), flush=True)
    for who, _ in zip(people, sys.stdin):
        counted.update(dict.fromkeys(counted, 0))
        start = time.perf_counter()
        done = ws.forget(subjects=[who])
        whole, now = time.perf_counter() - start, dict(counted)
        version = ws.store.versions.find()[-1]
        print(json.dumps({
            "whole": whole, "seconds": done.seconds, "purge": done.purge_seconds,
            "phases": version.times.phases, "kind": version.kind,
            "passes": (version.times.rows_read or 0) / version.rows, **now,
        }), flush=True)
"""


class Process:
    """A checkout that erases a person whenever it is told to."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.opened = self._read()

    def _read(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit("a checkout failed; see above")
        return dict(json.loads(line))

    def erase(self) -> dict[str, Any]:
        assert self._child.stdin is not None
        self._child.stdin.write("next\n")
        self._child.stdin.flush()
        return self._read()


@contextmanager
def process(checkout: Path, source: Path, folder: Path, epsilon: str) -> Iterator[Process]:
    python = checkout / ".venv" / "bin" / "python"
    command = [str(python), "-c", CHILD, str(source), str(folder), epsilon, LABEL, PERSON]
    child = subprocess.Popen(
        command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Process(child)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


def measure(
    checkouts: Sequence[Path], source: Path, epsilon: str, people: int
) -> list[list[dict[str, Any]]]:
    """What each checkout said of every erasure, by turns."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        opened = [
            stack.enter_context(process(one, source, folder / f"ws-{i}", epsilon))
            for i, one in enumerate(checkouts)
        ]
        print(f"{opened[0].opened['rows']:,} rows x {opened[0].opened['columns']} columns\n")
        found: list[list[dict[str, Any]]] = [[] for _ in opened]
        for number in range(WARM_UP + people):
            order = range(len(opened)) if number % 2 else reversed(range(len(opened)))
            for which in order:
                time.sleep(REST)
                done = opened[which].erase()
                if number >= WARM_UP and done["kind"] == "updated":
                    found[which].append(done)
        return found


def steps_of(one: dict[str, Any]) -> dict[str, float]:
    """Seconds of an erasure by step; they sum to the whole."""
    phases = dict(one["phases"])
    return {
        "before": one["whole"] - one["seconds"] - one["purge"],
        **phases,
        "between": one["seconds"] - sum(phases.values()),
        "purge": one["purge"],
    }


def show(found: list[list[dict[str, Any]]]) -> None:
    """A table of times and one of counts, this checkout first."""
    _head(f"milliseconds, median of {len(found[0])}", len(found))
    each = [[steps_of(one) for one in runs] for runs in found]
    for key, said in STEPS.items():
        if any(key in steps for runs in each for steps in runs):
            row = [1e3 * statistics.median(s.get(key, 0.0) for s in runs) for runs in each]
            print(f"| {said} | {' | '.join(f'{ms:.1f}' for ms in row)} |")
    for key, said in (("seconds", "to the commit"), ("whole", "**whole**")):
        row = [1e3 * statistics.median(one[key] for one in runs) for runs in found]
        print(f"| {said} | {' | '.join(f'{ms:.1f}' for ms in row)} |")
    print()
    _head(f"counts, mean of {len(found[0])}", len(found))
    for key, said in COUNTS.items():
        row = [statistics.mean(one[key] for one in runs) for runs in found]
        print(f"| {said} | {' | '.join(f'{n:.1f}' for n in row)} |")
    if len(found) == 2:
        for key, said in (("seconds", "to the commit"), ("whole", "of the whole")):
            pairs = zip(*([one[key] for one in runs] for runs in found), strict=False)
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            print(
                f"\nThis takes {ratio:.2f} of the other's time, {said}, median over the patients."
            )


def _head(title: str, checkouts: int) -> None:
    print(f"| {title} | {' | '.join(['this', 'other'][:checkouts])} |")
    print(f"|---|{'--:|' * checkouts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--certified", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    checkouts = [HERE, *([given.other.resolve()] if given.other else [])]
    print(machine(), "\n", file=sys.stdout)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "stays.parquet"
        if given.quick:
            parquet.write_table(made_up(), source)
        else:
            source = Path(os.environ["UNFIT_DATA"]) / "diabetes130.parquet"
        people = min(given.people, 10) if given.quick else given.people
        show(measure(checkouts, source, "1.0" if given.certified else "", people))


if __name__ == "__main__":
    main()
