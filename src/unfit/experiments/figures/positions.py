"""Where the published streams retrain: theirs and ours, a line of ticks for each."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from unfit.experiments import published
from unfit.experiments.figures.look import SOFT, legend, panels
from unfit.experiments.findings import Findings, Subject

MANNERS = {
    "published": ("#0072B2", "ours, with their c"),
    "rehearsed": ("#009E73", "ours, with our c"),
    "product": ("#D55E00", "product"),
}
LANES = {"theirs": 0.3, "published": 0.1, "rehearsed": -0.1, "product": -0.3}


def streams(findings: Findings) -> Figure:
    found = findings.of("positions")
    subjects = [s for s in findings.real if s.name in set(found["dataset"])] or findings.real[:1]
    laws = list(dict.fromkeys(found["law"]))
    figure, axes = panels(
        [f"{law}\nthreshold" for law in laws] or [""], subjects, "rows deleted when it retrains"
    )
    for j, subject in enumerate(subjects):
        for i, law in enumerate(laws):
            _panel(axes[i, j], findings, subject, law)
    handles = [Line2D([], [], color=SOFT, linewidth=2.2, label="published")]
    handles += [
        Line2D([], [], color=c, linewidth=2.2, label=label) for c, label in MANNERS.values()
    ]
    legend(figure, handles)
    return figure


def _panel(axis: Axes, findings: Findings, subject: Subject, law: str) -> None:
    found = findings.of("positions", dataset=subject.name, law=law, seed=0)
    policies = sorted(set(found["policy"]), key=lambda policy: float(policy.rstrip("%")))
    theirs = {
        f"{t.threshold:g}%": t
        for t in published.streams()
        if t.dataset == subject.name and t.law == law
    }
    for at, policy in enumerate(reversed(policies)):
        if policy in theirs:
            _ticks(axis, at + LANES["theirs"], list(theirs[policy].positions), SOFT)
        for one in found[found["policy"] == policy].itertuples():
            where = [int(row) for row in str(one.positions).split()]
            _ticks(axis, at + LANES[one.manner], where, MANNERS[one.manner][0])
    axis.set_yticks(range(len(policies)), list(reversed(policies)))
    axis.set_ylim(-0.6, max(len(policies) - 0.4, 0.6))
    axis.grid(visible=False, axis="y")
    if len(found):
        axis.set_xlim(0, 1.02 * float(found["deleted"].max()))


def _ticks(axis: Axes, height: float, where: list[int], colour: str) -> None:
    axis.axhline(height, color=colour, linewidth=0.4, alpha=0.6)
    axis.vlines(where, height - 0.08, height + 0.08, color=colour, linewidth=1.8)
