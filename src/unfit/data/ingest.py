"""From a source to rows ready for a dataset: read once, spooled to disk, split by subject."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit import disk
from unfit.data import ids
from unfit.data.columns import Column, Vocabulary
from unfit.data.dataset import Raw
from unfit.data.encoding import Reader
from unfit.data.ids import Ids
from unfit.data.sources import Source
from unfit.data.text import as_text
from unfit.errors import BadInput

MAX_CLASSES = 1000


@dataclass(frozen=True)
class Roles:
    """Which columns are not features: the label, the subject (None: every row its own) and the
    row's id (None: its number). positive: labels that count as one class against the rest."""

    label: str
    subject: str | None = None
    row_id: str | None = None
    positive: tuple[str, ...] = ()

    def class_of(self, label: str) -> str:
        """The class a label counts as."""
        if not self.positive:
            return label
        return " or ".join(self.positive) if label in self.positive else "rest"

    def names(self) -> list[str]:
        return [name for name in (self.label, self.subject, self.row_id) if name is not None]


def spool(
    source: Source,
    roles: Roles,
    columns: Sequence[Column],
    folder: Path,
    progress: Callable[[int], None] | None = None,
) -> Raw:
    """Read a source once. Numbers and codes go to files in `folder`, ids and labels to memory."""
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
    n = 0
    with (
        disk.ArrayWriter(folder / "spool-values.bin", "<f4") as values,
        disk.ArrayWriter(folder / "spool-codes.bin", "<i4") as codes,
    ):
        for batch in source.blocks(wanted):
            block_values, block_codes = reader.read(batch, n, source.name)
            values.append(block_values)
            codes.append(block_codes)
            label_codes.append(_labels(batch.column(roles.label), labels, n, source.name))
            for role, column in (("subject", roles.subject), ("row", roles.row_id)):
                if column is not None:
                    texts[role].append(as_text(batch.column(column)))
            n += batch.num_rows
            if progress is not None:
                progress(n)
    if n == 0:
        raise BadInput(f"{source.name} has no rows")
    found_labels = np.concatenate(label_codes)
    label_texts: list[str | None] = list(labels.texts)
    if roles.positive:
        label_texts, found_labels = _against_the_rest(label_texts, found_labels, roles)
    row_ids, row_places = _row_ids(texts["row"], source.name) if roles.row_id else (None, None)
    subject_ids, subjects = _subject_ids(texts["subject"], roles, row_ids, row_places, n, source)
    return Raw(
        _mapped(folder / "spool-values.bin", "<f4", (n, len(reader.numeric))),
        _mapped(folder / "spool-codes.bin", "<i4", (n, len(reader.categorical))),
        found_labels, np.arange(n), subjects, subject_ids, row_ids, row_places,
        [v.texts for v in reader.vocabularies], label_texts,
    )  # fmt: skip


def _labels(array: pa.Array, labels: Vocabulary, first_row: int, where: str) -> np.ndarray:
    text = as_text(array)
    if text.null_count:
        row = first_row + pc.index(pc.is_valid(text), False).as_py()
        raise BadInput(f"{where}: row {row} has no {labels.name!r}; every row needs its label")
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


def _row_ids(texts: list[pa.Array], where: str) -> tuple[Ids, np.ndarray]:
    found, places = ids.build(pa.chunked_array(texts, pa.string()), "row id", where)
    if len(found) < len(places):
        order = np.argsort(places, kind="stable")
        twice = int(np.flatnonzero(np.diff(places[order]) == 0)[0])
        first, second = int(order[twice]), int(order[twice + 1])
        raise BadInput(f"{where}: rows {first} and {second} have the same row id")
    return found, places


def _subject_ids(
    texts: list[pa.Array], roles: Roles, row_ids: Ids | None, row_places: np.ndarray | None,
    n: int, source: Source,
) -> tuple[Ids, np.ndarray]:  # fmt: skip
    if roles.subject is not None:
        return ids.build(pa.chunked_array(texts, pa.string()), "subject", source.name)
    if row_ids is not None and row_places is not None:  # every row its own subject
        return row_ids, row_places
    numbers = pa.chunked_array([pa.array(np.arange(n)).cast(pa.string())])
    return ids.build(numbers, "subject", source.name)


def _mapped(path: Path, dtype: str, shape: tuple[int, int]) -> np.ndarray:
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
