"""Deletion laws: accuracy of the retrained model over the fraction deleted."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.experiments import published
from unfit.experiments.figures.look import PUBLISHED, SOFT, law_look, legend, panels
from unfit.experiments.findings import Findings, Subject, matching

ROWS = {
    "acc_test_retrained": "accuracy, test rows",
    "acc_deleted_retrained": "accuracy, deleted rows",
}


def deletion_laws(findings: Findings) -> Figure:
    return _curves(findings, 0.0, 0.5)


def deletion_laws_extended(findings: Findings) -> Figure:
    return _curves(findings, 0.5, 1.0)


def _curves(findings: Findings, low: float, high: float) -> Figure:
    curves = findings.curves
    curves = curves[(curves["fraction"] >= low) & (curves["fraction"] <= high)]
    if low > 0:  # the uniform laws alone go on
        curves = curves[curves["law"].str.contains("uniform")]
    laws = list(dict.fromkeys(curves["law"]))
    figure, axes = panels(
        list(ROWS.values()), findings.real, "fraction of the training rows deleted"
    )
    with_published = False
    for j, subject in enumerate(findings.real):
        for i, measure in enumerate(ROWS):
            with_published |= _panel(axes[i, j], findings, subject, measure, laws, (low, high))
    handles = [
        Line2D([], [], color=colour, marker=marker, label=law)
        for law in laws
        for colour, marker in [law_look(law, laws)]
    ]
    if with_published:
        handles.append(Line2D([], [], color=SOFT, label="published", **PUBLISHED))
    legend(figure, handles)
    return figure


def _panel(
    axis: Axes,
    findings: Findings,
    subject: Subject,
    measure: str,
    laws: list[str],
    between: tuple[float, float],
) -> bool:
    """One measure of one data set; whether there is a published curve."""
    found = False
    ours, theirs = (
        matching(curves[curves["fraction"].between(*between)], dataset=subject.name)
        for curves in (findings.curves, published.curves())
    )
    for law in laws:
        colour, marker = law_look(law, laws)
        here, there = matching(ours, law=law), matching(theirs, law=law)
        axis.plot(here["fraction"], here[measure], color=colour, marker=marker, markersize=3.5)
        low, high = here[f"{measure}_low"], here[f"{measure}_high"]
        axis.fill_between(here["fraction"], low, high, color=colour, alpha=0.18, linewidth=0)
        if len(there) > 1:
            axis.plot(there["fraction"], there[measure], color=colour, zorder=1, **PUBLISHED)
            found = True
    return found
