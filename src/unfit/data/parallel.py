"""Reading a source and encoding its rows in parts, by several processes at once.

Who runs a function elsewhere is handed in (`Readers`); what is written is what one reader writes,
byte for byte. All parts see the same storage. Knows sources and ingest; nothing of a cluster.
"""

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from unfit import disk
from unfit.data.columns import Column
from unfit.data.dataset import Raw
from unfit.data.encoding import BLOCK, Encoding
from unfit.data.ingest import (
    SPOOLED,
    Found,
    Intake,
    Spool,
    raw_of,
    read_rows,
    require_classes,
    require_columns,
    spool,
)
from unfit.data.raw_rows import RawRows
from unfit.data.roles import Roles
from unfit.data.sources import Source
from unfit.data.sources.base import even_cuts
from unfit.data.values import Vocabulary
from unfit.errors import BadInput, UnreadableThere
from unfit.progress import ProgressCallback
from unfit.readers import Readers

PARTS_PER_READER = 4
_COPIED = 1 << 20  # numbers that are copied at a time
log = logging.getLogger("unfit")


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """A part of a source to be read, and the folder for its files."""

    source: Source
    roles: Roles
    columns: Sequence[Column]
    parts: Path


@dataclass(frozen=True, kw_only=True)
class _ReadPart:
    files: Spool
    found: Found


def spool_at_once(
    reading: tuple[Source, Roles, Sequence[Column]],
    folder: Path,
    readers: Readers | None,
    progress: ProgressCallback | None,
    intake: Intake,
) -> Raw:
    """As `spool` does, by several readers where the source can be divided.

    What is wrong with a source is said by one reader, which knows the numbers of its rows; it reads
    what readers elsewhere cannot.
    """
    source, roles, columns = reading
    parts = [source] if readers is None else source.parts(PARTS_PER_READER * readers.count)
    if readers is None or len(parts) < 2:
        return spool(source, roles, columns, folder, progress, intake)
    require_columns(source, roles, columns)
    files = Spool(folder=folder)
    try:
        with disk.parts_folder(folder.resolve()) as place:
            jobs = [
                _Reading(source=part, roles=roles, columns=columns, parts=place) for part in parts
            ]
            found = _joined(readers.each(_read_part, jobs), jobs[0], files, progress)
        return raw_of(found, source, roles, columns, files, intake)
    except (BadInput, UnreadableThere) as error:
        log.info("%s is read again by one reader: %s", source.name, error)
        for left in folder.glob("spool-*"):
            left.unlink()
        return spool(source, roles, columns, folder, progress, intake)


def _read_part(job: _Reading) -> _ReadPart:
    """Into files of its own: whoever does it twice, or late, is in nobody's way."""
    files = Spool(folder=job.parts, prefix=secrets.token_hex(8))
    found = read_rows(job.source, job.roles, job.columns, files)
    return _ReadPart(files=files, found=found)


def _joined(
    parts: Iterator[_ReadPart], job: _Reading, files: Spool, progress: ProgressCallback | None
) -> Found:
    """One after another, with codes of one vocabulary: in order of appearance, as one reader has
    them."""
    total, labels = Found(), Vocabulary(job.roles.label)
    vocabularies = [Vocabulary(c.name) for c in job.columns if c.kind == "category"]
    with files.writing() as out:
        for part in parts:
            found = part.found
            tables = [
                vocabulary.encode(pa.array(texts, pa.string()))
                for vocabulary, texts in zip(vocabularies, found.vocabularies, strict=True)
            ]
            for name in SPOOLED:
                for block in _numbers_in(part.files.path(name), SPOOLED[name], len(tables)):
                    out[name].append(_recoded(block, tables) if name == "codes" else block)
                part.files.path(name).unlink()
            of_label = labels.encode(pa.array(found.label_texts, pa.string()))
            require_classes(labels, job.source.name)
            total.labels += [of_label[codes] for codes in found.labels]
            total.numbers += [total.rows + numbers for numbers in found.numbers]
            for role, texts in found.texts.items():
                total.texts[role] += texts
            total.counts += found.counts
            for name, count in found.unreadable.items():
                total.unreadable[name] = total.unreadable.get(name, 0) + count
            total.rows += found.rows
            if progress is not None:
                progress("reading", total.rows, 0)
    total.label_texts, total.vocabularies = labels.texts, [v.texts for v in vocabularies]
    return total


def _numbers_in(path: Path, dtype: str, columns: int) -> Iterator[np.ndarray]:
    """The numbers of a file in blocks of whole rows of so many columns."""
    step = max(1, columns) * _COPIED
    with path.open("rb") as file:
        while len(block := np.fromfile(file, dtype, step)):
            yield block


def _recoded(codes: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """Codes (n b,) of rows one after another, by a table for each column."""
    rows = codes.reshape(-1, len(tables))
    return np.column_stack([table[rows[:, j]] for j, table in enumerate(tables)])


@dataclass(frozen=True, kw_only=True)
class _Encoding:
    """Rows to be encoded: a range of those in `values` and `codes`, (n, a) and (n, b)."""

    folder: Path
    parts: Path
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    encoding: Encoding
    slots: Sequence[np.ndarray]
    start: int = 0
    stop: int = 0


def encode_at_once(
    folder: Path,
    rows: RawRows,
    fitted: tuple[Encoding, Sequence[np.ndarray]],
    readers: Readers,
    progress: ProgressCallback | None,
) -> tuple[int, int]:
    """Write X.bin, dense rows, each range encoded by one process; its shape.

    rows: those of values.bin and codes.bin, which are complete. fitted: the encoding and its slots.
    """
    (encoding, slots), n = fitted, len(rows)
    blocks = even_cuts(-(-n // BLOCK), PARTS_PER_READER * readers.count)
    cuts = [min(n, BLOCK * cut) for cut in blocks]  # as one process cuts them
    with disk.parts_folder(folder.resolve()) as parts:
        job = _Encoding(
            folder=folder.resolve(),
            parts=parts,
            shapes=(rows.values.shape, rows.codes.shape),
            encoding=encoding,
            slots=slots,
        )
        jobs = [replace(job, start=first, stop=last) for first, last in pairwise(cuts)]
        with disk.create(folder / "X.bin") as file:
            for made, of in zip(readers.each(_encode_range, jobs), jobs, strict=True):
                disk.append_part(file, made)
                if progress is not None:
                    progress("encoding", of.stop, n)
    disk.sync_file(folder / "X.bin")
    return n, encoding.width


def _encode_range(job: _Encoding) -> Path:
    """Into a file of its own: whoever does it twice, or late, is in nobody's way."""
    values, codes = (
        np.empty(shape, dtype) if 0 in shape else np.memmap(path, dtype, "r", shape=shape)
        for path, dtype, shape in (
            (job.folder / "values.bin", "<f4", job.shapes[0]),
            (job.folder / "codes.bin", "<i4", job.shapes[1]),
        )
    )
    made = job.parts / secrets.token_hex(8)
    with disk.create(made) as file:
        for at in range(job.start, job.stop, BLOCK):
            part = slice(at, min(at + BLOCK, job.stop))
            X = job.encoding.encode(RawRows(values[part], codes[part]), job.slots)
            file.write(np.ascontiguousarray(X, "<f4").data)
    return made
