"""What sigma does to a trained model when nothing is deleted."""

from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.figures.look import MARKERS, legend, panels, percent_axis, sigma_axis
from unfit.experiments.findings import Findings

ROWS = {"acc_err": "AccErr (%)", "distance": "L2 distance to\nthe optimum"}


def noise(findings: Findings) -> Figure:
    found = findings.of("train")
    figure, axes = panels(list(ROWS.values()), findings.real, "sigma")
    marker_of = dict(zip(CONTENDERS, cycle(MARKERS), strict=False))
    for j, subject in enumerate(findings.real):
        for i, measure in enumerate(ROWS):
            axis = axes[i, j]
            for name, contender in CONTENDERS.items():
                here = found[(found["dataset"] == subject.name) & (found["method"] == name)]
                if here.empty:
                    continue
                by = here.groupby("sigma")[measure]
                mean, low, high = by.mean(), by.min(), by.max()
                axis.plot(mean.index, mean, color=contender.colour, marker=marker_of[name])
                axis.fill_between(
                    mean.index, low, high, color=contender.colour, alpha=0.18, linewidth=0
                )
            sigma_axis(axis)
            if measure == "distance":
                axis.set_yscale("log")
            else:
                percent_axis(axis)
    legend(
        figure,
        [
            Line2D([], [], color=c.colour, marker=marker_of[name], label=c.label)
            for name, c in CONTENDERS.items()
        ],
    )
    return figure
