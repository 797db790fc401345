"""Rows on disk: memory-mapped arrays in one folder, opened in O(1), purged in place.

A folder is one generation: written whole by data.generation, renamed into place, and never grown.
Training rows come first, then the held-out ones. Raw values are kept beside the encoded rows, so
that constants can be fitted to what remains without going back to the source. Forgetting zeroes a
row's bytes; the next generation leaves it out.

    values (n, a) f4    numbers as they came, NaN where missing
    codes (n, b) i4     categories, codes into vocabulary.json
    X (n, p) f4         encoded rows, or, where these are sparse, X_indptr, X_indices and X_data
    bag_indptr (n + 1,) i8, bag_indices i4, bag_data f4     pairs of sparse and hashed columns
    labels (n,) i4      codes into vocabulary.json
    numbers (n,) i8     the row's number in the source: rising, in either part
    subjects (n,) i8    place among the subject ids
    live (n,) u1        0 where the row was erased
    subject_offsets, subject_bytes     the subject ids (data.ids)
    subject_starts, subject_rows       the positions of each subject's rows
    row_offsets, row_bytes, row_rows   the row ids, where a column gives them

Which columns a person's rows have values in says as much as the values: both are zeroed. How many
values an erased row had is to be seen in indptr until the next generation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from unfit import disk
from unfit.data.checked_files import read_checked, write_checked
from unfit.data.csr import Csr
from unfit.data.ids import Ids, fold, trim
from unfit.data.raw_rows import RawRows
from unfit.errors import Damaged

FORMAT = 1
SPARSE_FORMAT = 2  # with sparse rows or pairs, which an earlier unfit cannot read
DTYPES = {
    "values": "<f4",
    "codes": "<i4",
    "X": "<f4",
    "X_indptr": "<i8",
    "X_indices": "<i4",
    "X_data": "<f4",
    "bag_indptr": "<i8",
    "bag_indices": "<i4",
    "bag_data": "<f4",
    "labels": "<i4",
    "numbers": "<i8",
    "subjects": "<i8",
    "live": "|u1",
    "subject_offsets": "<i8",
    "subject_bytes": "|u1",
    "subject_starts": "<i8",
    "subject_rows": "<i8",
    "row_offsets": "<i8",
    "row_bytes": "|u1",
    "row_rows": "<i8",
}
# Zeroed when a row is forgotten, in order; of a pair, both the column's number and the value.
PURGED = ("values", "codes", "bag", "X", "labels")

IN_MEMORY = 1 << 29  # bytes of encoded rows up to which a pass works on a copy


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Rows before they are encoded: of a source just read, or of an earlier generation."""

    values: np.ndarray
    codes: np.ndarray
    labels: np.ndarray
    numbers: np.ndarray
    subjects: np.ndarray
    subject_ids: Ids
    row_ids: Ids | None
    row_places: np.ndarray | None  # the place of each row's id among row_ids
    vocabularies: Sequence[Sequence[str | None]]
    label_texts: Sequence[str | None]
    bags: Csr | None = None


class Dataset:
    """An opened generation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = read_checked(folder / "manifest.json")
        try:
            if manifest["format"] not in (FORMAT, SPARSE_FORMAT):
                raise Damaged(f"{folder.name} was written by another version of unfit")
            self.n, self.n_train = int(manifest["rows"]), int(manifest["train"])
            self.columns = [(str(name), str(kind)) for name, kind in manifest["columns"]]
            self.widths = [int(width) for width in manifest.get("widths", ())]
            self._width = int(manifest.get("width", 0))  # of sparse rows
            arrays = {str(k): tuple(v) for k, v in manifest["arrays"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, Damaged):
                raise
            raise Damaged(f"the manifest of {folder.name} lacks {error}") from None
        self._map = {name: self._open(name, shape) for name, shape in arrays.items()}
        vocabulary = read_checked(folder / "vocabulary.json")
        self.vocabularies: list[list[str | None]] = vocabulary["categories"]
        self.label_texts: list[str | None] = vocabulary["labels"]
        self.subject_ids = Ids(self["subject_offsets"], self["subject_bytes"])
        self.row_ids = (
            Ids(self["row_offsets"], self["row_bytes"]) if "row_offsets" in self._map else None
        )
        self._counts: tuple[list[np.ndarray], np.ndarray] | None = None
        self._in_memory: np.ndarray | Csr | None = None
        self._unsynced: set[Path] = set()  # files in which bytes were zeroed

    def _open(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        path, dtype = self.folder / f"{name}.bin", np.dtype(DTYPES[name])
        size = int(np.prod(shape)) * dtype.itemsize
        try:
            found = path.stat().st_size
        except OSError:
            raise Damaged(f"{self.folder.name}/{path.name} is missing") from None
        if found != size:
            raise Damaged(f"{self.folder.name}/{path.name} has {found} bytes instead of {size}")
        if size == 0:
            return np.empty(shape, dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=shape))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._map[name]

    def __contains__(self, name: str) -> bool:
        return name in self._map

    @property
    def sparse(self) -> bool:
        """Whether encoded rows are kept as sparse ones."""
        return "X" not in self._map

    @property
    def width(self) -> int:
        """How many columns encoded rows have."""
        return self._width if self.sparse else int(self["X"].shape[1])

    def rows(self) -> np.ndarray | Csr:
        """The encoded rows X, in memory where they are small: large pages halve a pass."""
        X = self.mapped_rows()
        if X.nbytes > IN_MEMORY:
            return X
        if self._in_memory is None:
            self._in_memory = X.copy()
        return self._in_memory

    def mapped_rows(self) -> np.ndarray | Csr:
        """The same where they lie on the disk."""
        return self._csr("X", self.width) if self.sparse else self["X"]

    def _csr(self, name: str, width: int) -> Csr:
        indptr, indices, data = (self[f"{name}_{part}"] for part in ("indptr", "indices", "data"))
        return Csr(indptr=indptr, indices=indices, data=data, width=width)

    @property
    def bags(self) -> Csr | None:
        """The pairs of sparse and hashed columns, side by side."""
        return self._csr("bag", sum(self.widths)) if self.widths else None

    def raw_rows(self, at: slice | np.ndarray) -> RawRows:
        """Some rows as they came."""
        bags = self.bags
        some = None if bags is None else bags[at]
        return RawRows(self["values"][at], self["codes"][at], some)

    @property
    def live(self) -> np.ndarray:
        """Mask of the rows not erased, a copy."""
        return np.array(self["live"], dtype=np.bool_)

    def subject_rows(self, subject: str) -> np.ndarray | None:
        """Positions of a subject's rows that are still there; None for an unknown subject."""
        place = self.subject_ids.find(subject)
        if place is None:
            return None
        starts = self["subject_starts"]
        positions = self["subject_rows"][starts[place] : starts[place + 1]]
        return np.asarray(positions[self["live"][positions] != 0])

    def row(self, row_id: str) -> int | None:
        """The position of a row that is still there, or None."""
        if self.row_ids is not None:
            place = self.row_ids.find(row_id)
            at = None if place is None else int(self["row_rows"][place])
        else:
            number = _row_number(trim(row_id))
            found = self.positions_of(np.array([] if number is None else [number], np.int64))
            at = int(found[0]) if len(found) else None
        return at if at is not None and self["live"][at] else None

    def spelling(self, kind: str, text: str) -> str:
        """An id that is here, as it is kept."""
        ids = self.subject_ids if kind == "subject" else self.row_ids
        place = None if ids is None else ids.find(text)
        kept = None if ids is None or place is None else ids.text(place)
        return trim(text) if kept is None else kept

    def near(self, kind: str, texts: Sequence[str]) -> list[list[str]]:
        """For each id the spellings close to it that somebody here has (data.ids)."""
        if kind == "subject":
            return self.subject_ids.near(texts)
        if self.row_ids is not None:
            return self.row_ids.near(texts)
        forms = fold(pa.array(texts, pa.large_string())).to_pylist()
        return [
            [form] if form != trim(text) and self.row(form) is not None else []
            for text, form in zip(texts, forms, strict=True)
        ]

    def positions_of(self, numbers: np.ndarray) -> np.ndarray:
        """Positions of rows by their number in the source; those not here are left out."""
        all_numbers, found = self["numbers"], []
        for start, stop in ((0, self.n_train), (self.n_train, self.n)):
            part = all_numbers[start:stop]
            at = np.searchsorted(part, numbers)
            hit = at < len(part)
            hit[hit] = part[at[hit]] == numbers[hit]
            found.append(start + at[hit])
        return np.sort(np.concatenate(found))

    def subjects_left(self) -> int:
        """How many subjects have a row left."""
        return len(np.unique(self["subjects"][self["live"] != 0]))

    def raw(self) -> Raw:
        places = None
        if self.row_ids is not None:
            places = np.empty(self.n, np.int64)
            places[self["row_rows"]] = np.arange(self.n)
        return Raw(
            values=self["values"],
            codes=self["codes"],
            labels=self["labels"],
            numbers=self["numbers"],
            subjects=self["subjects"],
            subject_ids=self.subject_ids,
            row_ids=self.row_ids,
            row_places=places,
            vocabularies=self.vocabularies,
            label_texts=self.label_texts,
            bags=self.bags,
        )

    def counts(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Live rows per category of each column, and per label."""
        if self._counts is None:
            live = self["live"] != 0
            codes = self["codes"]
            each = [
                np.bincount(codes[live, j], minlength=len(texts))
                for j, texts in enumerate(self.vocabularies)
            ]
            labels = np.bincount(self["labels"][live], minlength=len(self.label_texts))
            self._counts = each, labels
        return self._counts

    def purge_rows(self, positions: np.ndarray, *, restored: bool = False) -> None:
        """Zero the bytes of rows. Can be repeated; `sync_purged` makes it last.

        First of all they are no longer live: whoever sums over the rows where they lie looks
        after a pass whether all are, and would take zeros for a row. If it breaks off, the records
        say whose bytes are still to be zeroed. Of restored rows only `live` says so: it is last.
        """
        each, labels = self.counts()
        there = positions[self["live"][positions] != 0]
        codes = np.asarray(self["codes"][there])
        for j, count in enumerate(each):
            np.subtract.at(count, codes[:, j], 1)
        np.subtract.at(labels, self["labels"][there], 1)
        for name in (*PURGED, "live") if restored else ("live", *PURGED):
            if name in self._map:
                array = self[name]
                width = int(np.prod(array.shape[1:])) * array.itemsize
                self._zero(f"{name}.bin", width, positions)
            elif f"{name}_indptr" in self._map:
                places = self._csr(name, 0).entries(positions)
                for part in ("indices", "data"):
                    self._zero(f"{name}_{part}.bin", 4, places)
        if isinstance(self._in_memory, Csr):
            places = self._in_memory.entries(positions)
            self._in_memory.indices[places] = self._in_memory.data[places] = 0
        elif self._in_memory is not None:
            self._in_memory[positions] = 0

    def purge_ids(self, positions: np.ndarray) -> None:
        """Zero the ids of erased rows, and of subjects who have no row left. Can be repeated;
        `sync_purged` makes it last."""
        starts, rows, live = self["subject_starts"], self["subject_rows"], self["live"]
        gone = [
            place
            for place in np.unique(self["subjects"][positions])
            if not live[rows[starts[place] : starts[place + 1]]].any()
        ]
        self._zero_texts("subject", self.subject_ids, np.array(gone, np.int64))
        if self.row_ids is not None:
            wanted = np.isin(self["row_rows"], positions)
            self._zero_texts("row", self.row_ids, np.flatnonzero(wanted))

    def _zero_texts(self, name: str, ids: Ids, places: np.ndarray) -> None:
        spans = [np.arange(ids.offsets[p], ids.offsets[p + 1]) for p in places]
        if spans:
            self._zero(f"{name}_bytes.bin", 1, np.concatenate(spans))

    def _zero(self, name: str, row_bytes: int, positions: np.ndarray) -> None:
        if len(positions):
            disk.zero_rows(self.folder / name, row_bytes, positions)
            self._unsynced.add(self.folder / name)

    def sync_purged(self) -> None:
        """Bring to the disk what was zeroed."""
        disk.sync_all(self._unsynced)
        self._unsynced.clear()

    def unused(self) -> dict[str, set[str]]:
        """Categories by column that no live row holds, with the labels under ''."""
        each, labels = self.counts()
        names = [name for name, kind in self.columns if kind == "category"]
        found = {
            name: _unheld(texts, count)
            for name, texts, count in zip(names, self.vocabularies, each, strict=True)
        }
        found[""] = _unheld(self.label_texts, labels)
        return {name: texts for name, texts in found.items() if texts}

    def purge_texts(self, unused: dict[str, set[str]]) -> None:
        """Write the vocabulary anew without categories and labels that nobody holds."""
        names = [name for name, kind in self.columns if kind == "category"]
        self.vocabularies = [
            [None if t in unused.get(name, ()) else t for t in texts]
            for name, texts in zip(names, self.vocabularies, strict=True)
        ]
        self.label_texts = [None if t in unused.get("", ()) else t for t in self.label_texts]
        write_checked(
            self.folder / "vocabulary.json",
            {"categories": self.vocabularies, "labels": self.label_texts},
        )


def _unheld(texts: Sequence[str | None], count: np.ndarray) -> set[str]:
    """The texts that no row holds."""
    each = (texts[code] for code in np.flatnonzero(count[: len(texts)] == 0).tolist())
    return {text for text in each if text is not None}


def _row_number(text: str) -> int | None:
    """Of a row that is named by its number in the source, written as unfit writes it."""
    plain = text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if plain and str(int(text)) == text else None


def held_names(folder: Path) -> dict[str, set[str]]:
    """Categories by column in a generation's vocabulary; none if it has gone meanwhile."""
    try:
        columns = read_checked(folder / "manifest.json")["columns"]
        texts = read_checked(folder / "vocabulary.json")["categories"]
    except Damaged:
        if folder.exists():
            raise
        return {}
    names = [name for name, kind in columns if kind == "category"]
    return {n: {t for t in each if t is not None} for n, each in zip(names, texts, strict=True)}
