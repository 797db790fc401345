"""How well an attacker tells models that unlearned a row from those that never had it. Pure.

    score = log N(z; unlearned) - log N(z; retrained)

z: what a release says of the target. The Gaussians are fitted on the odd splits, which also choose
the threshold; the even ones are counted (certify.rates), for every target by itself, with as much
less room for mistakes as there are targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unfit.certify.attack_result import Side
from unfit.certify.rates import Curves, Scores, Told, curves_of, most_epsilon, told_apart


@dataclass(frozen=True, kw_only=True)
class Margins:
    """z of one target, (splits, releases, k), and which splits are odd. Of those with the target:
    unlearned, retrained and never unlearned; of those without it: absent."""

    unlearned: np.ndarray
    retrained: np.ndarray
    never: np.ndarray
    odd: np.ndarray
    absent: np.ndarray
    odd_absent: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Seen:
    """found, control and same: of the target that shows most; mean: over targets."""

    found: Told
    mean: Told
    control: Told
    same: Told
    most: float
    side: Side | None
    curves: Curves


def judged(measured: Sequence[Margins], delta: float, mistakes: float) -> Seen:
    """mistakes: how often each rate of each target may be outside its bound."""
    found, never, same, drawn = [], [], [], []
    for m in measured:
        told, counted = _attacked(m.unlearned, m.retrained, m.odd, m.odd, delta, mistakes)
        found.append(told)
        drawn.append(counted)
        never.append(_attacked(m.never, m.retrained, m.odd, m.odd, delta, mistakes)[0])
        same.append(_attacked(m.absent, m.retrained, m.odd_absent, m.odd, delta, mistakes)[0])
    worst = int(np.argmax([told.mu for told in found]))
    return Seen(
        found=_most(found),
        mean=_mean(found),
        control=_most(never),
        same=_most(same),
        most=most_epsilon(len(drawn[0].ours), delta, mistakes),
        side=_side(measured[worst]),
        curves=curves_of(
            Scores(
                np.concatenate([one.ours for one in drawn]),
                np.concatenate([one.theirs for one in drawn]),
            )
        ),
    )


def likelihood_ratio(z: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """log N(z; ours) - log N(z; theirs) for z (n, k); the Gaussians are fitted to (m, k) each."""
    return np.asarray(_log_density(z, ours) - _log_density(z, theirs))


def _log_density(z: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    middle, variance = fitted.mean(axis=0), fitted.var(axis=0)
    variance = np.maximum(variance, np.finfo(np.float64).tiny)
    each = (z - middle) ** 2 / variance + np.log(variance)
    return np.asarray(-0.5 * each.sum(axis=1))


def _attacked(
    ours: np.ndarray,
    theirs: np.ndarray,
    odd_ours: np.ndarray,
    odd_theirs: np.ndarray,
    delta: float,
    mistakes: float,
) -> tuple[Told, Scores]:
    """How well two kinds are told apart, and the scores that were counted."""
    k = ours.shape[2]
    fit = ours[odd_ours].reshape(-1, k), theirs[odd_theirs].reshape(-1, k)
    test = ours[~odd_ours].reshape(-1, k), theirs[~odd_theirs].reshape(-1, k)
    chosen_by = Scores(*(likelihood_ratio(z, *fit) for z in fit))
    counted = Scores(*(likelihood_ratio(z, *fit) for z in test))
    return told_apart(chosen_by, counted, delta, mistakes), counted


def _most(told: Sequence[Told]) -> Told:
    return Told(*(max(values) for values in _fields(told)))


def _mean(told: Sequence[Told]) -> Told:
    return Told(*(float(np.mean(values)) for values in _fields(told)))


def _fields(told: Sequence[Told]) -> list[tuple[float, ...]]:
    return list(zip(*((t.epsilon, t.mu, t.auc, t.tpr) for t in told), strict=True))


def _side(m: Margins) -> Side | None:
    """On which side of retrained models the unlearned ones lie, on average."""
    unlearned, retrained, never = (
        z.reshape(-1, z.shape[2]).mean(axis=0) for z in (m.unlearned, m.retrained, m.never)
    )
    along = float((unlearned - retrained) @ (never - retrained))
    if along == 0:
        return None
    return "too little" if along > 0 else "too much"
