"""A table of facts, written as text, CSV, LaTeX or Markdown."""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from unfit import disk

Cell = str | float | int | None
DIGITS = ",.3g"  # a format of its own, see `three_digits`


@dataclass(frozen=True, kw_only=True)
class Table:
    """formats: one per column, as for `format`; empty for text. note: stands below the table."""

    name: str
    title: str
    columns: tuple[str, ...]
    formats: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The rows as they are shown."""
        return [
            [_shown(value, spec) for value, spec in zip(row, self.formats, strict=True)]
            for row in self.rows
        ]

    def text(self) -> str:
        cells = [list(self.columns), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        cells.insert(1, ["-" * width for width in widths])
        lines = ["  ".join(map(self._aligned, row, widths, self.formats)).rstrip() for row in cells]
        note = ["", self.note] if self.note else []
        return "\n".join([self.title, "", *lines, *note]) + "\n"

    @staticmethod
    def _aligned(cell: str, width: int, spec: str) -> str:
        return cell.rjust(width) if spec else cell.ljust(width)

    def numeric(self, column: int) -> bool:
        return self.formats[column] != ""

    def csv(self) -> str:
        """The values themselves, with all their digits."""
        frame = pd.DataFrame(list(self.rows), columns=list(self.columns), dtype=object)
        return str(frame.to_csv(index=False, lineterminator="\n"))

    def latex(self) -> str:
        kinds = "".join("r" if spec else "l" for spec in self.formats)
        shown = pd.DataFrame(self.cells(), columns=list(self.columns))
        return str(shown.to_latex(index=False, column_format=kinds, escape=True))

    def markdown(self) -> str:
        # pandas would need another package for this
        lines = [list(self.columns), ["---:" if spec else "---" for spec in self.formats]]
        lines += [[cell.replace("|", "\\|") for cell in row] for row in self.cells()]
        head, marks, *rows = lines
        shown = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
        return "\n".join([shown[0], "|" + "|".join(marks) + "|", *shown[1:]]) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in (("txt", self.text()), ("csv", self.csv()), ("tex", self.latex())):
            disk.write(folder / f"{self.name}.{suffix}", content.encode())


def _shown(value: Cell, spec: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if spec == "" or isinstance(value, str):
        return str(value)
    return three_digits(value) if spec == DIGITS else format(value, spec)


def three_digits(value: float) -> str:
    """Three significant digits, or all before the point; never an exponent of ten for a ratio."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
