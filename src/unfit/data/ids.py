"""Ids on disk: sorted texts that are found by bisection and erased in place.

The order is by length, then by bytes; for whole numbers that is the order of the numbers. An
erased id is overwritten with zero bytes: ids hold none themselves, so a zero marks a gap, and
bisection steps over it.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.errors import BadInput


class Ids:
    """Texts in offsets (n + 1) and bytes, as arrays or memory maps."""

    def __init__(self, offsets: np.ndarray, data: np.ndarray) -> None:
        self.offsets, self.data = offsets, data

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def raw(self, i: int) -> bytes:
        return bytes(self.data[self.offsets[i] : self.offsets[i + 1]])

    def text(self, i: int) -> str | None:
        """None where it was erased."""
        raw = self.raw(i)
        return None if raw[:1] == b"\0" else raw.decode()

    def find(self, text: str) -> int | None:
        """The place of an id, or None."""
        wanted = text.encode()
        key = (len(wanted), wanted)
        low, high = 0, len(self)
        while low < high:
            middle = at = (low + high) // 2
            found = self.raw(at)
            while found[:1] == b"\0" and at + 1 < high:
                at += 1
                found = self.raw(at)
            if found[:1] == b"\0":
                high = middle
            elif (len(found), found) < key:
                low = at + 1
            elif found == wanted:
                return at
            else:
                high = middle
        return None

    def find_all(self, texts: Iterable[str]) -> list[int | None]:
        return [self.find(text) for text in texts]

    def take(self, places: np.ndarray) -> "Ids":
        """Some of them, in the given (rising) order."""
        lengths = self.offsets[places + 1] - self.offsets[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.offsets[places] - offsets[:-1], lengths)
        return Ids(offsets, np.asarray(self.data)[np.arange(offsets[-1]) + starts])


def build(texts: pa.ChunkedArray, what: str, where: str) -> tuple[Ids, np.ndarray]:
    """The distinct texts, sorted, and the place of each given one (n,) int64."""
    missing = pc.index(pc.is_valid(texts), False).as_py()
    if missing >= 0:
        raise BadInput(f"{where}: row {missing} has no {what}; every row needs one to be found")
    encoded = pc.dictionary_encode(texts).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    distinct = encoded.dictionary
    size = pc.binary_length(distinct)
    if len(distinct) and (pc.min(size).as_py() == 0 or _has_zero(distinct)):
        raise BadInput(f"{where}: a {what} is empty or holds a zero byte")
    table = pa.table({"size": size, "text": distinct})
    order = pc.sort_indices(table, sort_keys=[("size", "ascending"), ("text", "ascending")])
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    ordered = distinct.take(order).cast(pa.large_string())
    _, offsets, data = ordered.buffers()
    starts = np.frombuffer(offsets, np.int64)[: len(ordered) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    ids = Ids(starts - starts[0], content[starts[0] : starts[-1]])
    return ids, rank[encoded.indices.to_numpy(zero_copy_only=False)]


def _has_zero(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, "\0")).as_py())
