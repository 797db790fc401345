"""File in, file out: classes and probabilities, with the version that answered."""

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
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
from unfit.data.parallel import PARTS_PER_READER
from unfit.data.reader import Reader
from unfit.data.sources import Source, open_source
from unfit.data.sources.csv_file import CsvSource
from unfit.data.sources.in_memory import TableSource
from unfit.data.text import as_text
from unfit.data.values import UNSEEN, categories_of
from unfit.errors import BadInput
from unfit.progress import ProgressCallback
from unfit.readers import Readers
from unfit.workspace.config import Config
from unfit.workspace.config_tables import SourceTable
from unfit.workspace.model import ReleasedModel
from unfit.workspace.spreadsheets import count_formulas, escaped

Rows: TypeAlias = str | Path | pa.Table  # a file, - for standard input, or a table in memory
Write = Callable[[pa.RecordBatch], None]
LARGE = 64 << 20  # bytes of a file that workers elsewhere predict
log = logging.getLogger("unfit")


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


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A source or a part of one, and what is to be said of its rows.

    columns: those to read. echoed: those that are repeated beside the answers. label: the column of
    labels to compare with, where there is one.
    """

    model: ReleasedModel
    source: Source
    columns: list[str]
    echoed: list[str]
    label: str | None
    names: Names | None
    count_formulas: bool


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """Predictions of some rows, and what was counted among them."""

    batch: pa.RecordBatch
    right: int
    known: int
    absent: Absent
    unreadable: int
    formulas: int


def predict_file(
    model: ReleasedModel,
    source: Rows,
    config: Config,
    *,
    output: Path | None = None,
    format: str | None = None,
    names: Names | None = None,
    spreadsheet: bool = False,
    readers: Readers | None = None,
    progress: ProgressCallback | None = None,
) -> Predictions:
    """Predict the rows of a file or table that is like the workspace's source.

    names: see AbsentCategories. spreadsheet: in CSV, texts that look like formulas get an
    apostrophe in front. readers: predict parts of the source at once, where it can be divided.
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
    asked = _Asked(
        model=model,
        source=rows,
        columns=list(dict.fromkeys(wanted)),
        echoed=echoed,
        label=roles.label if labelled else None,
        names=names,
        count_formulas=not spreadsheet,
    )
    n = right = known = formulas = unreadable = 0
    absent = Absent(0, 0)
    kept: list[pa.RecordBatch] = []
    with _writing(output, kept, spreadsheet) as write:
        for found in _answers(asked) if readers is None else _at_once(asked, readers):
            write(found.batch)
            n += found.batch.num_rows
            right, known = right + found.right, known + found.known
            absent = Absent(absent.rare + found.absent.rare, absent.unseen + found.absent.unseen)
            unreadable, formulas = unreadable + found.unreadable, formulas + found.formulas
            if progress is not None:
                progress("predicting", n, 0)
        if n == 0:
            raise BadInput(f"{rows.name} has no rows")
    return Predictions(
        version=model.version,
        rows=n,
        rare=absent.rare,
        unseen=absent.unseen,
        accuracy=right / known if known else None,
        table=pa.Table.from_batches(kept) if output is None else None,
        output=None if output is None else str(output),
        unreadable=unreadable,
        formulas=formulas,
    )


def is_large(source: str | Path) -> bool:
    """Whether a file is worth the way to workers elsewhere."""
    path = Path(source)
    return path.is_file() and path.stat().st_size >= LARGE


def _answers(asked: _Asked, done: int = 0) -> Iterator[_Answered]:
    """Of every block of the source, but for the first rows, which are done."""
    model, encoding, where = asked.model, asked.model.card.encoding, asked.source.name
    reader, absent = Reader.of(encoding), AbsentCategories(encoding, asked.names)
    n = 0
    for block in asked.source.blocks(asked.columns):
        batch, first = block.slice(max(0, done - n)), max(n, done)
        n += block.num_rows
        if batch.num_rows == 0:
            continue
        raw = reader.read(batch, first, where)
        absent.rows = Absent(0, 0)
        absent.count(batch, raw.codes, where)
        intake = Intake()
        intake.count_unreadable(batch, reader.numeric)
        X = encoding.encode(raw, encoding.own_slots())
        result = _answer(model, model.probabilities(matrix_of(X)), batch, asked.echoed, first)
        right = known = 0
        if asked.label is not None:
            labels = as_text(batch.column(asked.label)).to_pylist()
            predicted = result.column(1 + len(asked.echoed)).to_pylist()
            right = sum(a == b for a, b in zip(labels, predicted, strict=True))
            known = sum(label is not None for label in labels)
        yield _Answered(
            batch=result,
            right=right,
            known=known,
            absent=absent.rows,
            unreadable=sum(intake.unreadable.values()),
            formulas=count_formulas(result) if asked.count_formulas else 0,
        )


def _at_once(asked: _Asked, readers: Readers) -> Iterator[_Answered]:
    """Of parts of the source, in their order, which are numbered here.

    What is wrong with a source is said by one reader, which knows the numbers of its rows.
    """
    parts = asked.source.parts(PARTS_PER_READER * readers.count)
    if len(parts) < 2:
        yield from _answers(asked)
        return
    held: Names | None = None
    if asked.names is not None:
        held = partial(dict, asked.names())
    jobs = [replace(asked, source=part, names=held) for part in parts]
    n = 0
    try:
        for answers in readers.each(_answers_of_part, jobs):
            first = n
            for found in answers:
                yield replace(found, batch=_numbered(found.batch, first))
                n += found.batch.num_rows
    except BadInput as error:
        log.info("%s is read again by one reader: %s", asked.source.name, error)
        yield from _answers(asked, done=n)


def _answers_of_part(asked: _Asked) -> list[_Answered]:
    return list(_answers(asked))


def _numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Rows that are counted from a part of a source, counted from the source."""
    return batch.set_column(0, batch.schema.names[0], pc.add(batch.column(0), first))


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
    if output.is_dir():
        raise BadInput(f"{output.absolute()} is a folder; name a file to write")
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
