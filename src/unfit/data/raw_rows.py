"""Rows as they came, before they are encoded: numbers, codes of categories, and pairs."""

from dataclasses import dataclass

import numpy as np

from unfit.data.csr import Csr


@dataclass(frozen=True)
class RawRows:
    """values (n, a) float32, NaN where missing; codes (n, b) int32 into vocabularies; bags: the
    pairs of all sparse and hashed columns side by side, None where there is no such column."""

    values: np.ndarray
    codes: np.ndarray
    bags: Csr | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: slice | np.ndarray) -> "RawRows":
        bags = None if self.bags is None else self.bags[at]
        return RawRows(self.values[at], self.codes[at], bags)
