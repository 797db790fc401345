"""What a run is, and the journal of finished ones, a line each.

A run is named by its settings alone, so it can be looked up, skipped, or done by any process on any
machine: this needs no more than Python.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

NONE = "-"  # a setting that a kind of run does not have


@dataclass(frozen=True, order=True)
class Run:
    """kind: retrain (a deletion, retrained without noise), train (a method's trained model against
    its optimum), unlearn, timing, stream (a pipeline over time; a row for every step), positions (a
    published stream and where it retrains; a row for the whole of it), beyond (a method
    or certified unlearning, from the optimum, with what can be told of its noise).

    manner: where the published runs and unfit do otherwise, whose way it is.
    """

    kind: str
    dataset: str
    law: str = NONE
    fraction: float = 0.0
    method: str = NONE
    tau: str = NONE
    sigma: float = 0.0
    seed: int = 0
    policy: str = NONE
    step: int = 0
    manner: str = NONE


KEY = tuple(field.name for field in fields(Run))
Measures = Mapping[str, Any]


def as_run(row: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
    """A row of the table or line of a journal: the run, and what was measured."""
    run = Run(**{name: row[name] for name in KEY if name in row})
    return run, {k: v for k, v in row.items() if k not in KEY}


def append(journal: Path, run: Run, measures: Measures, *, after_crash: bool = False) -> None:
    """Write a finished run to the end of a journal, for good."""
    with journal.open("ab") as file:
        if after_crash and file.tell():
            file.write(b"\n")  # whatever a crash cut off ends here
        file.write((json.dumps(asdict(run) | dict(measures)) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def read_journal(journal: Path) -> Iterator[tuple[Run, dict[str, Any]]]:
    """The finished runs of a journal."""
    for line in journal.read_bytes().split(b"\n"):
        try:
            yield as_run(json.loads(line))
        except (ValueError, TypeError, AttributeError):  # cut off: that run was not finished
            continue
