"""Certified unlearning beside the methods of the paper, over the rows that leave."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.certify.accountant import mu_of
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.figures.look import SOFT, legend, panels, percent_axis, seconds_axis
from unfit.experiments.findings import Findings, matching

CERTIFIED = ("certified", "certified", "#CC79A7")
SIGMA = 1.0
MEASURES = (
    ("seconds_unlearn", "seconds"),
    ("acc_err", "AccErr (%)"),
    ("acc_dis", "AccDis (%)"),
    ("mu", "mu"),
    ("epsilon_found", "epsilon found"),
)
ALLOWED = (0, (4, 3))  # the line of what the promise allows


def beyond(findings: Findings) -> Figure:
    found = findings.of("beyond")
    known = set(found["dataset"]) if len(found) else set()
    subjects = [s for s in findings.real if s.name in known] or findings.real[:1]
    figure, axes = panels([label for _, label in MEASURES], subjects, "rows deleted")
    looks = [(c.name, c.label, c.colour) for c in CONTENDERS.values() if c.name in METHODS]
    for j, subject in enumerate(subjects):
        for i, (measure, _) in enumerate(MEASURES):
            for method, _, colour in (*looks, CERTIFIED):
                if len(found):
                    _curve(
                        axes[i, j], matching(found, dataset=subject.name), method, measure, colour
                    )
            _finished(axes[i, j], measure)
    handles = [
        Line2D([], [], color=colour, marker="o", label=label)
        for _, label, colour in (*looks, CERTIFIED)
    ]
    handles.append(Line2D([], [], color=SOFT, linestyle=(0, (2, 2)), label="exact retraining"))
    handles.append(
        Line2D([], [], color=SOFT, linewidth=0.8, linestyle=ALLOWED, label="what is promised")
    )
    legend(figure, handles)
    return figure


METHODS = ("fisher", "influence", "deltagrad")


def _curve(axis: Axes, found: pd.DataFrame, method: str, measure: str, colour: str) -> None:
    ours = matching(found, method=method)
    ours = ours if method == CERTIFIED[0] else matching(ours, sigma=SIGMA)
    if ours.empty:
        return
    mean = ours.groupby("deleted")[[measure, "seconds_retrain_exact"]].mean()
    axis.plot(mean.index, mean[measure], color=colour, marker="o")
    if measure == "seconds_unlearn" and method == CERTIFIED[0]:
        axis.plot(mean.index, mean["seconds_retrain_exact"], color=SOFT, linestyle=(0, (2, 2)))


def _finished(axis: Axes, measure: str) -> None:
    axis.set_xscale("log")
    if measure == "seconds_unlearn":
        seconds_axis(axis)
    elif measure == "mu":
        axis.set_yscale("log")
        axis.axhline(mu_of(1.0, 1e-5), color=SOFT, linewidth=0.8, linestyle=ALLOWED)
    elif measure == "epsilon_found":
        axis.axhline(1.0, color=SOFT, linewidth=0.8, linestyle=ALLOWED)
        axis.set_ylim(-0.3, 7.5)
    else:
        percent_axis(axis)
