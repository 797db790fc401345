"""Charts as Vega-Lite; each has an SVG of the same for who runs no scripts, and for print."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unfit.pages import svg
from unfit.pages.audit import distances_of, distances_plot
from unfit.store.records import Decision, Version
from unfit.workspace.audit import Report

SHOWN = 400  # points of a line
_PLAIN = 60  # points of the SVG


@dataclass(frozen=True)
class Chart:
    """spec: for Vega-Lite. plain: the same as SVG. label: what it shows, for who listens."""

    spec: dict[str, Any]
    plain: str
    label: str


def _moment(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def disparity(decisions: Sequence[Decision], threshold: float) -> Chart | None:
    """The estimate that decides, against its threshold."""
    rows: list[dict[str, Any]] = [
        {"version": d.version, "at": _moment(d.at), "estimate": d.estimate, "action": d.action,
         "reason": d.reason}
        for d in decisions[-SHOWN:] if d.estimate is not None
    ]  # fmt: skip
    if len(rows) < 2:
        return None
    tooltip = [
        {"field": "version"}, {"field": "at", "title": "when"},
        {"field": "estimate", "title": "estimate, %", "format": ".3f"}, {"field": "action"},
    ]  # fmt: skip
    x = {"field": "version", "type": "quantitative", "axis": {"title": "version", "format": "d"},
         "scale": {"zero": False, "nice": False}}  # fmt: skip
    y = {"field": "estimate", "type": "quantitative", "title": "estimate, %"}
    spec = {
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6},
             "encoding": {"x": x, "y": y}},
            {"transform": [{"filter": "datum.action == 'retrain'"}],
             "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 110,
                      "color": "second"},
             "encoding": {"x": x, "y": y, "tooltip": tooltip}},
            {"mark": {"type": "circle", "size": 90, "opacity": 0},
             "encoding": {"x": x, "y": y, "tooltip": tooltip}},
            {"data": {"values": [{"y": threshold}]},
             "mark": {"type": "rule", "strokeDash": [5, 4], "color": "bad"},
             "encoding": {"y": {"field": "y", "type": "quantitative"}}},
        ],
    }  # fmt: skip
    label = "estimated disparity by version, against the threshold"
    points = [(str(d["version"]), d["estimate"], d["action"] == "retrain") for d in rows[-_PLAIN:]]
    return Chart(spec, svg.line_chart(points, threshold=threshold, unit=" %", label=label), label)


def accuracy(versions: Sequence[Version]) -> Chart | None:
    """Test accuracy of each version."""
    rows: list[dict[str, Any]] = [
        {"version": v.number, "at": _moment(v.activated_at), "accuracy": v.accuracy, "kind": v.kind}
        for v in versions[-SHOWN:] if v.accuracy is not None
    ]  # fmt: skip
    if len(rows) < 2:
        return None
    x = {"field": "version", "type": "quantitative", "axis": {"title": "version", "format": "d"},
         "scale": {"zero": False, "nice": False}}  # fmt: skip
    y = {"field": "accuracy", "type": "quantitative", "title": "test accuracy",
         "scale": {"zero": False}}  # fmt: skip
    tooltip = [
        {"field": "version"}, {"field": "at", "title": "when"},
        {"field": "accuracy", "format": ".4f"}, {"field": "kind"},
    ]  # fmt: skip
    spec = {
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.6},
             "encoding": {"x": x, "y": y}},
            {"transform": [{"filter": "datum.kind == 'retrained'"}],
             "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 110,
                      "color": "second"},
             "encoding": {"x": x, "y": y}},
            {"mark": {"type": "circle", "size": 90, "opacity": 0},
             "encoding": {"x": x, "y": y, "tooltip": tooltip}},
        ],
    }  # fmt: skip
    label = "test accuracy by version"
    least = min(r["accuracy"] for r in rows)
    most = max(r["accuracy"] for r in rows)
    points = [(str(r["version"]), r["accuracy"], r["kind"] == "retrained") for r in rows[-_PLAIN:]]
    base = max(0.0, round(least - 0.01, 2))
    top = min(1.0, round(most + 0.01, 2))
    return Chart(spec, svg.line_chart(points, base=base, top=top, label=label), label)


def seconds(versions: Sequence[Version]) -> Chart | None:
    """What each version took to make."""
    rows = [
        {"version": v.number, "ms": max(0.01, 1000 * v.seconds), "kind": v.kind,
         "rows": v.deleted}
        for v in versions[-SHOWN:] if v.kind != "withdrawn"
    ]  # fmt: skip
    if len(rows) < 2:
        return None
    spec = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 34, "opacity": 0.75},
        "encoding": {
            "x": {"field": "version", "type": "quantitative",
                  "axis": {"title": "version", "format": "d"},
                  "scale": {"zero": False, "nice": False}},
            "y": {"field": "ms", "type": "quantitative", "title": "milliseconds",
                  "scale": {"type": "log"},
                  "axis": {"values": [10.0**power for power in range(-2, 7)], "format": "~g"}},
            "color": {"field": "kind", "type": "nominal", "title": None,
                      "scale": {"domain": ["updated", "retrained", "trained"],
                                "range": ["accent", "second", "soft"]},
                      "legend": {"orient": "top", "direction": "horizontal"}},
            "tooltip": [{"field": "version"}, {"field": "ms", "format": ".1f"}, {"field": "kind"},
                        {"field": "rows", "title": "rows that left"}],
        },
    }  # fmt: skip
    label = "time to make each version, in milliseconds"
    points = [(str(r["version"]), float(r["ms"]), r["kind"] != "updated") for r in rows[-_PLAIN:]]
    return Chart(spec, svg.line_chart(points, unit=" ms", label=label), label)


def distances(report: Report) -> Chart | None:
    """Of the weights from those of a retraining, beside a model that never unlearned."""
    plain = distances_plot(report)
    if not plain:
        return None
    spec = {
        "data": {"values": [{"model": name, "distance": v} for name, v in distances_of(report)]},
        "height": 110,
        "mark": {"type": "bar", "cornerRadiusEnd": 3},
        "encoding": {
            "y": {"field": "model", "type": "nominal", "title": None, "sort": None},
            "x": {"field": "distance", "type": "quantitative", "title": "relative distance"},
            "tooltip": [{"field": "model"}, {"field": "distance", "format": ".3~e"}],
        },
    }
    return Chart(spec, plain, "distance of the weights from those of a retraining")


def accuracies(report: Report) -> Chart:
    """Of the updated and the retrained model, on test and on deleted rows."""
    a = report.audit
    measured = [
        ("test rows", "updated", a.accuracy_updated),
        ("test rows", "retrained", a.accuracy_retrained),
        ("deleted rows", "updated", a.deleted_accuracy_updated),
        ("deleted rows", "retrained", a.deleted_accuracy_retrained),
    ]
    rows = [(on, model, value) for on, model, value in measured if value is not None]
    values = [{"on": on, "model": model, "accuracy": value} for on, model, value in rows]
    spec = {
        "data": {"values": values},
        "height": 150,
        "mark": {"type": "bar", "cornerRadiusEnd": 3},
        "encoding": {
            "y": {"field": "on", "type": "nominal", "title": None, "sort": None},
            "yOffset": {"field": "model", "sort": None},
            "x": {"field": "accuracy", "type": "quantitative", "title": "accuracy",
                  "scale": {"domain": [0, 1]}},
            "color": {"field": "model", "type": "nominal", "title": None, "sort": None,
                      "scale": {"domain": ["updated", "retrained"], "range": ["accent", "second"]},
                      "legend": {"orient": "top", "direction": "horizontal"}},
            "tooltip": [{"field": "on"}, {"field": "model"},
                        {"field": "accuracy", "format": ".4f"}],
        },
    }  # fmt: skip
    groups: dict[str, list[tuple[str, float]]] = {}
    for on, model, value in rows:
        groups.setdefault(on, []).append((model, value))
    label = "accuracy of the updated and the retrained model"
    return Chart(spec, svg.bar_chart(list(groups.items()), top=1.0, label=label), label)
