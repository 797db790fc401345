"""Writing a generation of rows: gathered, ids sorted, constants fitted, encoded, in blocks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.data.columns import Column
from unfit.data.constants import fit
from unfit.data.dataset import DTYPES, FORMAT, Raw, write_checked
from unfit.data.encoding import BLOCK, Encoding
from unfit.errors import CannotTrain
from unfit.progress import ProgressCallback


def write_dataset(
    folder: Path,
    raw: Raw,
    train: np.ndarray,
    test: np.ndarray,
    *,
    columns: Sequence[Column],
    norm: float | None,
    min_rows: int,
    progress: ProgressCallback | None = None,
) -> Encoding:
    """Write the given rows of `raw` as a new generation; the encoding fitted to the training rows.

    train, test: rising positions in raw. The folder must be new; it is complete when this returns.
    """
    order = np.concatenate([train, test]).astype(np.int64)
    n, n_train = len(order), len(train)
    shapes: dict[str, tuple[int, ...]] = {}

    def put(name: str, blocks: Iterable[np.ndarray]) -> None:
        with disk.ArrayWriter(folder / f"{name}.bin", DTYPES[name]) as writer:
            rows, width = 0, ()
            for block in blocks:
                writer.append(block)
                rows, width = rows + len(block), block.shape[1:]
            shapes[name] = (rows, *width)

    put("values", _gather(raw.values, order))
    put("codes", _gather(raw.codes, order))
    put("labels", _gather(raw.labels, order))
    put("numbers", _gather(raw.numbers, order))
    put("live", [np.ones(n, np.uint8)])
    _put_ids(put, raw, order)

    vocabularies = [
        _still_used(texts, raw.codes[:, j], order) for j, texts in enumerate(raw.vocabularies)
    ]
    label_texts = _still_used(raw.label_texts, raw.labels, order)
    values = _map(folder, "values", shapes)
    codes = _map(folder, "codes", shapes)

    def training_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n_train, BLOCK):
            part = slice(start, min(start + BLOCK, n_train))
            yield values[part], codes[part]

    encoding = fit(columns, vocabularies, training_blocks, norm, min_rows)
    if encoding.width == 0:
        raise CannotTrain("no column is left to learn from")
    disk.require_space(folder, 4 * n * encoding.width, "the encoded data")
    slots = encoding.slots(vocabularies)

    def encoded() -> Iterator[np.ndarray]:
        for start in range(0, n, BLOCK):
            yield encoding.encode(
                values[start : start + BLOCK], codes[start : start + BLOCK], slots
            )
            if progress is not None:
                progress("encoding", min(start + BLOCK, n), n)

    put("X", encoded())
    vocabulary = {"categories": vocabularies, "labels": label_texts}
    write_checked(folder / "vocabulary.json", vocabulary)
    manifest = {
        "format": FORMAT,
        "rows": n,
        "train": n_train,
        "columns": [[c.name, c.kind] for c in columns],
        "arrays": {name: list(shape) for name, shape in shapes.items()},
    }
    write_checked(folder / "manifest.json", manifest)
    disk.sync_folder(folder)
    return encoding


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
    for start in range(0, max(1, len(order)), BLOCK):
        yield array[order[start : start + BLOCK]]


def _still_used(
    texts: Sequence[str | None], codes: np.ndarray, order: np.ndarray
) -> list[str | None]:
    count = np.zeros(len(texts) + 1, np.int64)
    for start in range(0, len(order), BLOCK):
        count += np.bincount(codes[order[start : start + BLOCK]], minlength=len(count))
    return [text if count[i] else None for i, text in enumerate(texts)]


def _map(folder: Path, name: str, shapes: dict[str, tuple[int, ...]]) -> np.ndarray:
    if 0 in shapes[name]:
        return np.empty(shapes[name], DTYPES[name])
    return np.memmap(folder / f"{name}.bin", DTYPES[name], "r", shape=shapes[name])
