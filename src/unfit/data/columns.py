"""What a column is; what `unfit.toml` says under [columns].

A column is numeric, boolean or a category, or stands for many columns of which each row has values
in a few: sparse or hash. Its constants are declared here or, where they are left out, fitted to the
training rows that remain.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from unfit.errors import BadInput

Kind = Literal["numeric", "boolean", "category", "sparse", "hash"]
NUMBERS: tuple[Kind, ...] = ("numeric", "boolean")
BAGS: tuple[Kind, ...] = ("sparse", "hash")  # one column that stands for `width` of them
MAX_WIDTH = 1 << 30


@dataclass(frozen=True)
class Column:
    """One feature column. None: fitted to the training rows that remain (data.constants).

    scale: "standard" is (x - mean) / sd, "range" is (x - min) / (max - min), "none" leaves x.
    missing: what replaces a missing number: the mean, a number, or "error".
    decimal: the decimal mark of numbers that are written as text.
    unreadable: what becomes of a text that is not a number.
    width: of a sparse column or a hash, how many columns it stands for. A sparse column is scaled
    by one number and never shifted, because what is zero must stay zero; a hash is not scaled.
    """

    name: str
    kind: Kind
    _: KW_ONLY
    scale: Literal["standard", "range", "none"] = "standard"
    mean: float | None = None
    sd: float | None = None
    min: float | None = None
    max: float | None = None
    missing: Literal["mean", "error"] | float = "mean"
    categories: tuple[str, ...] | None = None
    max_categories: int = 50
    unseen: Literal["ignore", "error"] = "ignore"
    decimal: Literal[".", ","] = "."
    unreadable: Literal["error", "missing"] = "error"
    width: int = 0

    def __post_init__(self) -> None:
        where = f"column {self.name!r}"
        if self.kind in BAGS:
            self._check_bag(where)
        elif self.width:
            raise BadInput(f"{where}: width is for kind = 'sparse' and kind = 'hash'")
        if self.kind == "numeric":
            if self.scale == "range" and (self.min is None or self.max is None):
                raise BadInput(
                    f"{where}: scale = 'range' needs min and max: a fitted extreme would be one "
                    "person's value; declare them, or use scale = 'standard'"
                )
            if self.scale == "range" and not (self.min or 0.0) < (self.max or 0.0):
                raise BadInput(f"{where}: min must be below max")
            if (self.mean is None) != (self.sd is None):
                raise BadInput(f"{where}: declare both mean and sd, or neither")
            if self.sd is not None and not self.sd > 0:
                raise BadInput(f"{where}: sd must be above 0")
        if self.kind == "category":
            if self.max_categories < 1:
                raise BadInput(f"{where}: max_categories must be at least 1")
            if self.categories is not None and len(set(self.categories)) < len(self.categories):
                raise BadInput(f"{where}: categories lists one twice")

    def _check_bag(self, where: str) -> None:
        if not 1 <= self.width <= MAX_WIDTH:
            raise BadInput(
                f"{where}: kind = {self.kind!r} needs width, how many columns it stands for, from "
                f"1 to {MAX_WIDTH:,}"
            )
        if self.kind == "sparse" and (self.scale == "range" or self.mean is not None):
            raise BadInput(
                f"{where}: a sparse column is scaled and never shifted: scale is 'none' or "
                "'standard', with a declared sd or without"
            )
        if self.sd is not None and not self.sd > 0:
            raise BadInput(f"{where}: sd must be above 0")

    @property
    def declared(self) -> bool:
        """Whether no constant of the column is fitted."""
        if self.kind in BAGS:
            return self.kind == "hash" or self.scale == "none" or self.sd is not None
        if self.kind == "category":
            return self.categories is not None
        if self.kind == "boolean":
            return self.missing != "mean"
        return self.scale != "standard" or self.mean is not None
