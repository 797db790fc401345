"""File in, file out: classes and probabilities, with the version that answered."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from unfit import disk
from unfit.data.encoding import Absent, Encoding, matrix_of
from unfit.data.ingest import Intake
from unfit.data.reader import Reader
from unfit.data.sources import Source, open_source
from unfit.data.sources.csv_file import CsvSource
from unfit.data.sources.in_memory import TableSource
from unfit.data.text import as_text
from unfit.data.values import UNSEEN, categories_of
from unfit.errors import BadInput
from unfit.workspace.config import Config, SourceTable
from unfit.workspace.model import ReleasedModel
from unfit.workspace.spreadsheets import count_formulas, escaped

Rows: TypeAlias = str | Path | pa.Table  # a file, - for standard input, or a table in memory
Write = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """How many rows, by which version; the table itself if no file was asked for.

    rare: rows with a category that too few training rows hold for a column of its own. unseen:
    rows with an unknown category. accuracy: if the file has labels. unreadable: values that are not
    numbers and count as missing. formulas: cells that a spreadsheet would take for formulas.
    """

    version: int
    rows: int
    rare: int
    unseen: int
    accuracy: float | None
    table: pa.Table | None
    output: str | None
    unreadable: int = 0
    formulas: int = 0


Names = Callable[[], Mapping[str, Collection[str]]]  # categories by column


class AbsentCategories:
    """Counts rows with a category that has no column.

    names: called once, if needed, for the categories that rows of the workspace hold. Without it,
    only those on the card are known; a name that fewer than min_rows rows hold then counts as
    unseen, because it may be one person's.
    """

    def __init__(self, encoding: Encoding, names: Names | None = None) -> None:
        self._columns = encoding.categorical
        self._names = names
        self._known: list[pa.Array] | None = None
        self.rows = Absent(0, 0)

    def count(self, batch: pa.RecordBatch, codes: np.ndarray, where: str) -> None:
        """Count the rows of a batch. codes: places among the encoding's categories, or UNSEEN."""
        without = codes == UNSEEN
        if not without.any():
            return
        rare, unseen = np.zeros(len(codes), np.bool_), np.zeros(len(codes), np.bool_)
        for j in np.flatnonzero(without.any(axis=0)).tolist():
            name = self._columns[j].column.name
            texts = categories_of(batch.column(name), name, where)
            known = pc.is_in(texts, value_set=self._known_names()[j])
            known = known.to_numpy(zero_copy_only=False)
            rare |= without[:, j] & known
            unseen |= without[:, j] & ~known
        before = self.rows
        self.rows = Absent(before.rare + int(rare.sum()), before.unseen + int(unseen.sum()))

    def _known_names(self) -> list[pa.Array]:
        if self._known is None:
            more = {} if self._names is None else self._names()
            self._known = [
                pa.array(sorted({*c.others, *more.get(c.column.name, ())}), pa.string())
                for c in self._columns
            ]
        return self._known


def predict_file(
    model: ReleasedModel,
    source: Rows,
    config: Config,
    *,
    output: Path | None = None,
    format: str | None = None,
    names: Names | None = None,
    spreadsheet: bool = False,
) -> Predictions:
    """Predict the rows of a file or table that is like the workspace's source.

    names: see AbsentCategories. spreadsheet: in CSV, texts that look like formulas get an
    apostrophe in front.
    """
    roles = config.the_roles()
    given = Path(source) if isinstance(source, str | Path) and str(source) != "-" else None
    if output is not None and given is not None and given.resolve() == output.resolve():
        raise BadInput(f"{output.name} is the input; name another file for the predictions")
    rows = _open(source, format, config.source)
    reader = Reader.of(model.card.encoding)
    reader.require(rows.columns(), rows.name)
    echoed = [n for n in (roles.row_id, roles.subject) if n is not None and n in rows.columns()]
    labelled = roles.label in rows.columns() and not roles.positive
    wanted = [c.name for c in reader.columns] + echoed + ([roles.label] if labelled else [])
    n = right = known = formulas = 0
    absent = AbsentCategories(model.card.encoding, names)
    intake = Intake()
    kept: list[pa.RecordBatch] = []
    with _writing(output, kept, spreadsheet) as write:
        for batch in rows.blocks(list(dict.fromkeys(wanted))):
            raw = reader.read(batch, n, rows.name)
            absent.count(batch, raw.codes, rows.name)
            intake.count_unreadable(batch, reader.numeric)
            X = model.card.encoding.encode(raw, model.card.encoding.own_slots())
            result = _answer(model, model.probabilities(matrix_of(X)), batch, echoed, n)
            if labelled:
                labels = as_text(batch.column(roles.label)).to_pylist()
                predicted = result.column(1 + len(echoed)).to_pylist()
                right += sum(a == b for a, b in zip(labels, predicted, strict=True))
                known += sum(label is not None for label in labels)
            formulas += 0 if spreadsheet else count_formulas(result)
            write(result)
            n += batch.num_rows
        if n == 0:
            raise BadInput(f"{rows.name} has no rows")
    return Predictions(
        version=model.version,
        rows=n,
        rare=absent.rows.rare,
        unseen=absent.rows.unseen,
        accuracy=right / known if known else None,
        table=pa.Table.from_batches(kept) if output is None else None,
        output=None if output is None else str(output),
        unreadable=sum(intake.unreadable.values()),
        formulas=formulas,
    )


def _answer(
    model: ReleasedModel, p: np.ndarray, batch: pa.RecordBatch, echoed: list[str], first: int
) -> pa.RecordBatch:
    """p: class probabilities of the rows."""
    classes = np.array(model.card.classes)
    ours: dict[str, Any] = {
        "row": pa.array(np.arange(first, first + len(p))),
        "prediction": pa.array(classes[p.argmax(axis=1)].tolist(), pa.string()),
        **{f"p_{name}": pa.array(p[:, j]) for j, name in enumerate(model.card.classes)},
        "version": pa.array(np.full(len(p), model.version)),
    }
    theirs = {name: as_text(batch.column(name)) for name in echoed}
    if theirs.keys() & ours.keys():
        ours = {f"unfit_{name}": column for name, column in ours.items()}
    (row, numbers), *rest = ours.items()
    return pa.RecordBatch.from_pydict({row: numbers, **theirs, **dict(rest)})


def _open(source: Rows, format: str | None, kind: SourceTable) -> Source:
    if isinstance(source, pa.Table):
        return TableSource(source)
    if str(source) == "-":
        return CsvSource(sys.stdin.buffer, kind.missing, like=kind.dialect)
    return open_source(kind.beside(Path(source), format))


@contextmanager
def _writing(output: Path | None, kept: list[pa.RecordBatch], spreadsheet: bool) -> Iterator[Write]:
    """Where record batches go: memory, standard output, or a file that appears when complete."""
    if output is None:
        yield kept.append
        return
    if str(output) == "-":
        with _writer("csv", sys.stdout.buffer, spreadsheet) as write:
            yield write
        return
    kind = output.suffix.lower().lstrip(".")
    if kind not in ("csv", "parquet"):
        raise BadInput(f"predictions go to .csv or .parquet, not to {output.name}")
    if not output.resolve().parent.is_dir():
        raise BadInput(f"there is no folder {output.parent} to put {output.name} in")
    with disk.replacing(output) as file, _writer(kind, file, spreadsheet) as write:
        yield write


@contextmanager
def _writer(kind: str, sink: Any, spreadsheet: bool) -> Iterator[Write]:
    writer: Any = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        if writer is None:
            make = parquet.ParquetWriter if kind == "parquet" else arrow_csv.CSVWriter
            writer = make(sink, batch.schema)
        writer.write_batch(escaped(batch) if spreadsheet and kind == "csv" else batch)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
