"""The pipeline over time: accumulated cost, accuracy, and true against estimated disparity."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.experiments.figures.look import SOFT, legend, panels, percent_axis, seconds_axis
from unfit.experiments.findings import Findings, Subject
from unfit.experiments.streaming import REFIT

COLOURS = ("#000000", "#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00")
STYLES: tuple[Any, ...] = ("-", "-", "--", "-.", ":", "--")
FIRST = ("always", REFIT, "never")  # of the policies; then thresholds
ROWS = (
    "seconds spent so far",
    "accuracy of the\nactive model, test rows",
    "AccDis of the update (%),\ntrue",
)


def pipeline(findings: Findings) -> Figure:
    found = findings.of("stream")
    policies = list(dict.fromkeys(found["policy"]))
    policies.sort(key=_rank)
    figure, axes = panels(
        [*ROWS, "the same, estimated"],
        findings.real,
        "fraction of the training rows deleted so far",
    )
    for j, subject in enumerate(findings.real):
        _column(list(axes[:, j]), findings, subject, policies)
    handles = [
        Line2D([], [], color=COLOURS[i % 6], linestyle=STYLES[i % 6], label=_named(policy))
        for i, policy in enumerate(policies)
    ]
    handles.append(
        Line2D(
            [], [], color=SOFT, marker="o", linestyle="", markerfacecolor="none", label="retrained"
        )
    )
    legend(figure, handles)
    return figure


def _rank(policy: str) -> tuple[int, float]:
    if policy in FIRST:
        return FIRST.index(policy), 0.0
    return len(FIRST), float(policy.rstrip("%")) if "%" in policy else 0.0


def _named(policy: str) -> str:
    if policy == REFIT:
        return "warm refit (scikit-learn)"
    return f"threshold {policy}" if "%" in policy else f"{policy} retrain"


def _column(axes: list[Axes], findings: Findings, subject: Subject, policies: list[str]) -> None:
    found = findings.of("stream", dataset=subject.name)
    measures = ("seconds_total", "acc_test_employed", "acc_dis", "estimate")
    for i, policy in enumerate(policies):
        here = found[found["policy"] == policy].sort_values("step")
        if here.empty:
            continue
        look: dict[str, Any] = {
            "color": COLOURS[i % 6],
            "linestyle": STYLES[i % 6],
            "linewidth": 1.3,
        }
        for axis, measure in zip(axes, measures, strict=True):
            if policy in ("always", REFIT) and measure in ("acc_dis", "estimate"):
                continue  # what it would have let through is of no interest: it never does
            axis.plot(here["fraction"], here[measure], **look)
            again = here[here["retrained"].astype(bool)]
            if policy not in ("always", REFIT):
                axis.plot(
                    again["fraction"],
                    again[measure],
                    "o",
                    color=look["color"],
                    markerfacecolor="none",
                    markersize=5,
                )
    seconds_axis(axes[0])
    percent_axis(axes[2])
    percent_axis(axes[3])
