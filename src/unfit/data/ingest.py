"""From a source to rows ready for a dataset: read once, spooled to disk, split by subject."""

from collections.abc import Collection, Sequence
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
    intake = Intake() if intake is None else intake
    reader = Reader(columns)
    available = source.columns()
    for name in roles.names():
        if name not in available:
            raise BadInput(f"{source.name} has no column {name!r}")
    reader.require(available, source.name)
    wanted = list(dict.fromkeys([*roles.names(), *(c.name for c in columns)]))
    labels = Vocabulary(roles.label)
    label_codes: list[np.ndarray] = []
    texts: dict[str, list[pa.Array]] = {"subject": [], "row": []}
    rows: list[np.ndarray] = []
    n = 0
    counts: list[np.ndarray] = []
    with (
        disk.ArrayWriter(folder / "spool-values.bin", "<f4") as values,
        disk.ArrayWriter(folder / "spool-codes.bin", "<i4") as codes,
        disk.ArrayWriter(folder / "spool-indices.bin", "<i4") as indices,
        disk.ArrayWriter(folder / "spool-data.bin", "<f4") as data,
    ):
        for batch in source.blocks(wanted):
            numbers = np.arange(n, n + batch.num_rows)
            n += batch.num_rows
            if roles.drop_missing:
                whole = _complete(batch, roles)
                batch, numbers = batch.filter(pa.array(whole)), numbers[whole]
            rows.append(numbers)
            block = _read(reader, batch, numbers, source.name)
            intake.count_unreadable(batch, reader.numeric)
            values.append(block.values)
            codes.append(block.codes)
            if block.bags is not None:
                indices.append(block.bags.indices)
                data.append(block.bags.data)
                counts.append(block.bags.counts)
            label_codes.append(_labels(batch.column(roles.label), labels, numbers, source.name))
            for role, column in (("subject", roles.subject), ("row", roles.row_id)):
                if column is not None:
                    texts[role].append(as_text(batch.column(column)))
            if progress is not None:
                progress("reading", n, 0)
    kept = np.concatenate(rows) if rows else np.empty(0, np.int64)
    intake.dropped = n - len(kept)
    if len(kept) == 0:
        raise BadInput(f"{source.name} has no rows{' left' if n else ''}")
    found_labels = np.concatenate(label_codes)
    label_texts: list[str | None] = list(labels.texts)
    if roles.positive:
        label_texts, found_labels = _against_the_rest(label_texts, found_labels, roles)
    row_ids, row_places = (
        _row_ids(texts["row"], kept, source.name) if roles.row_id else (None, None)
    )
    subject_ids, subjects = _subject_ids(texts["subject"], roles, row_ids, row_places, kept, source)
    return Raw(
        values=_mapped(folder / "spool-values.bin", "<f4", (len(kept), len(reader.numeric))),
        codes=_mapped(folder / "spool-codes.bin", "<i4", (len(kept), len(reader.categorical))),
        bags=_mapped_bags(folder, counts, reader) if reader.bags else None,
        labels=found_labels,
        numbers=kept,
        subjects=subjects,
        subject_ids=subject_ids,
        row_ids=row_ids,
        row_places=row_places,
        vocabularies=[v.texts for v in reader.vocabularies],
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
    if len(labels.texts) > MAX_CLASSES:
        raise BadInput(
            f"{where}: label {labels.name!r} has more than {MAX_CLASSES} different values; "
            "unfit classifies, so name a column of classes"
        )
    return codes


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


def _mapped_bags(folder: Path, counts: list[np.ndarray], reader: Reader) -> Csr:
    """The pairs of all rows, from the files they were spooled to."""
    indptr = ends(np.concatenate(counts))
    nnz = int(indptr[-1])
    return Csr(
        indptr=indptr,
        indices=_mapped(folder / "spool-indices.bin", "<i4", (nnz,)),
        data=_mapped(folder / "spool-data.bin", "<f4", (nnz,)),
        width=sum(c.width for c in reader.bags),
    )


def _mapped(path: Path, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, dtype) if 0 in shape else np.memmap(path, dtype, "r", shape=shape)


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
