"""How a generation keeps its encoded rows, from its manifest alone: no row is read."""

from dataclasses import dataclass
from pathlib import Path

from unfit.data.checked_files import read_checked


@dataclass(frozen=True, kw_only=True)
class Kept:
    """columns: of encoded rows. share: of sparse rows, how many of them are not zero."""

    sparse: bool
    columns: int
    share: float | None = None

    def __str__(self) -> str:
        """The share to one digit: with more it would tell how many values a person had."""
        columns = f"{self.columns:,} column{'' if self.columns == 1 else 's'}"
        if self.share is None:
            return f"dense, {columns}"
        return f"sparse, {columns}, about {float(f'{100 * self.share:.0e}'):g} % of values not zero"


def kept_rows(folder: Path) -> Kept:
    """Of the generation in a folder."""
    manifest = read_checked(folder / "manifest.json")
    arrays = manifest["arrays"]
    if "X" in arrays:
        return Kept(sparse=False, columns=arrays["X"][1])
    rows, width = manifest["rows"], manifest["width"]
    return Kept(sparse=True, columns=width, share=arrays["X_indices"][0] / max(1, rows * width))
