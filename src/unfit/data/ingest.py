"""From a source to rows ready for a dataset: read once, spooled to disk, split by subject."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit import disk
from unfit.data import ids
from unfit.data.columns import Column
from unfit.data.csr import Csr, ends
from unfit.data.dataset import Raw
from unfit.data.ids import Ids
from unfit.data.raw_rows import RawRows
from unfit.data.reader import Reader
from unfit.data.roles import Roles
from unfit.data.sources import Source
from unfit.data.text import all_of, as_text, present
from unfit.data.values import Vocabulary, unreadable_count
from unfit.errors import BadInput
from unfit.progress import ProgressCallback

MAX_CLASSES = 1000


@dataclass
class Intake:
    """What was left out or not understood while reading a source.

    dropped: rows without a label, subject or row id. unreadable: by column, values that are
    not numbers and count as missing.
    """

    dropped: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)

    def count_unreadable(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> None:
        for column in columns:
            count = unreadable_count(batch.column(column.name), column)
            if count:
                self.unreadable[column.name] = self.unreadable.get(column.name, 0) + count


@dataclass(kw_only=True)
class Found:
    """What a reading leaves in memory; values, codes and pairs are in files.

    rows: of the source. numbers: of those that were kept. counts: pairs of every row. unreadable:
    see Intake.
    """

    rows: int = 0
    numbers: list[np.ndarray] = field(default_factory=list)
    labels: list[np.ndarray] = field(default_factory=list)
    label_texts: list[str | None] = field(default_factory=list)
    texts: dict[str, list[pa.Array]] = field(default_factory=lambda: {"subject": [], "row": []})
    counts: list[np.ndarray] = field(default_factory=list)
    vocabularies: list[list[str | None]] = field(default_factory=list)
    unreadable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Spool:
    """The files that a reading writes, in a folder."""

    folder: Path
    prefix: str = "spool"

    def path(self, name: str) -> Path:
        return self.folder / f"{self.prefix}-{name}.bin"

    @contextmanager
    def writing(self) -> Iterator[dict[str, disk.ArrayWriter]]:
        with ExitStack() as stack:
            yield {
                name: stack.enter_context(disk.ArrayWriter(self.path(name), dtype))
                for name, dtype in SPOOLED.items()
            }


SPOOLED = {"values": "<f4", "codes": "<i4", "indices": "<i4", "data": "<f4"}


def spool(
    source: Source,
    roles: Roles,
    columns: Sequence[Column],
    folder: Path,
    progress: ProgressCallback | None = None,
    intake: Intake | None = None,
) -> Raw:
    """Read a source once. Numbers and codes go to files in `folder`, ids and labels to memory.

    intake: counts what is left out.
    """
    require_columns(source, roles, columns)
    found = read_rows(source, roles, columns, Spool(folder=folder), progress)
    return raw_of(found, source, roles, columns, Spool(folder=folder), intake)


def require_columns(source: Source, roles: Roles, columns: Sequence[Column]) -> None:
    available = source.columns()
    for name in roles.names():
        if name not in available:
            raise BadInput(f"{source.name} has no column {name!r}")
    Reader(columns).require(available, source.name)


def read_rows(
    source: Source,
    roles: Roles,
    columns: Sequence[Column],
    files: Spool,
    progress: ProgressCallback | None = None,
) -> Found:
    """Read a source, or a part of one, into files."""
    reader, labels = Reader(columns), Vocabulary(roles.label)
    wanted = list(dict.fromkeys([*roles.names(), *(c.name for c in columns)]))
    found, intake = Found(), Intake()
    with files.writing() as out:
        for batch in source.blocks(wanted):
            numbers = np.arange(found.rows, found.rows + batch.num_rows)
            found.rows += batch.num_rows
            if roles.drop_missing:
                whole = _complete(batch, roles)
                batch, numbers = batch.filter(pa.array(whole)), numbers[whole]
            found.numbers.append(numbers)
            block = _read(reader, batch, numbers, source.name)
            intake.count_unreadable(batch, reader.numeric)
            out["values"].append(block.values)
            out["codes"].append(block.codes)
            if block.bags is not None:
                out["indices"].append(block.bags.indices)
                out["data"].append(block.bags.data)
                found.counts.append(block.bags.counts)
            found.labels.append(_labels(batch.column(roles.label), labels, numbers, source.name))
            for role, column in (("subject", roles.subject), ("row", roles.row_id)):
                if column is not None:
                    found.texts[role].append(as_text(batch.column(column)))
            if progress is not None:
                progress("reading", found.rows, 0)
    found.label_texts, found.unreadable = labels.texts, intake.unreadable
    found.vocabularies = [v.texts for v in reader.vocabularies]
    return found


def raw_of(
    found: Found,
    source: Source,
    roles: Roles,
    columns: Sequence[Column],
    files: Spool,
    intake: Intake | None = None,
) -> Raw:
    """The rows that a reading found: ids sorted, the files mapped."""
    kept = np.concatenate(found.numbers) if found.numbers else np.empty(0, np.int64)
    if intake is not None:
        intake.dropped, intake.unreadable = found.rows - len(kept), found.unreadable
    if len(kept) == 0:
        raise BadInput(f"{source.name} has no rows{' left' if found.rows else ''}")
    labels, label_texts = np.concatenate(found.labels), found.label_texts
    if roles.positive:
        label_texts, labels = _against_the_rest(label_texts, labels, roles)
    texts, reader = found.texts, Reader(columns)
    row_ids, row_places = (
        _row_ids(texts["row"], kept, source.name) if roles.row_id else (None, None)
    )
    subject_ids, subjects = _subject_ids(texts["subject"], roles, row_ids, row_places, kept, source)
    return Raw(
        values=_mapped(files, "values", (len(kept), len(reader.numeric))),
        codes=_mapped(files, "codes", (len(kept), len(reader.categorical))),
        bags=_mapped_bags(files, found.counts, reader) if reader.bags else None,
        labels=labels,
        numbers=kept,
        subjects=subjects,
        subject_ids=subject_ids,
        row_ids=row_ids,
        row_places=row_places,
        vocabularies=found.vocabularies,
        label_texts=label_texts,
    )


def _complete(batch: pa.RecordBatch, roles: Roles) -> np.ndarray:
    """Mask of the rows that have a label, a subject and a row id."""
    masks = [present(batch.column(name), name != roles.label) for name in roles.names()]
    return np.asarray(all_of(masks).to_numpy(zero_copy_only=False))


def _read(reader: Reader, batch: pa.RecordBatch, numbers: np.ndarray, where: str) -> RawRows:
    """As the reader does, but errors name the row in the source, even where rows were left out."""
    if len(numbers) == 0:
        return reader.read(batch, 0, where)
    first = int(numbers[0])
    if numbers[-1] - first + 1 == len(numbers):
        return reader.read(batch, first, where)
    try:
        return reader.read(batch, first, where)
    except BadInput:  # once more, from gap to gap
        starts = [0, *(np.flatnonzero(np.diff(numbers) > 1) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
            reader.read(batch.slice(start, stop - start), int(numbers[start]), where)
        raise


def _labels(array: pa.Array, labels: Vocabulary, numbers: np.ndarray, where: str) -> np.ndarray:
    text = as_text(array)
    if text.null_count:
        row = numbers[pc.index(pc.is_valid(text), False).as_py()]
        raise BadInput(
            f"{where}: row {row} has no {labels.name!r}; every row needs its label (drop_missing "
            "in unfit.toml, or --drop-missing of `unfit init`, leaves such rows out)"
        )
    codes = labels.encode(text)
    require_classes(labels, where)
    return codes


def require_classes(labels: Vocabulary, where: str) -> None:
    if len(labels.texts) > MAX_CLASSES:
        raise BadInput(
            f"{where}: label {labels.name!r} has more than {MAX_CLASSES} different values; "
            "unfit classifies, so name a column of classes"
        )


def _against_the_rest(
    texts: Sequence[str | None], codes: np.ndarray, roles: Roles
) -> tuple[list[str | None], np.ndarray]:
    unknown = [p for p in roles.positive if p not in texts]
    if unknown:
        raise BadInput(f"label {roles.label!r} never has the positive value {unknown[0]!r}")
    classes: list[str | None] = ["rest", " or ".join(roles.positive)]
    of = np.array([classes.index(roles.class_of(text or "")) for text in texts], np.int32)
    return classes, of[codes]


def _row_ids(texts: list[pa.Array], kept: np.ndarray, where: str) -> tuple[Ids, np.ndarray]:
    found, places = ids.build(pa.chunked_array(texts, pa.string()), "row id", where)
    if len(found) < len(places):
        order = np.argsort(places, kind="stable")
        twice = int(np.flatnonzero(np.diff(places[order]) == 0)[0])
        first, second = int(kept[order[twice]]), int(kept[order[twice + 1]])
        raise BadInput(f"{where}: rows {first} and {second} have the same row id")
    return found, places


def _subject_ids(
    texts: list[pa.Array],
    roles: Roles,
    row_ids: Ids | None,
    row_places: np.ndarray | None,
    kept: np.ndarray,
    source: Source,
) -> tuple[Ids, np.ndarray]:
    if roles.subject is not None:
        return ids.build(pa.chunked_array(texts, pa.string()), "subject", source.name)
    if row_ids is not None and row_places is not None:  # every row its own subject
        return row_ids, row_places
    numbers = pa.chunked_array([pa.array(kept).cast(pa.string())])
    return ids.build(numbers, "subject", source.name)


def _mapped_bags(files: Spool, counts: list[np.ndarray], reader: Reader) -> Csr:
    """The pairs of all rows, from the files they were spooled to."""
    indptr = ends(np.concatenate(counts))
    nnz = int(indptr[-1])
    return Csr(
        indptr=indptr,
        indices=_mapped(files, "indices", (nnz,)),
        data=_mapped(files, "data", (nnz,)),
        width=sum(c.width for c in reader.bags),
    )


def _mapped(files: Spool, name: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = SPOOLED[name]
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(files.path(name), dtype, "r", shape=shape)


def split(
    raw: Raw, test_share: float, seed: int, left_out: Collection[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of training and of held-out rows; a subject is in one part with all its rows.

    left_out: positions of rows that are in neither.
    """
    n_subjects = len(raw.subject_ids)
    chosen = np.random.default_rng(seed).choice(
        n_subjects, int(n_subjects * test_share), replace=False
    )
    held_out = np.zeros(n_subjects, np.bool_)
    held_out[chosen] = True
    test = held_out[raw.subjects]
    keep = np.ones(len(test), np.bool_)
    keep[list(left_out)] = False
    return np.flatnonzero(~test & keep), np.flatnonzero(test & keep)
