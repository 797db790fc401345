"""The page of an audit."""

from unfit.audit import Audit, shown
from unfit.pages import svg
from unfit.pages.templating import render
from unfit.workspace.audit import Report
from unfit.workspace.results import Status

SHOWN = 30  # decisions on a page
OUTCOMES = {"forgotten": "passed", "not forgotten": "failed", "cannot tell": "open"}  # styles
TOO_FEW = (
    "not kept: fewer deleted rows than preprocessing.min_rows were at hand, and what is said of so "
    "few tells of each"
)


def audit_page(report: Report, status: Status) -> str:
    """One self-contained HTML page."""
    return render(
        "audit.html",
        report=report,
        audit=report.audit,
        outcome=OUTCOMES[report.outcome],
        facts=facts_of(report),
        distances=distances_plot(report),
        accuracies=_accuracies(report),
        disparities=_disparities(report),
        estimates=estimates_plot(status),
        decisions=list(status.decisions)[-SHOWN:],
        earlier=max(0, len(status.decisions) - SHOWN),
    )


def facts_of(report: Report) -> list[tuple[str, str, str]]:
    """name, value, meaning."""
    a = report.audit
    looked = f"{report.n_available:,} of them looked at, from {report.deleted_from}"
    rows = f"{a.n_remaining:,} remain, {a.n_deleted:,} were deleted"
    found = [
        ("Method", f"{report.method}, sigma {report.sigma:g}", "how the model unlearns"),
        ("Rows", rows, looked if report.n_available else "no deleted row was at hand"),
        (
            "Influence left",
            _influence(a),
            "how much of what the deleted rows did to the weights is still there: 0 % is as if "
            "they had never been, 100 % as if nothing had been unlearned",
        ),
        (
            "In single rows",
            "not measured" if a.rows_left is None else f"{a.rows_left:.2g}",
            "the same distance, counted in what one typical row does to the weights",
        ),
        (
            "Weight distance",
            _distance(a),
            f"between the {a.compared} and those of a retraining, relative to their length",
        ),
        (
            "Probabilities",
            _probabilities(a.probabilities_differ, a.control_probabilities_differ),
            "mean difference between the model's and a retrained model's, on held-out rows",
        ),
        (
            "On deleted rows",
            "-"
            if report.too_few
            else _probabilities(
                a.deleted_probabilities_differ, a.deleted_control_probabilities_differ
            ),
            TOO_FEW if report.too_few else "the same on the deleted rows that were at hand",
        ),
        (
            "Predictions differ",
            _percent(a.predictions_differ),
            "of the held-out rows get another class than from a retrained model",
        ),
        (
            "Accuracy",
            f"{shown(a.accuracy_updated)}, retrained {shown(a.accuracy_retrained)}",
            f"on held-out rows; always naming the most frequent class gets {shown(a.majority)}",
        ),
        (
            "Log-loss",
            f"{shown(a.log_loss_updated)}, retrained {shown(a.log_loss_retrained)}",
            "on held-out rows, of the probabilities as they are shown; less is better",
        ),
        (
            "AUC",
            f"{shown(a.auc_updated)}, retrained {shown(a.auc_retrained)}",
            "on held-out rows: how well they are put in order; 0.5 is chance",
        ),
        (
            "AccErr",
            "not measured" if a.acc_err is None else f"{a.acc_err:.4f} %",
            "the paper's figure: change of held-out accuracy against retraining",
        ),
        (
            "AccDis",
            "-" if report.too_few else _disparity(a),
            TOO_FEW if report.too_few else "the paper's figure: the same on deleted rows",
        ),
        ("Residual", f"{a.residual:.3e}", "length of the gradient per row; 0 at the optimum"),
    ]
    if a.retrainings_differ is not None:
        found.insert(
            5,
            (
                "Retrainings differ",
                f"{a.retrainings_differ:.3g}",
                "weight distance of two retrainings from one another, by their own noise: "
                "a distance of this size says nothing",
            ),
        )
    if a.position is not None and a.scatter is not None:
        where = f"{100 * a.position:.3g} %, retrainings scatter by {100 * a.scatter:.3g} %"
        found.insert(
            3,
            (
                "Among retrainings",
                where,
                "0 % is where retrained models lie, 100 % where one that never unlearned does",
            ),
        )
    return found


def _influence(a: Audit) -> str:
    return "not measured" if a.influence_left is None else f"{100 * a.influence_left:.3g} %"


def _distance(a: Audit) -> str:
    control = a.control_distance
    more = "" if control is None else f", and {control:.2e} if nothing had been unlearned"
    return f"{a.weight_distance:.2e}{more}"


def _probabilities(updated: float | None, control: float | None) -> str:
    if updated is None:
        return "not measured"
    more = "" if control is None else f", and {control:.1e} if nothing had been unlearned"
    return f"{updated:.1e}{more}"


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.3f} %"


def _disparity(a: Audit) -> str:
    if a.acc_dis is None:
        return "not measured"
    spread = "" if a.acc_dis_spread is None else f" ± {a.acc_dis_spread:.4f} over {a.draws} draws"
    return f"{a.acc_dis:.4f} %{spread}"


def distances_of(report: Report) -> list[tuple[str, float]]:
    """How far the weights are from a retraining, beside those of a model that never unlearned."""
    a = report.audit
    if a.control_distance is None:
        return []
    bars = [("this model", a.weight_distance), ("never unlearned", a.control_distance)]
    if a.retrainings_differ is not None:
        bars.append(("another retraining", a.retrainings_differ))
    return bars


def distances_plot(report: Report) -> str:
    bars = distances_of(report)
    if not bars:
        return ""
    groups = [("from a retraining", bars)]
    return svg.bar_chart(groups, label="distance of the weights from those of a retraining")


def _accuracies(report: Report) -> str:
    a = report.audit
    groups = [
        (name, [("updated", updated), ("retrained", retrained)])
        for name, updated, retrained in (
            ("test rows", a.accuracy_updated, a.accuracy_retrained),
            ("deleted rows", a.deleted_accuracy_updated, a.deleted_accuracy_retrained),
        )
        if updated is not None and retrained is not None
    ]
    return svg.bar_chart(groups, top=1.0, label="accuracy of the updated and the retrained model")


def _disparities(report: Report) -> str:
    a = report.audit
    draws = [(f"retraining {i + 1}", [("AccDis", v)]) for i, v in enumerate(a.disparities[:12])]
    if not draws:
        return ""
    return svg.bar_chart(draws, unit=" %", threshold=a.threshold, label="AccDis of each retraining")


def estimates_plot(status: Status) -> str:
    points = [(str(d.version), d.estimate, d.action == "retrain") for d in status.decisions]
    if len(points) < 2:
        return ""
    return svg.line_chart(
        points[-200:], threshold=status.threshold, unit=" %", label="estimated disparity by version"
    )
