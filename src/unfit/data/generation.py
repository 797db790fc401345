"""Writing a generation of rows: gathered, ids sorted, constants fitted, encoded, in blocks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from unfit import disk
from unfit.data.checked_files import write_checked
from unfit.data.columns import BAGS, Column
from unfit.data.constants import fit
from unfit.data.csr import Csr, ends
from unfit.data.dataset import DTYPES, FORMAT, SPARSE_FORMAT, Raw
from unfit.data.encoding import BLOCK, Encoding
from unfit.data.parallel import encode_at_once
from unfit.data.raw_rows import RawRows
from unfit.errors import CannotTrain
from unfit.progress import ProgressCallback
from unfit.readers import Readers

KeptAs: TypeAlias = Literal["auto", "dense", "sparse"]
SPARSE_WIDTH = 1024  # columns from which sparse rows pay off
SPARSE_SHARE = 1 / 16  # of them that rows have values in, at most
SPARSE_BLOCK = 1 << 12  # rows with pairs that are encoded at a time


def write_dataset(
    folder: Path,
    raw: Raw,
    train: np.ndarray,
    test: np.ndarray,
    *,
    columns: Sequence[Column],
    norm: float | None,
    min_rows: int,
    kept_as: KeptAs = "dense",
    progress: ProgressCallback | None = None,
    readers: Readers | None = None,
) -> Encoding:
    """Write the given rows of `raw` as a new generation; the encoding fitted to the training rows.

    train, test: rising positions in raw. kept_as: see `keep_sparse`. readers: encode dense rows at
    once. The folder must be new; it is complete when this returns.
    """
    order = np.concatenate([train, test]).astype(np.int64)
    out = _Writer(folder)
    out.put("values", _gather(raw.values, order))
    out.put("codes", _gather(raw.codes, order))
    if raw.bags is not None:
        out.put_sparse("bag", (raw.bags[part] for part in _parts(order, SPARSE_BLOCK)))
    out.put("labels", _gather(raw.labels, order))
    out.put("numbers", _gather(raw.numbers, order))
    out.put("live", [np.ones(len(order), np.uint8)])
    _put_ids(out.put, raw, order)

    vocabularies = [
        _still_used(texts, raw.codes[:, j], order) for j, texts in enumerate(raw.vocabularies)
    ]
    label_texts = _still_used(raw.label_texts, raw.labels, order)
    rows = out.raw_rows(None if raw.bags is None else raw.bags.width)
    encoding = _fit(rows[: len(train)], vocabularies, columns, norm, min_rows, kept_as)
    slots = encoding.slots(vocabularies)
    if readers is None or encoding.sparse or rows.bags is not None:
        _put_encoded(out, encoding, rows, slots, progress)
    else:
        disk.require_space(folder, 4 * len(rows) * encoding.width, "the encoded data")
        out.shapes["X"] = encode_at_once(folder, rows, (encoding, slots), readers, progress)
    vocabulary = {"categories": vocabularies, "labels": label_texts}
    write_checked(folder / "vocabulary.json", vocabulary)
    widths = [c.width for c in columns if c.kind in BAGS]
    manifest = {
        "format": SPARSE_FORMAT if encoding.sparse or widths else FORMAT,
        "rows": len(order),
        "train": len(train),
        "columns": [[c.name, c.kind] for c in columns],
        "arrays": {name: list(shape) for name, shape in out.shapes.items()},
        **({"widths": widths} if widths else {}),
        **({"width": encoding.width} if encoding.sparse else {}),
    }
    write_checked(folder / "manifest.json", manifest)
    disk.sync_folder(folder)
    return encoding


class _Writer:
    """The arrays of a generation on their way to the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}

    def put(self, name: str, blocks: Iterable[np.ndarray]) -> None:
        with disk.ArrayWriter(self.folder / f"{name}.bin", DTYPES[name]) as writer:
            rows, width = 0, ()
            for block in blocks:
                writer.append(block)
                rows, width = rows + len(block), block.shape[1:]
            self.shapes[name] = (rows, *width)

    def put_sparse(self, name: str, blocks: Iterable[Csr]) -> None:
        """Columns and values as blocks come, and in the end where each row begins."""
        counts: list[np.ndarray] = []
        paths = [self.folder / f"{name}_{part}.bin" for part in ("indices", "data")]
        with (
            disk.ArrayWriter(paths[0], DTYPES[f"{name}_indices"]) as indices,
            disk.ArrayWriter(paths[1], DTYPES[f"{name}_data"]) as data,
        ):
            for block in blocks:
                indices.append(block.indices)
                data.append(block.data)
                counts.append(block.counts)
        indptr = ends(np.concatenate(counts))
        self.put(f"{name}_indptr", [indptr])
        self.shapes[f"{name}_indices"] = self.shapes[f"{name}_data"] = (int(indptr[-1]),)

    def mapped(self, name: str) -> np.ndarray:
        shape = self.shapes[name]
        if 0 in shape:
            return np.empty(shape, DTYPES[name])
        return np.memmap(self.folder / f"{name}.bin", DTYPES[name], "r", shape=shape)

    def raw_rows(self, width: int | None) -> RawRows:
        """All rows as they came. width: of pairs, if there are any."""
        bags = None
        if width is not None:
            indptr, indices, data = map(self.mapped, ("bag_indptr", "bag_indices", "bag_data"))
            bags = Csr(indptr=np.asarray(indptr), indices=indices, data=data, width=width)
        return RawRows(self.mapped("values"), self.mapped("codes"), bags)


def keep_sparse(kept_as: KeptAs, encoding: Encoding, rows: RawRows) -> bool:
    """Whether encoded rows are kept as sparse ones: as it is declared, or else ("auto") where they
    have at least SPARSE_WIDTH columns and values in at most SPARSE_SHARE of them."""
    if kept_as != "auto":
        return kept_as == "sparse"
    of_bags = 0.0 if rows.bags is None else len(rows.bags.indices) / max(1, len(rows))
    values = len(encoding.numeric) + len(encoding.categorical) + of_bags
    return encoding.width >= SPARSE_WIDTH and values <= SPARSE_SHARE * encoding.width


def _fit(
    rows: RawRows,
    vocabularies: Sequence[Sequence[str | None]],
    columns: Sequence[Column],
    norm: float | None,
    min_rows: int,
    kept_as: KeptAs,
) -> Encoding:
    """The encoding fitted to training rows."""

    def blocks() -> Iterator[RawRows]:
        step = BLOCK if rows.bags is None else SPARSE_BLOCK
        for start in range(0, len(rows), step):
            yield rows[start : start + step]

    encoding = fit(
        columns, vocabularies, blocks, norm, min_rows, lambda e: keep_sparse(kept_as, e, rows)
    )
    if encoding.width == 0:
        raise CannotTrain("no column is left to learn from")
    return encoding


def _put_encoded(
    out: _Writer,
    encoding: Encoding,
    rows: RawRows,
    slots: Sequence[np.ndarray],
    progress: ProgressCallback | None,
) -> None:
    n = len(rows)
    values = encoding.width
    if encoding.sparse:
        of_bags = 0 if rows.bags is None else -(-len(rows.bags.indices) // max(1, n))
        values = 2 * (len(encoding.numeric) + len(encoding.categorical) + of_bags) + 2
    disk.require_space(out.folder, 4 * n * values, "the encoded data")

    def encoded(step: int) -> Iterator[Any]:
        for start in range(0, n, step):
            yield encoding.encode(rows[start : start + step], slots)
            if progress is not None:
                progress("encoding", min(start + step, n), n)

    if encoding.sparse:
        out.put_sparse("X", encoded(SPARSE_BLOCK))
    else:
        out.put("X", encoded(BLOCK))


def _put_ids(put: Callable[[str, Iterable[np.ndarray]], None], raw: Raw, order: np.ndarray) -> None:
    subjects = raw.subjects[order]
    used, place = np.unique(subjects, return_inverse=True)
    ids = raw.subject_ids.take(used)
    by_subject = np.argsort(place, kind="stable")
    counts = np.bincount(place, minlength=len(used))
    put("subjects", [place])
    put("subject_offsets", [ids.offsets])
    put("subject_bytes", [ids.data])
    put("subject_starts", [np.concatenate([[0], np.cumsum(counts)])])
    put("subject_rows", [by_subject])
    if raw.row_ids is not None and raw.row_places is not None:
        places = raw.row_places[order]
        by_place = np.argsort(places)
        row_ids = raw.row_ids.take(places[by_place])
        put("row_offsets", [row_ids.offsets])
        put("row_bytes", [row_ids.data])
        put("row_rows", [by_place])


def _gather(array: np.ndarray, order: np.ndarray) -> Iterator[np.ndarray]:
    for part in _parts(order, BLOCK):
        yield array[part]


def _parts(order: np.ndarray, step: int) -> Iterator[np.ndarray]:
    for start in range(0, max(1, len(order)), step):
        yield order[start : start + step]


def _still_used(
    texts: Sequence[str | None], codes: np.ndarray, order: np.ndarray
) -> list[str | None]:
    count = np.zeros(len(texts) + 1, np.int64)
    for start in range(0, len(order), BLOCK):
        count += np.bincount(codes[order[start : start + BLOCK]], minlength=len(count))
    return [text if count[i] else None for i, text in enumerate(texts)]
