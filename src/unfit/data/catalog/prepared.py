"""Rows prepared once: arrays in a folder of the cache, written aside and renamed into place.

CACHE/prepared/NAME-FINGERPRINT/ holds X.npy, y.npy, X_test.npy, y_test.npy (groups.npy) and
card.json, which says what they were made from and how long they must be. Sparse rows are three
files in place of X.npy: X-data.npy, X-indices.npy and X-indptr.npy. The fingerprint changes with
the entry's version and its files. A folder that is not as its card says is made anew.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.data.catalog import cache, fetch
from unfit.data.catalog.entry import Entry, FileSet, Parts, Prepared, blocks
from unfit.data.catalog.sparse_arrays import joined
from unfit.errors import Damaged
from unfit.progress import ProgressCallback

FORMAT = 1
HASHED = (
    1 << 28
)  # bytes up to which an array's hash is checked at every load, and not its size only


def prepare(entry: Entry, progress: ProgressCallback | None = None) -> Prepared:
    """The rows of an entry: from the cache, or prepared into it."""
    file_set = fetch.choose(entry.file_sets)
    if found := _cached(entry, file_set):
        return found
    folder = cache.ensure_folder("prepared")
    with cache.exclusive(folder, entry.name):
        if found := _cached(entry, file_set):  # another process was faster
            return found
        paths: dict[str, Path] = {}
        if entry.file_sets:
            file_set, paths = fetch.obtain(entry.title, entry.file_sets, progress)
        place = folder / f"{entry.name}-{_fingerprint(entry, file_set)}"
        if progress:
            progress(f"preparing {entry.name}", 0, 0)
        with cache.require_space(folder, 0, f"preparing {entry.name}"):
            parts = entry.prepare(file_set.read(paths) if file_set else {})
            parts.check(entry.name)
            _write(entry, file_set, parts, place, progress)
    return _open(entry, place)


def _fingerprint(entry: Entry, file_set: FileSet | None) -> str:
    files = [] if file_set is None else [(f.name, fetch.identity(f)) for f in file_set.files]
    text = json.dumps([FORMAT, entry.name, entry.version, files])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cached(entry: Entry, file_set: FileSet | None) -> Prepared | None:
    """What was prepared before from these files; if none are at hand, from any set."""
    folder = cache.cache_folder() / "prepared"
    file_sets = [file_set] if file_set or not entry.file_sets else list(entry.file_sets)
    for each in file_sets:
        place = folder / f"{entry.name}-{_fingerprint(entry, each)}"
        if place.is_dir():
            try:
                return _open(entry, place)
            except Damaged:
                continue
    return None


def _write(
    entry: Entry,
    file_set: FileSet | None,
    parts: Parts,
    place: Path,
    progress: ProgressCallback | None,
) -> None:
    arrays = parts.arrays()
    total = sum(array.nbytes for array in arrays.values())
    with cache.require_space(place.parent, total, f"preparing {entry.name}"):
        aside = Path(
            tempfile.mkdtemp(prefix=f".{entry.name}-", suffix=disk.TEMPORARY, dir=place.parent)
        )
        try:
            written = {}
            for name, array in arrays.items():
                written[name] = _write_array(aside / f"{name}.npy", array)
                if progress:
                    progress(f"writing {entry.name}/{name}", array.nbytes, total)
            card = {
                "format": FORMAT,
                "name": entry.name,
                "version": entry.version,
                "sources": {f.name: fetch.identity(f) for f in file_set.files} if file_set else {},
                "arrays": written,
                **({} if "X" in written else {"columns": int(parts.X.shape[1])}),
            }
            disk.write(aside / "card.json", json.dumps(card, indent=1).encode())
            disk.sync_folder(aside)
            disk.remove(place)  # damaged, or it would have been used
            os.rename(aside, place)
        except BaseException:
            disk.remove(aside)
            raise
        disk.sync_folder(place.parent)


def _write_array(path: Path, array: np.ndarray) -> dict[str, object]:
    """An .npy file, synced; its shape, size and hash."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        for start, stop in blocks(array):
            block = np.ascontiguousarray(array[start:stop])
            digest.update(block.data)
            file.write(block.data)
        file.flush()
        os.fsync(file.fileno())
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "size": path.stat().st_size,
        "sha256": digest.hexdigest(),
    }


def _open(entry: Entry, place: Path) -> Prepared:
    try:
        card = json.loads((place / "card.json").read_text())
        if card["format"] != FORMAT or card["version"] != entry.version:
            raise Damaged(f"{place.name} was prepared by another version")
        arrays = {
            name: _open_array(place / f"{name}.npy", of) for name, of in card["arrays"].items()
        }
        return Prepared(entry, **(arrays if "X" in arrays else joined(arrays, card["columns"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"{place} is not as it was written ({error}); remove it") from None


def _open_array(path: Path, of: dict[str, object]) -> np.ndarray:
    size = path.stat().st_size
    if size != of["size"]:
        raise Damaged(f"{path} has {size:,} bytes instead of {of['size']}; remove its folder")
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    if list(array.shape) != of["shape"] or array.dtype.str != of["dtype"]:
        raise Damaged(f"{path} has another shape than its card says; remove its folder")
    if size <= HASHED and hashlib.sha256(array.data).hexdigest() != of["sha256"]:
        raise Damaged(f"{path} is not as it was written; remove its folder")
    return array
