"""The tidy table of finished runs.

Finished runs are appended to a journal, one line each, and folded into `runs.parquet` now and
then; whatever a crash cuts off is a line that is not whole, which is the run that was not finished.
Journals that other machines wrote (`*.journal`) are folded in too, once they lie in the folder.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from unfit import disk
from unfit.errors import Damaged
from unfit.experiments.run import KEY, NONE, Measures, Run, append, as_run, read_journal

__all__ = ["KEY", "NONE", "Measures", "Run", "Runs"]
FOLD_EVERY = 500  # lines of the journal


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
        self._others = sorted(set(self.folder.glob("*.journal")) - {self._journal})
        for journal in (*self._others, self._journal):
            if journal.exists():
                for run, measures in read_journal(journal):
                    self._rows[run] = measures

    def _keep(self, row: dict[str, Any]) -> None:
        run, measures = as_run(row)
        self._rows[run] = measures

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
        append(self._journal, run, measures, after_crash=self._lines == 0)
        self._keep(asdict(run) | dict(measures))
        self._lines += 1
        if self._lines >= FOLD_EVERY:
            self.fold()

    def fold(self) -> None:
        """The journal becomes part of the table."""
        if self._rows and (self._others or self._journal.exists() or not self._table.exists()):
            table = pa.Table.from_pandas(self.frame(), preserve_index=False)
            with disk.replacing(self._table) as file:
                parquet.write_table(table, file)
        for journal in (*self._others, self._journal):
            journal.unlink(missing_ok=True)
        self._others = []
        self._lines = 0

    def frame(self, **settings: object) -> pd.DataFrame:
        """The finished runs, or those with the given settings, as a tidy table."""
        rows = [asdict(run) | measures for run, measures in self._rows.items()]
        frame = pd.DataFrame(rows, columns=None if rows else list(KEY))
        for name, value in settings.items():
            frame = frame[frame[name] == value]
        return frame.sort_values(list(KEY), ignore_index=True)
