"""An attack on the releases of one model: can those of two centres be told apart?

Many releases of the updated centre and as many of a retrained one, drawn by the function that
publishes, are scored along the line between the two centres, which is how they can be told apart
best. One half of them chooses a threshold, the other half is counted (certify.rates). A claim below
what is found is refuted. Two controls say what the attack is worth: releases of a model that never
unlearned must be told apart, and those of one and the same model must not. Pure but for the noise,
which is drawn by whoever publishes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unfit.certify.attack_result import AttackResult, Side
from unfit.certify.rates import MISTAKES, RATES, Scores, curves_of, most_epsilon, told_apart

DRAWS = 10_000
_AT_ONCE = 1_000_000  # numbers that are drawn at a time

Release = Callable[[np.ndarray, int], np.ndarray]
"""release(centre, count): so many releases of a centre, (count, k, d), as they are published."""


@dataclass(frozen=True, kw_only=True)
class ReleaseTest(AttackResult):
    """What the attack found with so many releases of each centre."""

    draws: int

    def _size(self) -> list[tuple[str, str]]:
        return [("releases", f"{self.draws:,} of each model")]


@dataclass(frozen=True)
class Centres:
    """Weights before noise: of the model in question, of a retraining, and of a model that never
    unlearned, where the deleted rows are at hand."""

    updated: np.ndarray
    retrained: np.ndarray
    control: np.ndarray | None


def release_test(
    release: Release,
    centres: Centres,
    *,
    epsilon: float | None,
    delta: float,
    draws: int = DRAWS,
    mistakes: float = MISTAKES,
) -> ReleaseTest:
    """Attack the claim (epsilon, delta), or say without one what could be shown.

    mistakes: how often what is stated may be wrong.
    """
    rate = mistakes / RATES
    shift = centres.updated - centres.retrained
    away = None if centres.control is None else centres.control - centres.retrained
    along = _direction(shift, away)
    theirs = _scores(release, centres.retrained, along, draws)
    ours = Scores(_scores(release, centres.updated, along, draws), theirs)
    again = Scores(_scores(release, centres.retrained, along, draws), theirs)
    against = None
    if centres.control is not None and away is not None:
        line = _direction(away, None)
        drawn = (_scores(release, c, line, draws) for c in (centres.control, centres.retrained))
        against = told_apart(*Scores(*drawn).halves(), delta, rate)
    return ReleaseTest(
        epsilon=epsilon,
        delta=delta,
        draws=draws,
        found=told_apart(*ours.halves(), delta, rate),
        control=against,
        same=told_apart(*again.halves(), delta, rate),
        most=most_epsilon(draws - draws // 2, delta, rate),
        side=_side(shift, away),
        curves=curves_of(_in_deviations(ours)),
    )


def _side(shift: np.ndarray, away: np.ndarray | None) -> Side | None:
    if away is None or not shift.any():
        return None
    return "too little" if float(np.sum(shift * away)) > 0 else "too much"


def _in_deviations(scores: Scores) -> Scores:
    """Counted from the mean of theirs, in their standard deviations."""
    middle, unit = float(scores.theirs.mean()), float(scores.theirs.std()) or 1.0
    return Scores((scores.ours - middle) / unit, (scores.theirs - middle) / unit)


def _direction(first: np.ndarray, second: np.ndarray | None) -> np.ndarray:
    """The line between two centres; where they are the same, another one."""
    for shift in (first, second):
        if shift is not None and (length := float(np.linalg.norm(shift))) > 0:
            return np.asarray(shift / length)
    return np.full_like(first, 1 / math.sqrt(first.size))


def _scores(release: Release, centre: np.ndarray, along: np.ndarray, draws: int) -> np.ndarray:
    block = max(1, _AT_ONCE // centre.size)
    counts = [min(block, draws - start) for start in range(0, draws, block)]
    return np.concatenate([np.einsum("nkd,kd->n", release(centre, n), along) for n in counts])
