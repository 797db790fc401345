"""From raw values to the numbers a model sees, and the constants that takes.

Raw values are numbers (n, a) float32 with NaN for missing, and categories (n, b) int32, codes into
vocabularies. Encoded rows are (n, p) float32: scaled numbers first, then one column per category;
all divided by the norm bound. An Encoding holds every constant and says where it came from; those
that were fitted are what data.constants makes of the training rows that remain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.columns import Column
from unfit.data.values import UNSEEN, Vocabulary, categories_of, numbers
from unfit.errors import BadInput, Damaged

if TYPE_CHECKING:
    from pydantic import TypeAdapter

BLOCK = 1 << 15


@dataclass(frozen=True)
class Encoded:
    """A column with its constants: x -> (x - shift) / scale, or one column per category.

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
    fitted without rounding, by an earlier unfit.
    """

    columns: tuple[Encoded, ...]
    _: KW_ONLY
    norm: float = 1.0
    clip: bool = False
    norm_fitted: bool = False
    min_rows: int | None = None

    @property
    def numeric(self) -> list[Encoded]:
        return [c for c in self.columns if c.column.kind != "category"]

    @property
    def categorical(self) -> list[Encoded]:
        return [c for c in self.columns if c.column.kind == "category"]

    @property
    def width(self) -> int:
        return sum(c.width for c in self.columns)

    def names(self) -> list[str]:
        """One name per encoded column."""
        names = [c.column.name for c in self.numeric]
        for c in self.categorical:
            names += [f"{c.column.name}={text}" for text in c.categories]
        return names

    def encode(
        self, values: np.ndarray, codes: np.ndarray, slots: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Rows (m, p) float32. slots[j][code]: the place of a raw code of category j, or -1."""
        return self.bounded(self.unbounded(values, codes, slots))

    def bounded(self, X: np.ndarray) -> np.ndarray:
        """Rows within the norm bound; changes X."""
        if self.clip:
            lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
            X /= np.maximum(lengths, self.norm).astype(np.float32)[:, None]
        elif self.norm != 1.0:
            X /= np.float32(self.norm)
        return X

    def unbounded(
        self, values: np.ndarray, codes: np.ndarray, slots: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Rows before the norm bound."""
        X = np.zeros((len(values), self.width), np.float32)
        a = len(self.numeric)
        if a:
            shift, scale, fill = np.array([(c.shift, c.scale, c.fill) for c in self.numeric]).T
            filled = np.where(np.isnan(values), fill.astype(np.float32), values)
            X[:, :a] = (filled - shift) / scale
        at = a
        for j, column in enumerate(self.categorical):
            place = slots[j][codes[:, j]]
            rows = np.flatnonzero(place >= 0)
            X[rows, at + place[rows]] = 1.0
            at += column.width
        return X

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
            return replace(
                c,
                categories=tuple(t if t in texts else None for t in c.categories),
                others=tuple(t for t in c.others if t in texts),
            )

        return replace(self, columns=tuple(one(c) for c in self.columns))

    def to_json(self) -> dict[str, object]:
        return cast(dict[str, object], _adapter().dump_python(self, mode="json"))

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


class Reader:
    """Record batches to raw values, with vocabularies that grow (or are fixed, to predict)."""

    def __init__(
        self, columns: Sequence[Column], vocabularies: Sequence[Vocabulary] | None = None
    ) -> None:
        self.columns = list(columns)
        self.numeric = [c for c in columns if c.kind != "category"]
        self.categorical = [c for c in columns if c.kind == "category"]
        self.vocabularies = (
            [Vocabulary(c.name) for c in self.categorical]
            if vocabularies is None
            else list(vocabularies)
        )

    @classmethod
    def of(cls, encoding: Encoding, strict: bool = True) -> "Reader":
        """Codes are places among the categories of the encoding; strict: unseen = "error" holds."""
        vocabularies = [
            Vocabulary(c.column.name, c.categories, fixed=True) for c in encoding.categorical
        ]
        columns = [
            c.column if strict else replace(c.column, unseen="ignore") for c in encoding.columns
        ]
        return cls(columns, vocabularies)

    def require(self, available: Sequence[str], where: str) -> None:
        lacking = [c.name for c in self.columns if c.name not in available]
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise BadInput(f"{where} has no column {lacking[0]!r}{more}")

    def read(
        self, batch: pa.RecordBatch, first_row: int, where: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (m, a) and category codes (m, b)."""
        m = batch.num_rows
        values = np.empty((m, len(self.numeric)), np.float32)
        for j, column in enumerate(self.numeric):
            values[:, j] = numbers(batch.column(column.name), column, first_row, where)
        codes = np.empty((m, len(self.categorical)), np.int32)
        for j, (column, vocabulary) in enumerate(
            zip(self.categorical, self.vocabularies, strict=True)
        ):
            texts = categories_of(batch.column(column.name), column.name, where)
            codes[:, j] = vocabulary.encode(texts)
            if vocabulary.fixed and column.unseen == "error" and (codes[:, j] == UNSEEN).any():
                at = int(np.argmax(codes[:, j] == UNSEEN))
                raise BadInput(
                    f"{where}: row {first_row + at}, column {column.name!r}: "
                    f"{texts[at].as_py()!r} is not among the model's categories"
                )
            if not vocabulary.fixed and column.unseen == "error" and column.categories is not None:
                known = pc.is_in(texts, value_set=pa.array(column.categories, pa.string()))
                at = pc.index(known, False).as_py()
                if at >= 0:
                    raise BadInput(
                        f"{where}: row {first_row + at}, column {column.name!r}: "
                        f"{texts[at].as_py()!r} is not among the declared categories"
                    )
        return values, codes
