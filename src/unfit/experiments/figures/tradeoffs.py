"""Trade-offs between efficiency, certifiability and effectiveness."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.figures.look import (
    MARKERS,
    legend,
    method_handles,
    panels,
    percent_axis,
    sigma_axis,
    speed_axis,
    tau_count,
)
from unfit.experiments.findings import Findings, Subject, matching
from unfit.experiments.plans import VOLUMES

SPEED = "speed-up against retraining by SGD"
SPARSE_SPEED = "speed-up against retraining from nothing"  # SGD cannot walk through sparse rows
DIS, ERR = "AccDis (%)", "AccErr (%)"


def efficiency_certifiability(findings: Findings) -> Figure:
    rows = [(volume, 0.0) for volume in VOLUMES] + [("large", 1.0)]
    return _against_speed(findings, rows, "acc_dis", DIS)


def efficiency_effectiveness(findings: Findings) -> Figure:
    return _against_speed(findings, [("large", 1.0)], "acc_err", ERR)


def appendix_grids(findings: Findings) -> dict[str, Figure]:
    """By sigma: volumes x data sets. By method and volume: taus x data sets."""
    found = findings.unlearned
    if found.empty:
        return {}
    sigmas = sorted(s for s in found["sigma"].unique() if s > 0)
    drawn = {}
    for measure, label, name in (
        ("acc_dis", DIS, "certifiability"),
        ("acc_err", ERR, "effectiveness"),
    ):
        for sigma in sigmas:
            rows = [(volume, sigma) for volume in VOLUMES]
            drawn[f"{name}-sigma-{sigma:g}"] = _against_speed(findings, rows, measure, label)
    for volume in VOLUMES:
        for contender in CONTENDERS.values():
            taus = [(contender.name, volume, tau.name) for tau in contender.taus]
            drawn[f"{contender.name}-{volume}"] = _over_sigma(findings, taus)
    return drawn


def effectiveness_certifiability(findings: Findings) -> Figure:
    rows = [(c.name, "large", c.taus[-1].name) for c in CONTENDERS.values()]
    return _over_sigma(findings, rows)


def _against_speed(
    findings: Findings, rows: Sequence[tuple[str, float]], measure: str, label: str
) -> Figure:
    subjects = [s for s in findings.real if s.volumes]
    names = [f"{label}\n{volume}, sigma {sigma:g}" for volume, sigma in rows]
    label_of_speed = SPARSE_SPEED if any(s.sparse for s in subjects) else SPEED
    figure, axes = panels(names, subjects, label_of_speed)
    for j, subject in enumerate(subjects):
        for i, (volume, sigma) in enumerate(rows):
            for method in CONTENDERS:
                points = findings.case(subject, volume, sigma, method)
                _speed_points(axes[i, j], points, method, measure)
            percent_axis(axes[i, j])
        for axis in axes[:, j]:
            speed_axis(axis)
    legend(figure, method_handles(), tau_count() + 1)
    return figure


def _speed_points(axis: Axes, points: pd.DataFrame, method: str, measure: str) -> None:
    contender = CONTENDERS[method]
    points = points.dropna(subset=["speed_up"]) if len(points) else points
    if points.empty:
        return
    axis.plot(points["speed_up"], points[measure], color=contender.colour, alpha=0.55, linewidth=1)
    markers = {tau.name: m for tau, m in zip(contender.taus, MARKERS, strict=False)}
    for one in points.itertuples():
        axis.errorbar(
            one.speed_up,
            getattr(one, measure),
            yerr=getattr(one, f"{measure}_spread") or None,
            color=contender.colour,
            marker=markers[one.tau],
            elinewidth=0.7,
            markeredgewidth=0,
        )


def _over_sigma(findings: Findings, rows: Sequence[tuple[str, str, str]]) -> Figure:
    """AccDis on the left, AccErr on the right, over sigma; a row for a method and a tau."""
    subjects = [s for s in findings.real if s.volumes]
    names = []
    for method, volume, tau in rows:
        contender = CONTENDERS[method]
        names.append(f"{contender.label}\n{contender.tau(tau).label}, {volume}")
    figure, axes = panels(names, subjects, "sigma")
    for j, subject in enumerate(subjects):
        for i, case in enumerate(rows):
            _sigma_panel(axes[i, j], findings, subject, case, j + 1 == len(subjects))
    handles = [
        Line2D([], [], color="#D55E00", marker="o", label=f"{DIS}, left"),
        Line2D([], [], color="#D55E00", linestyle=(0, (3, 2)), label="its floor"),
        Line2D([], [], color="#0072B2", marker="s", label=f"{ERR}, right"),
    ]
    legend(figure, handles)
    return figure


def _sigma_panel(
    axis: Axes, findings: Findings, subject: Subject, case: tuple[str, str, str], last: bool
) -> None:
    """One method at one volume and tau, over sigma."""
    method, volume, tau = case
    found = findings.unlearned
    right = axis.twinx()
    if len(found):
        found = matching(
            found[found["sigma"] > 0],
            dataset=subject.name,
            method=method,
            tau=tau,
            law="targeted-informed",
            fraction=subject.volume(volume),
        ).sort_values("sigma")
        for one, measure, colour, marker in (
            (axis, "acc_dis", "#D55E00", "o"),
            (right, "acc_err", "#0072B2", "s"),
        ):
            one.errorbar(
                found["sigma"],
                found[measure],
                yerr=found[f"{measure}_spread"],
                color=colour,
                marker=marker,
                elinewidth=0.7,
                markersize=3.5,
            )
        axis.plot(
            found["sigma"],
            found["acc_dis_floor"],
            color="#D55E00",
            linewidth=1,
            linestyle=(0, (3, 2)),
        )
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    for one in (axis, right):
        one.set_ylim(0, max(1.0, one.get_ylim()[1]))
    if last:
        right.set_ylabel(ERR)
    sigma_axis(axis)
