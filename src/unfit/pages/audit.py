"""The page of an audit."""

from unfit.pages import svg
from unfit.pages.templating import templates
from unfit.workspace.auditing import Report
from unfit.workspace.results import Status

SHOWN = 30  # decisions on a page


def audit_page(report: Report, status: Status) -> str:
    """One self-contained HTML page."""
    outcome = {True: "passed", False: "failed", None: "open"}[report.passed]
    return templates().get_template("audit.html").render(
        report=report, audit=report.audit, outcome=outcome, facts=facts_of(report),
        accuracies=_accuracies(report), disparities=_disparities(report),
        estimates=estimates_plot(status), decisions=list(status.decisions)[-SHOWN:],
        earlier=max(0, len(status.decisions) - SHOWN),
    )  # fmt: skip


def facts_of(report: Report) -> list[tuple[str, str, str]]:
    """name, value, meaning."""
    a = report.audit

    def percent(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.4f} %"

    spread = "" if a.acc_dis_spread is None else f" ± {a.acc_dis_spread:.4f} over {a.draws} draws"
    return [
        ("Method", f"{report.method}, sigma {report.sigma:g}", "how the model unlearns"),
        ("Rows", f"{a.n_remaining:,} remain, {a.n_deleted:,} deleted, {report.n_available:,} "
                 "deleted rows looked at", report.deleted_from and f"from {report.deleted_from}"),
        ("AccErr", percent(a.acc_err), "accuracy lost on test rows, against retraining"),
        ("AccDis", percent(a.acc_dis) + spread, "the same on deleted rows"),
        ("Weight distance", f"{a.weight_distance:.3e}", "relative to the retrained weights"),
        ("Predictions differ", f"{100 * a.predictions_differ:.3f} %", "of the test rows"),
        ("Residual", f"{a.residual:.3e}", "length of the gradient per row; 0 at the optimum"),
    ]  # fmt: skip


def _accuracies(report: Report) -> str:
    a = report.audit
    groups = [("test rows", [("updated", a.accuracy_updated), ("retrained", a.accuracy_retrained)])]
    if a.deleted_accuracy_updated is not None and a.deleted_accuracy_retrained is not None:
        of_deleted = [
            ("updated", a.deleted_accuracy_updated), ("retrained", a.deleted_accuracy_retrained)
        ]  # fmt: skip
        groups.append(("deleted rows", of_deleted))
    return svg.pairs(groups, top=1.0, label="accuracy of the updated and the retrained model")


def _disparities(report: Report) -> str:
    a = report.audit
    draws = [(f"retraining {i + 1}", [("AccDis", v)]) for i, v in enumerate(a.disparities[:12])]
    if not draws:
        return ""
    return svg.pairs(draws, unit=" %", threshold=a.threshold, label="AccDis of each retraining")


def estimates_plot(status: Status) -> str:
    points = [(str(d.version), d.estimate, d.action == "retrain") for d in status.decisions]
    if len(points) < 2:
        return ""
    return svg.timeline(
        points[-200:], threshold=status.threshold, unit=" %", label="estimated disparity by version"
    )
