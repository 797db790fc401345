"""From record batches to raw rows, one column at a time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unfit.data.bags import pairs, side_by_side
from unfit.data.columns import BAGS, NUMBERS, Column
from unfit.data.encoding import Encoding
from unfit.data.raw_rows import RawRows
from unfit.data.values import UNSEEN, Vocabulary, categories_of, numbers
from unfit.errors import BadInput


class Reader:
    """Record batches to raw values, with vocabularies that grow (or are fixed, to predict)."""

    def __init__(
        self, columns: Sequence[Column], vocabularies: Sequence[Vocabulary] | None = None
    ) -> None:
        self.columns = list(columns)
        self.numeric = [c for c in columns if c.kind in NUMBERS]
        self.categorical = [c for c in columns if c.kind == "category"]
        self.bags = [c for c in columns if c.kind in BAGS]
        if vocabularies is None:  # to train on: a number that is left out would not be missed
            self.bags = [replace(c, unseen="error") for c in self.bags]
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

    def read(self, batch: pa.RecordBatch, first_row: int, where: str) -> RawRows:
        """The raw values of a batch."""
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
        bags = [pairs(batch.column(c.name), c, first_row, where) for c in self.bags]
        return RawRows(values, codes, side_by_side(bags))
