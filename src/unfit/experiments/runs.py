"""What a run is, and the tidy table of finished ones.

A run is named by its settings alone, so it can be looked up, skipped, or done by any process.
Finished runs are appended to a journal, one line each, and folded into `runs.parquet` now and
then; whatever a crash cuts off is a line that is not whole, which is the run that was not finished.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from unfit import disk
from unfit.errors import Damaged

FOLD_EVERY = 500  # lines of the journal
NONE = "-"  # a setting that a kind of run does not have


@dataclass(frozen=True, order=True)
class Run:
    """kind: retrain (a deletion, retrained without noise), train (a method's trained model against
    its optimum), unlearn, timing, stream (a pipeline over time; a row for every step)."""

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


KEY = tuple(field.name for field in fields(Run))
Measures = Mapping[str, Any]


class Runs:
    """The finished runs of a folder. One process writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._table = folder / "runs.parquet"
        self._journal = folder / "runs.journal"
        self._rows: dict[Run, dict[str, Any]] = {}
        self._load()
        self._lines = 0
        self.fold()

    def _load(self) -> None:
        if self._table.exists():
            try:
                for row in parquet.read_table(self._table).to_pylist():
                    self._keep({k: v for k, v in row.items() if v is not None})
            except (pa.ArrowException, TypeError) as error:
                raise Damaged(
                    f"{self._table} cannot be read ({str(error).splitlines()[0][:100]}); "
                    "remove it to run everything again"
                ) from None
        if self._journal.exists():
            for line in self._journal.read_bytes().split(b"\n"):
                try:
                    self._keep(json.loads(line))
                except (ValueError, TypeError):  # cut off by a crash: that run was not finished
                    continue

    def _keep(self, row: dict[str, Any]) -> None:
        run = Run(**{name: row[name] for name in KEY if name in row})
        self._rows[run] = {k: v for k, v in row.items() if k not in KEY}

    def __contains__(self, run: Run) -> bool:
        return run in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, run: Run) -> dict[str, Any]:
        return self._rows[run]

    def missing(self, wanted: Iterable[Run]) -> list[Run]:
        return [run for run in dict.fromkeys(wanted) if run not in self._rows]

    def add(self, run: Run, measures: Measures) -> None:
        """Keep a finished run for good."""
        row = asdict(run) | dict(measures)
        line = json.dumps(row) + "\n"
        with self._journal.open("ab") as file:
            if self._lines == 0 and file.tell():
                file.write(b"\n")  # whatever a crash cut off ends here
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._keep(row)
        self._lines += 1
        if self._lines >= FOLD_EVERY:
            self.fold()

    def fold(self) -> None:
        """The journal becomes part of the table."""
        if self._rows and (self._journal.exists() or not self._table.exists()):
            table = pa.Table.from_pandas(self.frame(), preserve_index=False)
            with disk.replacing(self._table) as file:
                parquet.write_table(table, file)
        self._journal.unlink(missing_ok=True)
        self._lines = 0

    def frame(self, **settings: object) -> pd.DataFrame:
        """The finished runs, or those with the given settings, as a tidy table."""
        rows = [asdict(run) | measures for run, measures in self._rows.items()]
        frame = pd.DataFrame(rows, columns=None if rows else list(KEY))
        for name, value in settings.items():
            frame = frame[frame[name] == value]
        return frame.sort_values(list(KEY), ignore_index=True)
