"""Charts as Vega-Lite specifications; each has the same chart as SVG, for browsers without scripts
and for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unfit.pages import svg
from unfit.pages.audit import distances_of, distances_plot
from unfit.service.dashboard.formatting import moment
from unfit.store.records import Decision, Version
from unfit.workspace.audit import Report
from unfit.workspace.certificates import Certificate

SHOWN = 400  # points of a line
SHOWN_AS_SVG = 60

Spec = dict[str, Any]
VERSION = {
    "field": "version",
    "type": "quantitative",
    "axis": {"title": "version", "format": "d"},
    "scale": {"zero": False, "nice": False},
}
LEGEND = {"orient": "top", "direction": "horizontal"}
BAR = {"type": "bar", "cornerRadiusEnd": 3}


@dataclass(frozen=True)
class Chart:
    """spec: for Vega-Lite. plain: the same as SVG. label: a description for screen readers."""

    spec: Spec
    plain: str
    label: str


def disparity(decisions: Sequence[Decision], threshold: float) -> Chart | None:
    """The estimate that decides, compared with its threshold."""
    rows = [
        {
            "version": d.version,
            "at": moment(d.at),
            "estimate": d.estimate,
            "action": d.action,
            "reason": d.reason,
        }
        for d in decisions[-SHOWN:]
        if d.estimate is not None
    ]
    if len(rows) < 2:
        return None
    y = {"field": "estimate", "type": "quantitative", "title": "estimate, %"}
    tooltip = [_tip("estimate", title="estimate, %", format=".3f"), _tip("action")]
    layers = _line_layers(y, marked="datum.action == 'retrain'", tooltip=tooltip)
    layers.append(_rule(threshold))
    label = "estimated disparity by version, against the threshold"
    points = _points(rows, "estimate", marked=("action", "retrain"))
    plain = svg.line_chart(points, threshold=threshold, unit=" %", label=label)
    return Chart({"data": {"values": rows}, "layer": layers}, plain, label)


def accuracy(versions: Sequence[Version]) -> Chart | None:
    """Test accuracy of each version."""
    rows = [
        {
            "version": v.number,
            "at": moment(v.activated_at),
            "accuracy": v.accuracy,
            "kind": v.kind,
        }
        for v in versions[-SHOWN:]
        if v.accuracy is not None
    ]
    if len(rows) < 2:
        return None
    y = {
        "field": "accuracy",
        "type": "quantitative",
        "title": "test accuracy",
        "scale": {"zero": False},
    }
    tooltip = [_tip("accuracy", format=".4f"), _tip("kind")]
    layers = _line_layers(y, marked="datum.kind == 'retrained'", tooltip=tooltip)
    values = [v.accuracy for v in versions[-SHOWN:] if v.accuracy is not None]
    base = max(0.0, round(min(values) - 0.01, 2))
    top = min(1.0, round(max(values) + 0.01, 2))
    label = "test accuracy by version"
    points = _points(rows, "accuracy", marked=("kind", "retrained"))
    plain = svg.line_chart(points, base=base, top=top, label=label)
    return Chart({"data": {"values": rows}, "layer": layers}, plain, label)


def seconds(versions: Sequence[Version]) -> Chart | None:
    """How long each version took to make."""
    rows = [
        {
            "version": v.number,
            "ms": max(0.01, 1000 * v.seconds),
            "kind": v.kind,
            "rows": v.deleted,
        }
        for v in versions[-SHOWN:]
        if v.kind != "withdrawn"
    ]
    if len(rows) < 2:
        return None
    spec = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 34, "opacity": 0.75},
        "encoding": {
            "x": VERSION,
            "y": {
                "field": "ms",
                "type": "quantitative",
                "title": "milliseconds",
                "scale": {"type": "log"},
                "axis": {"values": [10.0**power for power in range(-2, 7)], "format": "~g"},
            },
            "color": {
                "field": "kind",
                "type": "nominal",
                "title": None,
                "scale": {
                    "domain": ["updated", "retrained", "trained"],
                    "range": ["accent", "second", "soft"],
                },
                "legend": LEGEND,
            },
            "tooltip": [
                _tip("version"),
                _tip("ms", format=".1f"),
                _tip("kind"),
                _tip("rows", title="rows that left"),
            ],
        },
    }
    label = "time to make each version, in milliseconds"
    points = [
        (str(r["version"]), float(str(r["ms"])), r["kind"] != "updated")
        for r in rows[-SHOWN_AS_SVG:]
    ]
    return Chart(spec, svg.line_chart(points, unit=" ms", label=label), label)


def distances(report: Report) -> Chart | None:
    """Of the weights from those of a retraining, beside a model that never unlearned."""
    plain = distances_plot(report)
    if not plain:
        return None
    spec = {
        "data": {"values": [{"model": name, "distance": v} for name, v in distances_of(report)]},
        "height": 110,
        "mark": BAR,
        "encoding": {
            "y": {"field": "model", "type": "nominal", "title": None, "sort": None},
            "x": {"field": "distance", "type": "quantitative", "title": "relative distance"},
            "tooltip": [_tip("model"), _tip("distance", format=".3~e")],
        },
    }
    return Chart(spec, plain, "distance of the weights from those of a retraining")


def accuracies(report: Report) -> Chart:
    """Of the updated and the retrained model, on test rows and on deleted rows."""
    a = report.audit
    measured = [
        ("test rows", "updated", a.accuracy_updated),
        ("test rows", "retrained", a.accuracy_retrained),
        ("deleted rows", "updated", a.deleted_accuracy_updated),
        ("deleted rows", "retrained", a.deleted_accuracy_retrained),
    ]
    rows = [(on, model, value) for on, model, value in measured if value is not None]
    spec = {
        "data": {"values": [{"on": on, "model": m, "accuracy": value} for on, m, value in rows]},
        "height": 150,
        "mark": BAR,
        "encoding": {
            "y": {"field": "on", "type": "nominal", "title": None, "sort": None},
            "yOffset": {"field": "model", "sort": None},
            "x": {
                "field": "accuracy",
                "type": "quantitative",
                "title": "accuracy",
                "scale": {"domain": [0, 1]},
            },
            "color": {
                "field": "model",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": {"domain": ["updated", "retrained"], "range": ["accent", "second"]},
                "legend": LEGEND,
            },
            "tooltip": [_tip("on"), _tip("model"), _tip("accuracy", format=".4f")],
        },
    }
    groups: dict[str, list[tuple[str, float]]] = {}
    for on, model, value in rows:
        groups.setdefault(on, []).append((model, value))
    label = "accuracy of the updated and the retrained model"
    return Chart(spec, svg.bar_chart(list(groups.items()), top=1.0, label=label), label)


def joint_mu(certificates: Sequence[Certificate], budget: float | None) -> Chart | None:
    """mu of all releases together, after each of them, against the budget where there is one."""
    rows = [
        {
            "version": one.version,
            "at": moment(one.at),
            "joint_mu": one.claim.joint_mu,
            "joint_epsilon": one.claim.joint_epsilon,
            "kind": one.kind,
        }
        for one in certificates[-SHOWN:]
        if one.kind in ("trained", "updated", "retrained")
    ]
    if len(rows) < 2:
        return None
    y = {"field": "joint_mu", "type": "quantitative", "title": "joint mu"}
    tooltip = [
        _tip("joint_mu", title="joint mu", format=".4f"),
        _tip("joint_epsilon", title="joint epsilon", format=".3f"),
        _tip("kind"),
    ]
    layers = _line_layers(y, marked="datum.kind == 'retrained'", tooltip=tooltip)
    if budget is not None:
        layers.append(_rule(budget))
    label = "joint mu of all releases, by version" + (", against the budget" if budget else "")
    points = _points(rows, "joint_mu", marked=("kind", "retrained"))
    plain = svg.line_chart(points, threshold=budget, label=label)
    return Chart({"data": {"values": rows}, "layer": layers}, plain, label)


def _rule(at: float) -> Spec:
    """A dashed line across a chart."""
    return {
        "data": {"values": [{"y": at}]},
        "mark": {"type": "rule", "strokeDash": [5, 4], "color": "bad"},
        "encoding": {"y": {"field": "y", "type": "quantitative"}},
    }


def _tip(field: str, **options: str) -> dict[str, str]:
    return {"field": field, **options}


def _line_layers(y: Spec, *, marked: str, tooltip: list[dict[str, str]]) -> list[Spec]:
    """A line over versions, diamonds on those that are marked, and invisible points to hover."""
    line, tips = {"x": VERSION, "y": y}, [_tip("version"), _tip("at", title="when"), *tooltip]
    diamond = {"type": "point", "shape": "diamond", "filled": True, "size": 110, "color": "second"}
    return [
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6},
            "encoding": line,
        },
        {
            "transform": [{"filter": marked}],
            "mark": diamond,
            "encoding": {**line, "tooltip": tips},
        },
        {
            "mark": {"type": "circle", "size": 90, "opacity": 0},
            "encoding": {**line, "tooltip": tips},
        },
    ]


def _points(
    rows: Sequence[dict[str, Any]], value: str, *, marked: tuple[str, str]
) -> list[tuple[str, float | None, bool]]:
    """The last rows as points of an SVG chart."""
    field, mark = marked
    return [(str(r["version"]), r[value], r[field] == mark) for r in rows[-SHOWN_AS_SVG:]]
