"""From raw values to the numbers a model sees, and the constants that takes.

Raw values are numbers (n, a) float32 with NaN for missing, categories (n, b) int32, codes into
vocabularies, and pairs of sparse and hashed columns. Encoded rows are (n, p) float32: scaled
numbers first, then one column per category, then the columns that pairs name; all divided by the
norm bound. They are dense or sparse, with the same numbers. An Encoding holds every constant and
says where it came from; those that were fitted are what data.constants makes of the training rows
that remain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from unfit.data.columns import BAGS, NUMBERS, Column
from unfit.data.csr import Csr, of_entries, stacked
from unfit.data.raw_rows import RawRows
from unfit.errors import Damaged

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from scipy import sparse

BLOCK = 1 << 15
Rows: TypeAlias = np.ndarray | Csr
Entries: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, columns, values


def matrix_of(X: Rows) -> "np.ndarray | sparse.csr_array":
    """Encoded rows as weights are multiplied with them."""
    return X.matrix() if isinstance(X, Csr) else X


@dataclass(frozen=True)
class Encoded:
    """A column with its constants: x -> (x - shift) / scale, or one column per category; the
    values of pairs are divided by scale.

    A category that no remaining row holds becomes None: its place stays, its name is purged.
    others: categories without a column that at least min_rows training rows hold.
    """

    column: Column
    _: KW_ONLY
    shift: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    categories: tuple[str | None, ...] = ()
    constants: Literal["declared", "fitted"] = "declared"
    others: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        if self.column.kind in BAGS:
            return self.column.width
        return len(self.categories) if self.column.kind == "category" else 1


class Absent(NamedTuple):
    """How many rows hold a category that has no column; a row may be in both.

    rare: one that is known, but too few training rows hold it. unseen: one that is not known.
    """

    rare: int
    unseen: int


@dataclass(frozen=True)
class Encoding:
    """All columns in the order of unfit.toml, and the norm bound.

    norm: rows are divided by it. clip: longer rows are cut to it; not where an earlier unfit fitted
    it to the longest row. min_rows: what the constants were fitted with; None if they were
    fitted without rounding, by an earlier unfit. sparse: how rows are kept; it changes no number.
    """

    columns: tuple[Encoded, ...]
    _: KW_ONLY
    norm: float = 1.0
    clip: bool = False
    norm_fitted: bool = False
    min_rows: int | None = None
    sparse: bool = False

    @property
    def numeric(self) -> list[Encoded]:
        return [c for c in self.columns if c.column.kind in NUMBERS]

    @property
    def categorical(self) -> list[Encoded]:
        return [c for c in self.columns if c.column.kind == "category"]

    @property
    def bags(self) -> list[Encoded]:
        return [c for c in self.columns if c.column.kind in BAGS]

    @property
    def width(self) -> int:
        return sum(c.width for c in self.columns)

    def names(self) -> list[str]:
        """One name per encoded column."""
        names = [c.column.name for c in self.numeric]
        for c in self.categorical:
            names += [f"{c.column.name}={text}" for text in c.categories]
        for c in self.bags:
            names += [f"{c.column.name}[{i}]" for i in range(c.width)]
        return names

    def encode(self, raw: RawRows, slots: Sequence[np.ndarray]) -> Rows:
        """Rows (m, p) float32. slots[j][code]: the place of a raw code of category j, or -1."""
        return self.bounded(self.unbounded(raw, slots))

    def bounded(self, X: Rows) -> Rows:
        """Rows within the norm bound; changes X."""
        if isinstance(X, Csr):
            return self._bounded_sparse(X)
        if self.clip:
            lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
            X /= np.maximum(lengths, self.norm).astype(np.float32)[:, None]
        elif self.norm != 1.0:
            X /= np.float32(self.norm)
        return X

    def _bounded_sparse(self, X: Csr) -> Csr:
        if self.clip:
            lengths = np.maximum(np.sqrt(X.square_lengths()), self.norm).astype(np.float32)
            return replace(X, data=X.data / np.repeat(lengths, X.counts))
        return X if self.norm == 1.0 else replace(X, data=X.data / np.float32(self.norm))

    def unbounded(self, raw: RawRows, slots: Sequence[np.ndarray]) -> Rows:
        """Rows before the norm bound."""
        m, scaled = len(raw), self._scaled(raw.values)
        rows, columns, ones = self._places(raw.codes, slots)
        bags = self._bag_values(raw.bags)
        if self.sparse:
            at, numbers = np.nonzero(scaled)
            entries = [(at, numbers, scaled[at, numbers]), (rows, columns, ones), bags]
            return of_entries(entries, (m, self.width))
        X = np.zeros((m, self.width), np.float32)
        X[:, : scaled.shape[1]] = scaled
        X[rows, columns] = 1.0
        X[bags[0], bags[1]] = bags[2]
        return X

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        """Numbers and booleans, (m, a) float32."""
        X = np.empty(values.shape, np.float32)
        if self.numeric:
            shift, scale, fill = np.array([(c.shift, c.scale, c.fill) for c in self.numeric]).T
            filled = np.where(np.isnan(values), fill.astype(np.float32), values)
            X[:] = (filled - shift) / scale
        return X

    def _places(self, codes: np.ndarray, slots: Sequence[np.ndarray]) -> Entries:
        """Where rows have a category's column: rows, columns, ones; one column after another."""
        at, found = len(self.numeric), []
        for j, column in enumerate(self.categorical):
            place = slots[j][codes[:, j]]
            rows = np.flatnonzero(place >= 0)
            found.append((rows, at + place[rows]))
            at += column.width
        empty = np.zeros(0, np.int64)
        rows = np.concatenate([empty, *(rows for rows, _ in found)])
        columns = np.concatenate([empty, *(columns for _, columns in found)])
        return rows, columns, np.ones(len(rows), np.float32)

    def _bag_values(self, bags: Csr | None) -> Entries:
        """The scaled values of pairs: rows, columns, values."""
        if bags is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)
        widths = [c.width for c in self.bags]
        scales = np.array([c.scale for c in self.bags], np.float32)
        which = np.searchsorted(np.cumsum(widths), bags.indices, side="right")
        first = self.width - sum(widths)
        return bags.row_numbers, first + bags.indices, bags.data / scales[which]

    def stacked(self, parts: Sequence[Rows]) -> Rows:
        """Encoded rows one under another."""
        if self.sparse:
            return stacked([part for part in parts if isinstance(part, Csr)], self.width)
        dense = [part for part in parts if isinstance(part, np.ndarray)]
        return np.concatenate([np.empty((0, self.width), np.float32), *dense])

    def slots(self, vocabularies: Sequence[Sequence[str | None]]) -> list[np.ndarray]:
        """For every category column: raw code -> place among its categories, or -1."""
        tables = []
        for column, texts in zip(self.categorical, vocabularies, strict=True):
            place = {text: i for i, text in enumerate(column.categories) if text is not None}
            table = [-1 if text is None else place.get(text, -1) for text in texts]
            tables.append(np.array([*table, -1], np.int64))  # the last one answers UNSEEN
        return tables

    def own_slots(self) -> list[np.ndarray]:
        """For codes that are places already, as `Reader.of(encoding)` gives them."""
        return [np.array([*range(c.width), -1], np.int64) for c in self.categorical]

    def purge_names(self, held: Mapping[str, set[str | None]]) -> "Encoding":
        """Without the names of fitted categories that no row holds. held: by column."""

        def one(c: Encoded) -> Encoded:
            if c.column.kind != "category" or c.constants == "declared":
                return c
            texts = held[c.column.name]
            named = (t for t in c.categories if t is not None)
            if texts.issuperset(c.others) and texts.issuperset(named):
                return c
            return replace(
                c,
                categories=tuple(t if t in texts else None for t in c.categories),
                others=tuple(t for t in c.others if t in texts),
            )

        return replace(self, columns=tuple(one(c) for c in self.columns))

    def to_json(self) -> dict[str, object]:
        """Without what concerns sparse rows where there are none: cards stay as they were."""
        made = cast(dict[str, Any], _adapter().dump_python(self, mode="json"))
        if not self.sparse:
            del made["sparse"]
        for c in made["columns"]:
            if not c["column"]["width"]:
                del c["column"]["width"]
        return made

    @classmethod
    def from_json(cls, card: object) -> "Encoding":
        try:
            return _adapter().validate_python(card)
        except ValueError:
            raise Damaged("the model card does not say how to encode rows") from None


@cache
def _adapter() -> "TypeAdapter[Encoding]":
    from pydantic import TypeAdapter

    return TypeAdapter(Encoding)
