"""Which categories of a column get a column of their own: a function of rounded counts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unfit.data.columns import Column

Texts = Sequence[str | None]
Choice = tuple[tuple[str, ...], tuple[str, ...]]  # with a column, and without


def kept_categories(column: Column, texts: Texts, counts: np.ndarray, min_rows: int) -> Choice:
    """The categories that get a column, and those that enough rows hold but that get none; sorted.

    Where there are too many, the more frequent come first; frequencies are compared after rounding,
    and names decide among equals, so that it seldom matters who holds one row more.
    """
    return _chosen(column, texts, rounded_counts(counts, min_rows))


def rounded_counts(counts: np.ndarray, min_rows: int) -> np.ndarray:
    """All that the choice of categories depends on: 4 i + j for a count that rounds down to
    least 2^i (1 + j/4), and -1 below the least."""
    least = max(min_rows, 1)
    counts = np.asarray(counts, np.int64)
    octaves = np.frexp((counts // least).astype(np.float64))[1].astype(np.int64) - 1
    octaves = np.maximum(octaves, 0)
    rounded = 4 * octaves + 4 * counts // (least << octaves) - 4
    return np.where(counts >= least, rounded, -1)


def _chosen(column: Column, texts: Texts, rounded: np.ndarray) -> Choice:
    """See kept_categories; rounded: see rounded_counts."""
    rows: dict[str, int] = {}
    for i in np.flatnonzero(rounded >= 0).tolist():
        text = texts[i]
        if text is not None:
            rows[text] = int(rounded[i])
    kept = column.categories
    if kept is None:
        ranked = sorted((-n, t) for t, n in rows.items())
        kept = tuple(sorted(t for _, t in ranked[: column.max_categories]))
    return kept, tuple(sorted(rows.keys() - set(kept)))


@dataclass
class Choices:
    """The last choice of categories of each column, for as long as its rounded counts stay."""

    _last: dict[str, tuple[Texts, bytes, Choice]] = field(default_factory=dict)

    def of_all(
        self,
        columns: Sequence[Column],
        texts: Sequence[Texts],
        counts: Sequence[np.ndarray],
        min_rows: int,
    ) -> list[Choice]:
        """The same as kept_categories, of several columns; counts are rounded all at once."""
        if not columns:
            return []
        ends = np.cumsum([len(one) for one in counts])
        rounded = np.split(rounded_counts(np.concatenate(counts), min_rows), ends[:-1])
        return list(map(self._of, columns, texts, rounded))

    def _of(self, column: Column, texts: Texts, rounded: np.ndarray) -> Choice:
        last = self._last.get(column.name)
        if last is not None and last[0] is texts and last[1] == rounded.tobytes():
            return last[2]
        made = _chosen(column, texts, rounded)
        self._last[column.name] = texts, rounded.tobytes(), made
        return made
