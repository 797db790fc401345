"""Comparing a model with an independent retraining.

Weights are compared first, and what they say of people second; accuracy on the deleted rows, the
paper's measure, stands beside.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from unfit.audit.noise_check import added, root_times
from unfit.audit.result import Audit, Compared
from unfit.audit.retrained import SAMPLE, Retraining, draw, replayed, retrain
from unfit.audit.verdict import (
    Added,
    Behaviour,
    Distances,
    Noise,
    OneRow,
    Verdict,
    judge_distances,
    judge_noise,
    judge_released,
)
from unfit.core.metrics import Quality, accuracy_disparity, accuracy_error, quality
from unfit.core.objective import Rows
from unfit.core.predictions import class_probabilities, margins, predict
from unfit.engines.base import Engine
from unfit.methods.base import Method, State

DRAWS = 5  # retrainings, where chance is in them
NOISE_DRAWS = 40  # where they differ by noise alone, and cost next to nothing


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
    known = with_known_labels(q.deleted)
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


def with_known_labels(rows: Rows) -> Rows:
    """Those of the rows whose label is a class of the model."""
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
    ranks = np.arange(min(q.data.n_remaining, SAMPLE))
    if q.data.n_remaining > SAMPLE:
        ranks = np.sort(rng.choice(q.data.n_remaining, SAMPLE, replace=False))
    each = retrained.influences(q.data.take(q.data.nth(ranks)))
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
    gradient = q.data.gradient_sum(W) + q.method.ridge(q.data) * W
    if q.state.linear_term is not None:
        gradient = gradient + q.state.linear_term
    return float(np.linalg.norm(gradient) / q.data.total_weight())


def _probabilities(rows: Rows, W: np.ndarray) -> np.ndarray:
    return class_probabilities(margins(rows.X, W), rows.loss)
