"""A table of facts, written as text, CSV or LaTeX."""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from unfit import disk

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """formats: one per column, as for `format`; empty for text. note: what to know of it."""

    name: str
    title: str
    columns: tuple[str, ...]
    formats: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def cells(self) -> list[list[str]]:
        return [
            [_shown(value, spec) for value, spec in zip(row, self.formats, strict=True)]
            for row in self.rows
        ]

    def text(self) -> str:
        cells = [list(self.columns), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [self.title, ""]
        for number, row in enumerate(cells):
            lines.append("  ".join(self._aligned(c, w, i) for i, (c, w) in
                                   enumerate(zip(row, widths, strict=True))).rstrip())  # fmt: skip
            if number == 0:
                lines.append("  ".join("-" * w for w in widths))
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"

    def _aligned(self, cell: str, width: int, column: int) -> str:
        return cell.rjust(width) if self.numeric(column) else cell.ljust(width)

    def numeric(self, column: int) -> bool:
        return self.formats[column] != ""

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()

    def latex(self) -> str:
        kinds = "".join("r" if self.numeric(i) else "l" for i in range(len(self.columns)))
        lines = [r"\begin{tabular}{" + kinds + "}", r"\toprule"]
        lines.append(" & ".join(_escaped(c) for c in self.columns) + r" \\")
        lines.append(r"\midrule")
        lines += [" & ".join(_escaped(c) for c in row) + r" \\" for row in self.cells()]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.columns) + " |"]
        marks = ["---:" if self.numeric(i) else "---" for i in range(len(self.columns))]
        lines.append("|" + "|".join(marks) + "|")
        lines += [
            "| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in self.cells()
        ]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in (("txt", self.text()), ("csv", self.csv()), ("tex", self.latex())):
            disk.write(folder / f"{self.name}.{suffix}", content.encode())


def _shown(value: Cell, spec: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return str(value) if spec == "" or isinstance(value, str) else format(value, spec)


def _escaped(text: str) -> str:
    for character in "\\&%#_":
        text = text.replace(character, "\\" + character if character != "\\" else "/")
    return text
