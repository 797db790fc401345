"""From counts to epsilon and mu: how well two kinds of releases were told apart. Pure.

Scores of releases of *ours* should be high, those of *theirs* low. Some of them choose a threshold,
others are counted. With Clopper and Pearson's bounds of the rates follows the least epsilon and mu
that explain the counts, in both directions:

    epsilon >= log((TPR - delta) / FPR)  and  log((TNR - delta) / FNR)
    mu      >= Phi^-1(1 - FPR) - Phi^-1(FNR)

The counted releases must be independent, but need not be alike: rates are then means over them,
whose counts scatter less than the binomial distribution says, and a claim that holds for each holds
for the mean.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

MISTAKES = 0.05  # how often any bound that is stated may be wrong
RATES = 4  # bounds that a claim is tested by: TPR, FPR, TNR, FNR
FEW = 0.01  # the rate of false alarms at which the rate of true ones is stated
_THRESHOLDS = 199
_BINS = 40
_POINTS = 51


@dataclass(frozen=True)
class Scores:
    """Scores of releases, higher for ours."""

    ours: np.ndarray
    theirs: np.ndarray

    def halves(self) -> "tuple[Scores, Scores]":
        """One half to choose a threshold by, the other to count."""
        middle = len(self.ours) // 2, len(self.theirs) // 2
        return (
            Scores(self.ours[: middle[0]], self.theirs[: middle[1]]),
            Scores(self.ours[middle[0] :], self.theirs[middle[1] :]),
        )


@dataclass(frozen=True)
class Told:
    """How well ours and theirs were told apart: at least this epsilon and mu, the share of pairs
    that were put in the right order, and the rate of ours found at 1 % of false alarms."""

    epsilon: float
    mu: float
    auc: float
    tpr: float


@dataclass(frozen=True)
class Curves:
    """What is drawn: the share of ours and theirs in bins of their scores, and the ROC as points
    (FPR, lowest TPR, TPR, highest TPR), with 95 % confidence at each point."""

    edges: tuple[float, ...]
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    roc: tuple[tuple[float, float, float, float], ...]


def told_apart(
    chosen_by: Scores, counted: Scores, delta: float, mistakes: float = MISTAKES / RATES
) -> Told:
    """The thresholds are chosen by some scores; others, independent of them, are counted.

    mistakes: how often each rate may be outside its bound.
    """
    choose = np.quantile(
        np.concatenate([chosen_by.ours, chosen_by.theirs]),
        np.linspace(0, 1, _THRESHOLDS + 2)[1:-1],
    )
    epsilons, mus = _least(chosen_by, choose, delta, mistakes)
    fifth = len(choose) // 5
    mus[:fifth] = mus[-fifth:] = -np.inf  # far out a threshold is chosen by luck
    by_epsilon, by_mu = choose[[int(epsilons.argmax())]], choose[[int(mus.argmax())]]
    epsilon = _least(counted, by_epsilon, delta, mistakes)[0][0]
    mu = _least(counted, by_mu, delta, mistakes)[1][0]
    return Told(
        max(0.0, float(epsilon)), max(0.0, float(mu)), auc_of(counted), tpr_of(counted, FEW)
    )


def most_epsilon(n: int, delta: float, mistakes: float = MISTAKES / RATES) -> float:
    """The largest epsilon that so many counted releases of each kind can show."""
    perfect = Scores(np.ones(n), np.zeros(n))
    return max(0.0, float(_least(perfect, np.array([0.5]), delta, mistakes)[0][0]))


def _least(
    scores: Scores, thresholds: np.ndarray, delta: float, mistakes: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least epsilon and mu that explain the counts at each threshold."""
    n, m = len(scores.ours), len(scores.theirs)
    ours, theirs = np.sort(scores.ours), np.sort(scores.theirs)
    caught = n - np.searchsorted(ours, thresholds, side="right")
    blamed = m - np.searchsorted(theirs, thresholds, side="right")
    true_low, missed_high = lowest(caught, n, mistakes), highest(n - caught, n, mistakes)
    false_high, spared_low = highest(blamed, m, mistakes), lowest(m - blamed, m, mistakes)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(true_low - delta, 0) / false_high)
        other = np.log(np.maximum(spared_low - delta, 0) / missed_high)
        mu = ndtri(1 - false_high) - ndtri(missed_high)
    return np.maximum(one, other), np.nan_to_num(mu, nan=-np.inf)


def lowest(hits: np.ndarray, n: int, mistakes: float) -> np.ndarray:
    """Clopper and Pearson's lower bound of a rate."""
    found = betaincinv(np.maximum(hits, 1), n - hits + 1, mistakes)
    return np.where(hits == 0, 0.0, found)


def highest(hits: np.ndarray, n: int, mistakes: float) -> np.ndarray:
    """Clopper and Pearson's upper bound of a rate."""
    found = betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - mistakes)
    return np.where(hits == n, 1.0, found)


def auc_of(scores: Scores) -> float:
    theirs = np.sort(scores.theirs)
    below = np.searchsorted(theirs, scores.ours, side="left")
    upto = np.searchsorted(theirs, scores.ours, side="right")
    return float((below + upto).mean() / 2 / len(theirs))


def tpr_of(scores: Scores, fpr: float) -> float:
    """The rate of ours above a threshold that at most this rate of theirs is above."""
    theirs = np.sort(scores.theirs)
    threshold = theirs[len(theirs) - 1 - int(fpr * len(theirs))]
    return float((scores.ours > threshold).mean())


def curves_of(scores: Scores) -> Curves:
    """Both distributions and the ROC, as coarse as they are drawn."""
    both = np.concatenate([scores.ours, scores.theirs])
    low, high = (float(v) for v in np.quantile(both, [0.002, 0.998]))
    edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
    shares = [
        np.histogram(part.clip(edges[0], edges[-1]), edges)[0] / len(part)
        for part in (scores.ours, scores.theirs)
    ]
    thresholds = np.quantile(scores.theirs, 1 - np.linspace(0, 1, _POINTS))
    n, m = len(scores.ours), len(scores.theirs)
    caught = n - np.searchsorted(np.sort(scores.ours), thresholds, side="right")
    blamed = m - np.searchsorted(np.sort(scores.theirs), thresholds, side="right")
    caught[-1], blamed[-1] = n, m  # below every score
    bounds = lowest(caught, n, MISTAKES / 2), caught / n, highest(caught, n, MISTAKES / 2)
    points = np.column_stack([blamed / m, *bounds])
    return Curves(
        edges=tuple(edges.tolist()),
        ours=tuple(shares[0].tolist()),
        theirs=tuple(shares[1].tolist()),
        roc=tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in points),
    )
