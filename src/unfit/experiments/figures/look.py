"""The one look of all figures: sizes, colours that everybody can tell apart, markers, legends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.findings import Subject

INK, SOFT = "#1c2430", "#5c6773"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # of tau, from the smallest to the largest
LAWS = {
    "uniform-random": ("#56B4E9", "o"), "uniform-informed": ("#0072B2", "s"),
    "targeted-random": ("#E69F00", "^"), "targeted-informed": ("#D55E00", "D"),
    "text-uniform-random": ("#CC79A7", "v"), "text-uniform-informed": ("#009E73", "P"),
}  # fmt: skip
OTHERS = ("#009E73", "#CC79A7", "#000000", "#F0E442")
PUBLISHED: dict[str, Any] = {"linestyle": (0, (2, 2)), "linewidth": 1.0, "alpha": 0.9}
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 8.5, "axes.titlesize": 9.5, "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "legend.fontsize": 8.5,
    "axes.edgecolor": SOFT, "axes.labelcolor": INK, "text.color": INK, "xtick.color": SOFT,
    "ytick.color": SOFT, "axes.linewidth": 0.7, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e8ec", "grid.linewidth": 0.6,
    "axes.axisbelow": True, "lines.linewidth": 1.5, "lines.markersize": 4.5,
    "legend.frameon": False, "savefig.dpi": 150, "svg.hashsalt": "unfit", "figure.dpi": 100,
    "axes.titleweight": "bold", "mathtext.default": "regular",
}  # fmt: skip


@contextmanager
def look() -> Iterator[None]:
    with mpl.rc_context(STYLE):
        yield


def panels(
    rows: Sequence[str], subjects: Sequence[Subject], x_label: str
) -> tuple[Figure, np.ndarray]:
    """A grid of axes: a row for every label on the left, a column for every data set."""
    size = (max(2.15 * len(subjects) + 0.7, 7.0), 1.75 * len(rows) + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(subjects), squeeze=False, sharex="col")
    for i, row in enumerate(rows):
        axes[i, 0].set_ylabel(row)
    for j, subject in enumerate(subjects):
        axes[0, j].set_title(subject.title.replace(", subset of", "\nsubset of"))
    figure.supxlabel(x_label, fontsize=8.5)
    return figure, axes


def legend(figure: Figure, handles: Sequence[Line2D], columns: int | None = None) -> None:
    """Above the panels, as the paper has it."""
    if columns is None:
        columns = len(handles) if figure.get_figwidth() > 9 else -(-len(handles) // 2)
    figure.legend(
        handles=list(handles),
        loc="outside upper center",
        ncols=columns,
        handlelength=1.8,
        columnspacing=1.4,
    )


def method_handles() -> list[Line2D]:
    """Row by row a method and a marker for each of its taus, for a legend filled by columns."""
    everyone = list(CONTENDERS.values())
    handles = [Line2D([], [], color=c.colour, label=c.label, linewidth=2) for c in everyone]
    for i in range(tau_count()):
        for contender in everyone:
            if i < len(contender.taus):
                look: dict[str, Any] = {
                    "color": contender.colour,
                    "marker": MARKERS[i],
                    "linestyle": "",
                }
            else:
                look = {"color": "none"}
            label = contender.taus[i].label if i < len(contender.taus) else " "
            handles.append(Line2D([], [], label=label, **look))
    return handles


def tau_count() -> int:
    return max(len(contender.taus) for contender in CONTENDERS.values())


def law_look(law: str, known: Sequence[str]) -> tuple[str, str]:
    return LAWS.get(law) or (OTHERS[list(known).index(law) % len(OTHERS)], "v")


def speed_axis(axis: Axes) -> None:
    """Speed-up, on a logarithmic scale, with the line where nothing is won."""
    axis.set_xscale("log")
    axis.axvline(1.0, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    low, high = axis.get_xlim()
    axis.set_xlim(min(low, 0.7), max(high, 3.0))
    axis.xaxis.set_major_locator(LogLocator(base=10, numticks=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def seconds_axis(axis: Axes) -> None:
    """Seconds on a logarithmic scale, as plain numbers, three to a decade where there is room."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    steps = (1.0, 2.0, 5.0) if high < 100 * low else (1.0,)
    axis.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=9))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def percent_axis(axis: Axes) -> None:
    """Percent from zero up, small differences still told apart."""
    axis.set_yscale("symlog", linthresh=0.1, linscale=0.5)
    axis.set_ylim(0, max(axis.dataLim.y1 * 1.6, 0.2))  # room for the markers at the top
    ticks = [t for t in (0, 0.1, 1, 10, 100) if t <= max(axis.get_ylim()[1], 0.1)]
    axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axis.yaxis.set_minor_formatter(NullFormatter())


def sigma_axis(axis: Axes) -> None:
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
