"""An attack on the claim of a certificate: can releases of two centres be told apart?

Many releases of the updated centre and as many of a retrained one, drawn by the function that
publishes, are scored along the line between the two centres, which is how they can be told apart
best. One half of them chooses a threshold, the other half is counted. From the counts, with
Clopper-Pearson's bounds at 95 % over all four rates, follows the least epsilon and mu that explain
them:

    epsilon >= log((TPR - delta) / FPR)  and  log((TNR - delta) / FNR)
    mu      >= Phi^-1(1 - FPR) - Phi^-1(FNR)

A claim below that is refuted. Two controls say what the attack is worth: releases of a model that
never unlearned must be told apart, and those of one and the same model must not. Pure but for the
noise, which is drawn by whoever publishes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betaincinv, ndtri

from unfit.certify.accountant import mu_of

DRAWS = 10_000
_MISTAKES = 0.05 / 4  # how often each of the four rates may be outside its bound
_THRESHOLDS = 199

_AT_ONCE = 1_000_000  # numbers that are drawn at a time

Release = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class Told:
    """How well releases of two centres were told apart: at least this epsilon and mu, and the share
    of pairs that were put in the right order."""

    epsilon: float
    mu: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class ReleaseTest:
    """What the attack found of a claim. most: the largest epsilon that so many draws can show.

    control: of a model that never unlearned; None without the deleted rows. same: of releases of
    one model."""

    epsilon: float
    delta: float
    draws: int
    found: Told
    control: Told | None
    same: Told
    most: float

    @property
    def limit(self) -> float:
        """The largest mu that the claim allows."""
        return mu_of(self.epsilon, self.delta)

    def _beyond(self, told: Told) -> bool:
        return told.mu > self.limit or told.epsilon > self.epsilon

    @property
    def outcome(self) -> Literal["refuted", "not refuted", "cannot tell"]:
        if self._beyond(self.same):
            return "cannot tell"
        if self._beyond(self.found):
            return "refuted"
        if self.control is None or not self._beyond(self.control):
            return "cannot tell"
        return "not refuted"

    @property
    def reason(self) -> str:
        claim = f"the claim of epsilon {self.epsilon:g} at delta {self.delta:g}"
        if self._beyond(self.same):
            return "releases of one and the same model were told apart: the test itself is wrong"
        if self.outcome == "refuted":
            return (
                f"{claim} allows a mu of {self.limit:.3g}, and mu is at least {self.found.mu:.3g}"
            )
        if self.control is None:
            return "without the deleted rows there is no model that never unlearned to compare with"
        if self.outcome == "cannot tell":
            return (
                "a model that never unlearned cannot be told apart either: with this noise the "
                "deleted rows leave no trace that could be found"
            )
        return (
            f"mu is at least {self.found.mu:.3g} by this test, and the claim allows "
            f"{self.limit:.3g}; for a model that never unlearned it found {self.control.mu:.3g}"
        )

    def __str__(self) -> str:
        return "\n".join(f"{name:<18}{value}" for name, value in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """Names and what they came to."""
        found = [
            ("claim", f"epsilon {self.epsilon:g}, delta {self.delta:g}"),
            ("releases", f"{self.draws:,} of each model"),
            ("told apart", _line(self.found)),
            ("same model twice", _line(self.same)),
            ("could have found", f"epsilon {self.most:.3g} at most"),
            ("verdict", f"{self.outcome}: {self.reason}"),
        ]
        if self.control is not None:
            found.insert(3, ("never unlearned", _line(self.control)))
        return found


def _line(told: Told) -> str:
    return f"epsilon >= {told.epsilon:.3g}, mu >= {told.mu:.3g}, AUC {told.auc:.4f}"


def release_test(
    release: Release,
    updated: np.ndarray,
    retrained: np.ndarray,
    control: np.ndarray | None,
    *,
    epsilon: float,
    delta: float,
    draws: int = DRAWS,
) -> ReleaseTest:
    """Attack the claim (epsilon, delta) for the releases of a centre against a retrained one.

    release(centre, count): as it is published. control: the centre of a model that never unlearned.
    """
    along = _direction(updated - retrained, None if control is None else control - retrained)
    theirs = _scores(release, retrained, along, draws)
    found = told_apart(_scores(release, updated, along, draws), theirs, delta)
    same = told_apart(_scores(release, retrained, along, draws), theirs, delta)
    against = None
    if control is not None:
        line = _direction(control - retrained, None)
        against = told_apart(
            _scores(release, control, line, draws), _scores(release, retrained, line, draws), delta
        )
    return ReleaseTest(
        epsilon=epsilon,
        delta=delta,
        draws=draws,
        found=found,
        control=against,
        same=same,
        most=told_apart(np.ones(draws), np.zeros(draws), delta).epsilon,
    )


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


def told_apart(ours: np.ndarray, theirs: np.ndarray, delta: float) -> Told:
    """How well scores above a threshold are ours and those below it theirs."""
    half = len(ours) // 2
    choose = np.quantile(
        np.concatenate([ours[:half], theirs[:half]]), np.linspace(0, 1, _THRESHOLDS + 2)[1:-1]
    )
    epsilons, mus = _least(ours[:half], theirs[:half], choose, delta)
    fifth = len(choose) // 5
    mus[:fifth] = mus[-fifth:] = -np.inf  # far out a threshold is chosen by luck
    by_epsilon, by_mu = choose[[int(epsilons.argmax())]], choose[[int(mus.argmax())]]
    epsilon = _least(ours[half:], theirs[half:], by_epsilon, delta)[0][0]
    mu = _least(ours[half:], theirs[half:], by_mu, delta)[1][0]
    return Told(max(0.0, float(epsilon)), max(0.0, float(mu)), _auc(ours, theirs))


def _least(
    ours: np.ndarray, theirs: np.ndarray, thresholds: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least epsilon and mu that explain the counts at each threshold."""
    n = len(ours)
    ours, theirs = np.sort(ours), np.sort(theirs)
    caught = n - np.searchsorted(ours, thresholds, side="right")
    blamed = len(theirs) - np.searchsorted(theirs, thresholds, side="right")
    true_low, missed_high = _low(caught, n), _high(n - caught, n)
    false_high, spared_low = _high(blamed, len(theirs)), _low(len(theirs) - blamed, len(theirs))
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(true_low - delta, 0) / false_high)
        other = np.log(np.maximum(spared_low - delta, 0) / missed_high)
        mu = ndtri(1 - false_high) - ndtri(missed_high)
    return np.maximum(one, other), np.nan_to_num(mu, nan=-np.inf)


def _low(hits: np.ndarray, n: int) -> np.ndarray:
    """Clopper and Pearson's lower bound of a rate."""
    found = betaincinv(np.maximum(hits, 1), n - hits + 1, _MISTAKES)
    return np.where(hits == 0, 0.0, found)


def _high(hits: np.ndarray, n: int) -> np.ndarray:
    """Clopper and Pearson's upper bound of a rate."""
    found = betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - _MISTAKES)
    return np.where(hits == n, 1.0, found)


def _auc(ours: np.ndarray, theirs: np.ndarray) -> float:
    below = np.searchsorted(np.sort(theirs), ours, side="left")
    upto = np.searchsorted(np.sort(theirs), ours, side="right")
    return float((below + upto).mean() / 2 / len(theirs))
