"""The audit of a model: retrain independently, compare, say what was found.

Weights are compared first, and what they say of people second; accuracy on the deleted rows, the
paper's measure, stands beside. May know methods and engines.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from unfit.core.metrics import Quality, accuracy_disparity, accuracy_error, quality
from unfit.core.objective import Rows
from unfit.core.predictions import class_probabilities, margins, predict
from unfit.engines.base import Engine
from unfit.methods.base import Method, State
from unfit.noise_check import added, root_times
from unfit.retrained import SAMPLE, Retraining, draw, replayed, retrain
from unfit.verdict import (
    Added,
    Behaviour,
    Distances,
    Noise,
    OneRow,
    Outcome,
    Verdict,
    judge_distances,
    judge_noise,
    judge_released,
)

Compared = Literal["weights", "weights before noise", "weights with the same noise term"]
DRAWS = 5  # retrainings, where chance is in them
NOISE_DRAWS = 40  # where they differ by noise alone, and cost next to nothing


@dataclass(frozen=True)
class Audit:
    """What an independent retraining says of the updated model.

    AccErr and AccDis are SAPE, in percent; distances are relative to the length of the retrained
    weights; differences of probabilities are means over rows. None: not measured.
    """

    n_remaining: int
    n_deleted: int
    accuracy_updated: float | None
    accuracy_retrained: float | None
    acc_err: float | None
    deleted_accuracy_updated: float | None
    deleted_accuracy_retrained: float | None
    acc_dis: float | None
    acc_dis_spread: float | None
    weight_distance: float
    predictions_differ: float | None
    residual: float
    threshold: float
    draws: int
    outcome: Outcome
    reason: str
    compared: Compared = "weights"
    control_distance: float | None = None  # of a model that never unlearned
    influence_left: float | None = None  # 0: as retrained, 1: as if nothing had been unlearned
    rows_left: float | None = None  # the distance, in influences of a typical single row
    floor: float | None = None  # what the retraining is off by, in the same unit
    retrainings_differ: float | None = None  # relative distance of two retrainings with noise
    position: float | None = None  # with noise: 0 among retrainings, 1 with the control
    scatter: float | None = None  # of retrainings, in the same unit
    majority: float | None = None
    log_loss_updated: float | None = None
    log_loss_retrained: float | None = None
    auc_updated: float | None = None
    auc_retrained: float | None = None
    probabilities_differ: float | None = None
    control_probabilities_differ: float | None = None
    deleted_majority: float | None = None
    deleted_log_loss_updated: float | None = None
    deleted_log_loss_retrained: float | None = None
    deleted_auc_updated: float | None = None
    deleted_auc_retrained: float | None = None
    deleted_probabilities_differ: float | None = None
    deleted_control_probabilities_differ: float | None = None
    disparities: tuple[float, ...] = ()  # AccDis of each draw
    measured_on: Literal["test", "training"] = "test"  # accuracy, log-loss, AUC; who has no others

    @property
    def passed(self) -> bool | None:
        """None where the audit cannot tell."""
        return {"forgotten": True, "not forgotten": False, "cannot tell": None}[self.outcome]

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.reason}"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Audit":
        """From a report's fields; one from before there were such verdicts cannot tell."""
        known = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        known["disparities"] = tuple(known.get("disparities", ()))
        if "outcome" not in known:
            known["outcome"] = "cannot tell"
            known["reason"] = "this audit compared accuracies alone, which cannot show it"
        return cls(**known)

    def __str__(self) -> str:
        return "\n".join(f"{name:<19}{value}" for name, value in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """What was found: a name and what it came to."""
        spread = "" if self.acc_dis_spread is None else f" +- {self.acc_dis_spread:.4f}"
        were = "was" if self.n_deleted == 1 else "were"
        rows = f"{self.n_remaining:,} training rows remain, {self.n_deleted:,} {were} deleted"
        distance = f"{self.weight_distance:.3e} relative, between {self.compared} and retrained"
        if self.control_distance is not None:
            distance += f" ({self.control_distance:.3e} if nothing is unlearned)"
        left = "not measured (no deleted rows at hand)"
        if self.influence_left is not None:
            left = f"{100 * self.influence_left:.3g} % of the deleted rows'"
        if self.rows_left is not None:
            left += f"; {self.rows_left:.2g} of a typical single row's"
        on = self.measured_on
        those = "test rows" if on == "test" else "the remaining training rows"
        bare = self.compared == "weights before noise"
        apart = _apart(self.probabilities_differ, self.control_probabilities_differ, those)
        accuracy = _pair(self.accuracy_updated, self.accuracy_retrained, bare)
        of_deleted = _pair(self.deleted_accuracy_updated, self.deleted_accuracy_retrained)
        found = [
            ("rows", rows),
            ("weight distance", distance),
            ("influence left", left),
            ("probabilities", apart),
            ("predictions differ", _share(self.predictions_differ, f"of {those}")),
            (f"{on} accuracy", f"{accuracy}, majority rate {shown(self.majority)}"),
            (f"{on} log-loss", _pair(self.log_loss_updated, self.log_loss_retrained, bare)),
            (f"{on} AUC", _pair(self.auc_updated, self.auc_retrained, bare)),
            ("on deleted rows", f"{of_deleted}, accuracy"),
            ("AccErr", _percent(self.acc_err)),
            ("AccDis", _percent(self.acc_dis) + spread),
            ("residual", f"{self.residual:.3e} |gradient sum| per row"),
            ("verdict", self.verdict),
        ]
        if self.retrainings_differ is not None:
            more = f"{self.retrainings_differ:.3g} relative, from one another, by their noise"
            found.insert(3, ("retrainings differ", more))
        return found


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _pair(updated: float | None, retrained: float | None, bare: bool = False) -> str:
    """bare: what was released has noise, and what was retrained has none."""
    return f"{shown(updated)} (retrained{' without noise' if bare else ''} {shown(retrained)})"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f} %"


def _share(value: float | None, of: str) -> str:
    return "-" if value is None else f"{100 * value:.3f} % {of}"


def _apart(updated: float | None, control: float | None, rows: str) -> str:
    if updated is None:
        return "-"
    more = "" if control is None else f" ({control:.2e} if nothing is unlearned)"
    return f"differ by {updated:.2e} on average on {rows}{more}"


@dataclass(frozen=True)
class Question:
    """What is audited: a state of a method on its remaining rows.

    test: rows to measure quality on. deleted: those of the n_deleted rows that are at hand.
    """

    method: Method
    state: State
    data: Engine
    test: Rows
    deleted: Rows
    n_deleted: int

    @property
    def chance(self) -> bool:
        """Whether two retrainings differ."""
        return self.method.settings.sigma > 0 or self.method.solver == "sgd"


def compare(
    question: Question, *, threshold: float, draws: int | None, rng: np.random.Generator
) -> Audit:
    """Audit a state against an independent retraining of the rows that remain.

    draws: retrainings as they would be released; by default 5 with noise, else 1.
    """
    q = question
    if draws is None:
        draws = DRAWS if q.method.settings.sigma > 0 else 1
    known = _with_known_labels(q.deleted)
    retrained = retrain(q.method, q.data, q.state.linear_term)
    reference, updated, compared = _pair_compared(q, retrained)
    control = retrained.control(q.data, known) if len(known) else None
    distances = _distances(q, retrained, updated - reference, control, rng)
    released = _released(q, retrained, draws, rng)
    models = _Models(q.state.weights, reference, control)
    on_test, on_deleted = _on(q.test, models), _on(q.deleted, models)
    disparities = _disparities(q.deleted, on_deleted, released)
    acc_dis = float(np.mean(disparities)) if disparities else None
    noise = _noise(q, retrained, reference, control, rng)
    noisy = q.method.settings.sigma > 0  # which changes what is said of people by itself
    seen = Behaviour(0.0, None, 0) if noisy else _behaviour(on_test, on_deleted, acc_dis)
    beyond = added(q.method, q.state, q.data, retrained)
    exact = judge_distances(distances, seen, threshold, q.n_deleted)
    verdict = _judge(q, exact, noise, beyond)
    of_deleted = (
        [on_deleted.retrained.accuracy] if on_deleted.retrained.accuracy is not None else []
    )
    if disparities and q.method.settings.sigma > 0:
        of_deleted = [
            quality(_probabilities(q.deleted, W), q.deleted.codes).accuracy or 0.0 for W in released
        ]
    unit = float(np.linalg.norm(reference)) or 1.0
    return Audit(
        n_remaining=q.data.n_remaining,
        n_deleted=q.n_deleted,
        accuracy_updated=on_test.updated.accuracy,
        accuracy_retrained=on_test.retrained.accuracy,
        acc_err=_sape_of(on_test),
        deleted_accuracy_updated=on_deleted.updated.accuracy,
        deleted_accuracy_retrained=float(np.mean(of_deleted)) if of_deleted else None,
        acc_dis=acc_dis,
        acc_dis_spread=float(np.std(disparities)) if disparities and draws > 1 else None,
        weight_distance=float(np.linalg.norm(updated - reference)) / unit,
        predictions_differ=on_test.differ,
        residual=_residual(q),
        threshold=threshold,
        draws=draws,
        outcome=verdict.outcome,
        reason=verdict.reason,
        compared=compared,
        control_distance=(
            None if control is None else float(np.linalg.norm(control - retrained.weights)) / unit
        ),
        influence_left=distances.influence_left,
        rows_left=distances.rows_left,
        floor=distances.floor,
        retrainings_differ=_retrainings_differ(released, unit) if q.chance else None,
        position=None if noise is None else noise.position,
        scatter=None if noise is None else noise.spread,
        majority=on_test.updated.majority,
        log_loss_updated=on_test.updated.log_loss,
        log_loss_retrained=on_test.retrained.log_loss,
        auc_updated=on_test.updated.auc,
        auc_retrained=on_test.retrained.auc,
        probabilities_differ=on_test.probabilities,
        control_probabilities_differ=on_test.control_probabilities,
        deleted_majority=on_deleted.updated.majority,
        deleted_log_loss_updated=on_deleted.updated.log_loss,
        deleted_log_loss_retrained=on_deleted.retrained.log_loss,
        deleted_auc_updated=on_deleted.updated.auc,
        deleted_auc_retrained=on_deleted.retrained.auc,
        deleted_probabilities_differ=on_deleted.probabilities,
        deleted_control_probabilities_differ=on_deleted.control_probabilities,
        disparities=tuple(disparities),
    )


def _with_known_labels(rows: Rows) -> Rows:
    known = np.flatnonzero(rows.codes >= 0)
    return rows if len(known) == len(rows) else rows.take(known)


def _pair_compared(q: Question, retrained: Retraining) -> tuple[np.ndarray, np.ndarray, Compared]:
    """The weights to compare with, those in question, and which they are."""
    replay = replayed(q.state, q.data)
    reference = retrained.weights if replay is None else replay
    if q.state.kept_centre is not None:
        return reference, q.state.kept_centre, "weights before noise"
    if q.state.linear_term is not None:
        return reference, q.state.weights, "weights with the same noise term"
    return reference, q.state.weights, "weights"


def _distances(
    q: Question,
    retrained: Retraining,
    apart: np.ndarray,
    control: np.ndarray | None,
    rng: np.random.Generator,
) -> Distances:
    remaining = np.flatnonzero(q.data.remaining)
    if len(remaining) > SAMPLE:
        remaining = np.sort(rng.choice(remaining, SAMPLE, replace=False))
    each = retrained.influences(q.data.take(remaining))
    one_row = None
    if each is not None:
        low, typical, high = (float(v) for v in np.quantile(each, [0.05, 0.5, 0.95]))
        one_row = OneRow(low=low, typical=typical, mean=float(each.mean()), high=high)
    length = along = None
    if control is not None:
        shift = control - retrained.weights
        length = retrained.length(shift)
        both = retrained.length(apart + shift) ** 2 - retrained.length(apart) ** 2 - length**2
        along = 0.5 * both / length**2 if length else None
    return Distances(
        updated=retrained.length(apart),
        floor=retrained.floor,
        control=length,
        along=along,
        whole=len(q.deleted) >= q.n_deleted,
        one_row=one_row,
    )


def _judge(q: Question, exact: Verdict, noise: Noise | None, beyond: Added | None) -> Verdict:
    if q.n_deleted == 0 and len(q.deleted) == 0:
        return Verdict(
            "forgotten", "no training row was deleted, so the weights have nothing to forget"
        )
    if q.state.kept_centre is not None:
        return judge_released(exact, beyond, noise)
    if noise is None:
        if exact.outcome == "not forgotten" and _blurred(q):
            return Verdict(
                "cannot tell",
                "chance in training is part of the weights, and without the deleted rows it cannot "
                "be told from their influence; give them (--deleted FILE)",
            )
        return exact
    if exact.outcome == "forgotten":  # at the optimum of the remaining rows, noise or not
        return exact
    return judge_noise(noise)


def _blurred(q: Question) -> bool:
    """Whether the weights in question carry chance that the retrained ones do not."""
    noisy = q.method.settings.sigma > 0 and q.state.linear_term is None
    return noisy or (q.method.solver == "sgd" and q.state.run is None)


def _noise(
    q: Question,
    retrained: Retraining,
    reference: np.ndarray,
    control: np.ndarray | None,
    rng: np.random.Generator,
) -> Noise | None:
    """Project the weights and retrainings on the direction in which the deleted rows pull."""
    if control is None or not _blurred(q):
        return None
    if q.state.run is not None:  # the same run again, with noise of its own
        drawn = [q.method.released(reference, q.data, rng) for _ in range(NOISE_DRAWS)]
    else:
        count = NOISE_DRAWS if q.method.solver == "newton" else DRAWS
        drawn = draw(q.method, q.data, retrained.weights, count, rng)
    models = np.array(drawn)
    shift = control - retrained.weights
    direction = _whitened(q.method, retrained, shift)
    unit = float(np.sum(direction * shift))
    if unit <= 0:
        return None
    places = np.einsum("nkd,kd->n", models - reference, direction) / unit
    trained = q.method.solver == "sgd" and q.state.run is None
    middle = float(places.mean()) if trained else 0.0
    own = float(np.sum(direction * (q.state.weights - reference))) / unit
    spread = float(np.std(places, ddof=1))
    return Noise(sigma=q.method.settings.sigma, position=own - middle, spread=spread)


def _whitened(method: Method, retrained: Retraining, shift: np.ndarray) -> np.ndarray:
    """The direction along which noise hides a shift least.

    FISHER's noise has the covariance sigma^2 H^(-1/2), so that H^(1/2) shift tells best; noise
    that is the same in all directions leaves the shift as it is.
    """
    if method.noise != "steps" or retrained.factors is None:
        return shift
    pairs = zip(retrained.factors, shift, strict=True)
    return np.array([root_times(factor, one) for factor, one in pairs])


def _released(
    q: Question, retrained: Retraining, draws: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """What the paper's AccDis compares with: retrainings with the same sigma."""
    if not q.chance:
        return [retrained.weights] * draws
    if q.method.settings.sigma == 0 and draws == 1:
        return [q.method.optimum(q.data, rng)]
    return draw(q.method, q.data, retrained.weights, draws, rng)


def _retrainings_differ(released: list[np.ndarray], unit: float) -> float | None:
    if len(released) < 2:
        return None
    pairs = itertools.pairwise(released)
    return float(np.mean([np.linalg.norm(a - b) for a, b in pairs])) / unit


@dataclass(frozen=True)
class _Models:
    updated: np.ndarray
    retrained: np.ndarray
    control: np.ndarray | None


@dataclass(frozen=True)
class _Seen:
    """What the models say of some rows."""

    updated: Quality
    retrained: Quality
    differ: float | None = None
    probabilities: float | None = None
    control_probabilities: float | None = None


def _on(rows: Rows, models: _Models) -> _Seen:
    if len(rows) == 0:
        none = quality(np.zeros((0, 2)), rows.codes)
        return _Seen(none, none)
    updated = _probabilities(rows, models.updated)
    retrained = _probabilities(rows, models.retrained)
    control = None if models.control is None else _probabilities(rows, models.control)
    codes = predict(rows.X, models.updated), predict(rows.X, models.retrained)
    return _Seen(
        updated=quality(updated, rows.codes, probabilistic=rows.loss.probabilistic),
        retrained=quality(retrained, rows.codes, probabilistic=rows.loss.probabilistic),
        differ=float(np.mean(codes[0] != codes[1])),
        probabilities=_mean_difference(updated, retrained),
        control_probabilities=None if control is None else _mean_difference(control, retrained),
    )


def _mean_difference(a: np.ndarray, b: np.ndarray) -> float:
    """Mean over rows of half the sum over classes of |p - p'|: for two classes, |p - p'|."""
    return float(np.mean(np.abs(a - b).sum(axis=1)) / 2)


def _sape_of(on: _Seen) -> float | None:
    if on.retrained.accuracy is None or on.updated.accuracy is None:
        return None
    return accuracy_error(on.retrained.accuracy, on.updated.accuracy)


def _disparities(deleted: Rows, on: _Seen, released: list[np.ndarray]) -> list[float]:
    own = on.updated.accuracy
    if own is None:
        return []
    each = [float(np.mean(predict(deleted.X, W) == deleted.codes)) for W in released]
    return [accuracy_disparity(one, own) for one in each]


def _behaviour(on_test: _Seen, on_deleted: _Seen, acc_dis: float | None) -> Behaviour:
    apart = 0
    if on_deleted.updated.accuracy is not None and on_deleted.retrained.accuracy is not None:
        difference = abs(on_deleted.updated.accuracy - on_deleted.retrained.accuracy)
        apart = round(difference * on_deleted.updated.rows)
    return Behaviour(
        probabilities=100 * (on_test.probabilities or 0.0), acc_dis=acc_dis, rows_apart=apart
    )


def _residual(q: Question) -> float:
    W = q.state.weights
    gradient = q.data.gradient_sum(W) + q.method.settings.l2 * q.state.n * W
    if q.state.linear_term is not None:
        gradient = gradient + q.state.linear_term
    return float(np.linalg.norm(gradient) / q.state.n)


def _probabilities(rows: Rows, W: np.ndarray) -> np.ndarray:
    return class_probabilities(margins(rows.X, W), rows.loss)
