"""How far a model has moved, by measures that see what accuracy does not.

With labels of which one in ten is positive, forgetting most of the positive people leaves accuracy
where it was. The distance to a retraining and the log-loss on held-out rows move at once. What is
measured is rounded: it is kept for good, and a change of many digits is an equation about whoever
left. May know methods, engines and core.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unfit.core.factors import Cholesky
from unfit.core.metrics import Quality, log_loss, quality
from unfit.core.predictions import class_probabilities
from unfit.engines.base import Engine
from unfit.lifecycle.pipeline import Step, TestScores, TrainedModel
from unfit.methods.base import Method, State

_CLOSE = 1e-3  # a bound so small needs no better estimate
_DECIMALS = 4  # of what is kept of held-out rows
_CHANGE_DECIMALS = 5


def distance_left(
    method: Method, state: State, data: Engine, deleted: np.ndarray
) -> tuple[float | None, State]:
    """|w - w*| / |w| by one more Newton step: how far the weights are from those of a retraining.

    Of the weights before noise, on the rows that remain when the deleted leave. None for weights
    that never were near the optimum (SGD's). The state comes back with the sums this has made.
    """
    if method.solver == "sgd":
        return None, state
    if state.distance is not None:  # the method has measured it
        return state.distance, state
    W, mask = state.centre, data.without(deleted)
    ridge = method.ridge(data, mask)
    gradient = data.gradient_sum(W, mask) + ridge * W
    if state.linear_term is not None:
        gradient = gradient + state.linear_term
    length = float(np.linalg.norm(W)) or 1.0
    least = float(np.min(ridge))  # by which the objective is curved; 0 for a free intercept
    bound = float(np.linalg.norm(gradient)) / (least * length) if least > 0 else np.inf
    if bound <= _CLOSE:
        return bound, state
    left: Sequence[np.ndarray] | np.ndarray
    if data.wide(mask):  # no Hessian is to be made of so many columns
        factors = data.factors(W, mask, ridge)
        left = factors[0].solve_each(factors, gradient)
    elif state.stale_inverse is not None:
        left = [stale.solve(g) for stale, g in zip(state.stale_inverse, gradient, strict=True)]
    else:
        if state.statistics is None:
            state = replace(state, statistics=method.statistics(data, W, mask))
        assert state.statistics is not None
        hessians = zip(state.statistics.hessian_sum, gradient, strict=True)
        left = [Cholesky.of(h).solve(g) for h, g in hessians]
    return float(np.linalg.norm(left)) / length, state


def held_out_quality(
    weights: np.ndarray, test: TestScores, chosen: np.ndarray | slice = slice(None)
) -> Quality:
    """Of the probabilities that people are shown, rounded; chosen: those of the test rows that
    count."""
    return _shown(_quality(weights, test, chosen))


def _quality(weights: np.ndarray, test: TestScores, chosen: np.ndarray | slice) -> Quality:
    loss = test.rows.loss
    probabilities = class_probabilities(test.margins(weights)[chosen], loss)
    found = quality(probabilities, test.rows.codes[chosen], probabilistic=loss.probabilistic)
    if found.log_loss is not None and not isinstance(chosen, slice):
        test.note_log_loss(weights, chosen, found.log_loss)
    return found


def _shown(found: Quality) -> Quality:
    """Rounded, as people are shown it and as it is kept."""
    return replace(
        found, log_loss=_rounded(found.log_loss, _DECIMALS), auc=_rounded(found.auc, _DECIMALS)
    )


def _log_loss(weights: np.ndarray, test: TestScores, chosen: np.ndarray) -> float | None:
    """Of chosen test rows; None where the loss estimates no probabilities."""
    if not test.rows.loss.probabilistic:
        return None
    noted = test.noted_log_loss(weights, chosen)
    if noted is not None:
        return noted
    probabilities = class_probabilities(test.margins(weights)[chosen], test.rows.loss)
    return log_loss(probabilities, test.rows.codes[chosen])


def measured(
    made: Step,
    model: TrainedModel,
    deleted: np.ndarray,
    held_out: np.ndarray,
    *,
    since: float,
    distance: float | None = None,
) -> Step:
    """A step with what it did to the model among its facts.

    held_out: positions of the test rows that are still there. since: the change of log-loss by
    earlier steps since training; each is measured on the people held out at the time. distance:
    to a retraining, as a share of the weights' length, where it is known.
    """
    test, state = model.test, made.state
    if distance is None:
        distance, state = distance_left(model.method, state, model.data, deleted)
    was = _log_loss(model.state.centre, test, held_out)
    found = _quality(state.weights, test, held_out)
    now = found.log_loss
    if state.centre is not state.weights:  # noise says nothing of the rows that left
        now = _log_loss(state.centre, test, held_out)
    change = (
        None if was is None or now is None else round(since + now - was, _CHANGE_DECIMALS) + 0.0
    )
    shown = _shown(found)
    facts = replace(
        made.facts,
        distance=None if distance is None else float(f"{distance:.1e}"),
        majority=shown.majority,
        log_loss=shown.log_loss,
        auc=shown.auc,
        log_loss_change=change,
    )
    return replace(made, state=state, facts=facts)


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)
