"""Figures that the paper printed, beside ours."""

from typing import Any

from unfit.experiments import published
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.findings import Findings, Subject, matching
from unfit.experiments.planned_table import Value, planned_table, table_of_items
from unfit.experiments.table import Cell, Table


def published_speed_up(subject: Subject, method: str, tau: str) -> float | None:
    theirs = published.accuracy()
    found = matching(theirs, dataset=subject.name, method=method, tau=tau, sigma=1.0)
    if found.empty:
        return None
    last = found.sort_values("fraction").iloc[-1]
    return float(last["retrain_seconds"] / last["unlearn_seconds"])


BESIDE_EACH_OTHER: list[tuple[str, str, Value]] = [
    ("test", ".4f", "test_ours"),
    ("published", ".4f", "test_published"),
    ("difference", "+.4f", "test_difference"),
    ("deleted", ".4f", "deleted_ours"),
    ("published ", ".4f", "deleted_published"),
    ("difference ", "+.4f", "deleted_difference"),
]


def published_accuracy(findings: Findings) -> Table:
    titles = {s.name: s.title for s in findings.subjects}
    columns: list[tuple[str, str, Value]] = [
        ("data set", "", lambda r: titles[r.dataset]),
        ("method", "", lambda r: CONTENDERS[r.method].label),
        ("tau", "", lambda r: f"m' = {r.tau}"),
        ("fraction", ".3g", "fraction"),
        ("sigma", "g", "sigma"),
        ("model", "", "model"),
        *BESIDE_EACH_OTHER,
    ]
    points = [r for r in findings.beside_accuracy.itertuples() if r.dataset in titles]
    return table_of_items("published-accuracy", points, columns)


def published_curves(findings: Findings) -> Table:
    titles = {s.name: s.title for s in findings.subjects}
    columns: list[tuple[str, str, Value]] = [
        ("data set", "", lambda r: titles[r.dataset]),
        ("law", "", "law"),
        ("fraction", ".3g", "fraction"),
        *BESIDE_EACH_OTHER,
    ]
    points = [r for r in findings.beside_curves.itertuples() if r.dataset in titles]
    note = "Where a law has run out of rows, ours is the deletion of all there are."
    return table_of_items("published-curves", points, columns, note)


def published_streams(findings: Findings) -> Table:
    """Retrainings of each stream: the published ones, ours in their manner, and in unfit's."""
    rows: list[tuple[Cell, ...]] = []
    theirs = {(t.dataset, t.law, f"{t.threshold:g}%"): t for t in published.streams()}
    found = findings.of("positions")
    for s in findings.real:
        here = found[found["dataset"] == s.name]
        for (law, policy), alike in here.groupby(["law", "policy"], sort=False):
            ours = {one.manner: one for one in alike[alike["seed"] == 0].itertuples()}
            stream = theirs.get((s.name, str(law), str(policy)))
            one = ours.get("rehearsed") or next(iter(ours.values()))
            manners = [ours.get(manner) for manner in ("published", "rehearsed", "product")]
            rows.append(
                (
                    s.title,
                    str(law),
                    str(policy),
                    len(stream.positions) if stream else None,
                    *(_count(way) for way in manners),
                    stream.slope if stream else None,
                    float(one.slope),
                    " ".join(map(str, stream.positions)) or "-" if stream else None,
                    *(_where(way) for way in manners),
                )
            )
    columns = {
        "data set": "",
        "law": "",
        "threshold": "",
        "published": "d",
        "ours, their c": "d",
        "ours, our c": "d",
        "product": "d",
        "their c": ".3f",
        "our c": ".3f",
        "published at": "",
        "ours at, their c": "",
        "ours at, our c": "",
        "product at": "",
    }
    note = (
        "How often a stream of FISHER's updates retrains, and after how many deleted rows. Ours is "
        "in the published manner, with the published c and with one from our own rehearsal; in the "
        "product unlearning goes on from the retrained model, as in a workspace."
    )
    return planned_table("published-streams", columns, rows, note)


def _count(one: Any) -> int | None:
    return None if one is None else int(one.retrainings)


def _where(one: Any) -> str | None:
    return None if one is None else str(one.positions) or "-"
