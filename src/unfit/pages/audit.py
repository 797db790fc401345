"""The page of an audit."""

from typing import NamedTuple

from unfit.audit import Attack, Audit, shown
from unfit.certify.attack_result import AttackResult
from unfit.pages import curves, svg
from unfit.pages.templating import render
from unfit.workspace.audit import Report
from unfit.workspace.results import Status

SHOWN = 30  # decisions on a page
OUTCOMES = {"forgotten": "passed", "not forgotten": "failed", "cannot tell": "open"}  # styles
ATTACKS = {"refuted": "failed", "not refuted": "passed", "cannot tell": "open", "no claim": "open"}
WHAT = {
    "release test": "Releases of this model and of one that was retrained without the deleted "
    "rows, scored along the line between the two. One half of them chose a threshold, the other "
    "half was counted.",
    "shadow models": "Models of random halves of the remaining rows. Rows that move the model most "
    "were unlearned from the halves that have them, and compared with retraining the same halves "
    "without them. The attacker sees what a release says of such a row; the odd halves taught the "
    "attacker, the even ones were counted.",
}
UNITS = {
    "release test": "standard deviations of retrained releases",
    "shadow models": "log-likelihood ratio, all targets",
}
TOO_FEW = (
    "not recorded: fewer deleted rows than preprocessing.min_rows were available, and figures of "
    "so few rows would reveal each of them"
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
        attack=report.audit.attack,
        attack_tests=attack_tests(report.audit.attack),
        attack_outcome=ATTACKS[report.audit.attack.outcome] if report.audit.attack else "",
    )


class AttackTest(NamedTuple):
    """One attack: its title, what it does, its table, the plots of its scores and its ROC."""

    title: str
    what: str
    lines: list[tuple[str, str]]
    scores: str
    roc: str


def attack_tests(attack: Attack | None) -> list[AttackTest]:
    return [] if attack is None else [_attack_test(name, test) for name, test in attack.tests]


def _attack_test(name: str, test: AttackResult) -> AttackTest:
    scores = roc = ""
    if test.curves is not None:
        c = test.curves
        series = [("unlearned", c.ours), ("retrained", c.theirs)]
        scores = curves.histogram(
            c.edges, series, unit=UNITS[name], label=f"scores of unlearned and retrained: {name}"
        )
        roc = curves.roc(c.roc, label=f"ROC of the {name}")
    return AttackTest(name.capitalize(), WHAT[name], test.lines(), scores, roc)


class Fact(NamedTuple):
    name: str
    value: str
    meaning: str


def facts_of(report: Report) -> list[Fact]:
    return [*_scope(report), *_weights(report.audit), *_predictions(report), *_scores(report)]


def _scope(report: Report) -> list[Fact]:
    a = report.audit
    compared = f"{report.n_available:,} deleted rows were compared, from {report.deleted_from}"
    return [
        Fact("Method", f"{report.method}, sigma {report.sigma:g}", "how the model unlearns"),
        Fact(
            "Rows",
            f"{a.n_remaining:,} remain, {a.n_deleted:,} were deleted",
            compared if report.n_available else "no deleted rows were available",
        ),
    ]


def _weights(a: Audit) -> list[Fact]:
    facts = [
        Fact(
            "Influence left",
            "not measured" if a.influence_left is None else f"{100 * a.influence_left:.3g} %",
            "how much of the deleted rows' effect on the weights remains: 0 % as if they had never "
            "been there, 100 % as if nothing had been unlearned",
        )
    ]
    if a.position is not None and a.scatter is not None:
        facts.append(
            Fact(
                "Among retrainings",
                f"{100 * a.position:.3g} %, retrainings scatter by {100 * a.scatter:.3g} %",
                "0 % is where retrained models lie, 100 % where a model that never unlearned lies",
            )
        )
    facts += [
        Fact(
            "In single rows",
            "not measured" if a.rows_left is None else f"{a.rows_left:.2g}",
            "the same distance, in units of the effect of one typical row on the weights",
        ),
        Fact(
            "Weight distance",
            _beside_control(f"{a.weight_distance:.2e}", a.control_distance, ".2e"),
            f"between the {a.compared} and those of a retraining, relative to their length",
        ),
    ]
    if a.retrainings_differ is not None:
        facts.append(
            Fact(
                "Retrainings differ",
                f"{a.retrainings_differ:.3g}",
                "weight distance between two retrainings, due to their own noise: a distance of "
                "this size means nothing",
            )
        )
    return facts


def _predictions(report: Report) -> list[Fact]:
    a = report.audit
    on_deleted = Fact(
        "On deleted rows",
        _difference(a.deleted_probabilities_differ, a.deleted_control_probabilities_differ),
        "the same on the deleted rows that were available",
    )
    return [
        Fact(
            "Probabilities",
            _difference(a.probabilities_differ, a.control_probabilities_differ),
            "mean difference between this model's and a retrained model's, on held-out rows",
        ),
        Fact("On deleted rows", "-", TOO_FEW) if report.too_few else on_deleted,
        Fact(
            "Predictions differ",
            "not measured"
            if a.predictions_differ is None
            else f"{100 * a.predictions_differ:.3f} %",
            "of the held-out rows are given another class than by a retrained model",
        ),
    ]


def _scores(report: Report) -> list[Fact]:
    a = report.audit
    return [
        Fact(
            "Accuracy",
            f"{shown(a.accuracy_updated)}, retrained {shown(a.accuracy_retrained)}",
            "on held-out rows; always predicting the most frequent class achieves "
            f"{shown(a.majority)}",
        ),
        Fact(
            "Log-loss",
            f"{shown(a.log_loss_updated)}, retrained {shown(a.log_loss_retrained)}",
            "on held-out rows, of the probabilities that are shown; lower is better",
        ),
        Fact(
            "AUC",
            f"{shown(a.auc_updated)}, retrained {shown(a.auc_retrained)}",
            "on held-out rows: how well the model ranks them; 0.5 is chance",
        ),
        Fact(
            "AccErr",
            "not measured" if a.acc_err is None else f"{a.acc_err:.4f} %",
            "the paper's measure: change of held-out accuracy compared with a retraining",
        ),
        Fact("AccDis", "-", TOO_FEW)
        if report.too_few
        else Fact("AccDis", _disparity(a), "the paper's measure: the same on deleted rows"),
        Fact("Residual", f"{a.residual:.3e}", "length of the gradient per row; 0 at the optimum"),
    ]


def _difference(updated: float | None, control: float | None) -> str:
    if updated is None:
        return "not measured"
    return _beside_control(f"{updated:.1e}", control, ".1e")


def _beside_control(value: str, control: float | None, form: str) -> str:
    more = "" if control is None else f", and {control:{form}} if nothing had been unlearned"
    return f"{value}{more}"


def _disparity(a: Audit) -> str:
    if a.acc_dis is None:
        return "not measured"
    spread = "" if a.acc_dis_spread is None else f" ± {a.acc_dis_spread:.4f} over {a.draws} draws"
    return f"{a.acc_dis:.4f} %{spread}"


def distances_of(report: Report) -> list[tuple[str, float]]:
    """How far the weights are from a retraining, and how far if nothing had been unlearned."""
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
