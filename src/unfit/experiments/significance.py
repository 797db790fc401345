"""What seeds can tell: the floor of a disparity, and a test of differences between cases.

The floor. Two retrainings of the same rows differ too: SGD with a fixed learning rate ends
somewhere else each time, and noise is drawn anew. A disparity says something only above that. The
floor of a seed is the mean disparity between its retrained model and those of the other seeds, of
the same rows and at the same sigma.

The test. Cases are compared seed by seed, one-sided, by flipping signs: were there no difference,
each seed's would be as likely as its opposite. The share of all sign patterns whose mean is at
least as large as the one seen is the p-value: exact, and free of assumptions on the shape of the
distribution. With five seeds the least it can be is 1/32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from unfit.core.metrics import accuracy_disparity

LEVEL = 0.05  # of every single test
EXACT = 14  # differences up to which all patterns are counted; a sample of them otherwise
SAMPLE = 1 << EXACT


def floors(retrained: Mapping[int, float]) -> dict[int, float]:
    """By seed: the mean disparity to the other seeds' retrained models, in percentage points."""
    return {
        seed: float(
            np.mean(
                [accuracy_disparity(mine, other) for at, other in retrained.items() if at != seed]
            )
        )
        for seed, mine in retrained.items()
        if len(retrained) > 1
    }


def p_value(differences: Sequence[float]) -> float:
    """The share of sign patterns with a mean at least as large as the one seen."""
    seen = np.asarray(differences, np.float64)
    if seen.size == 0:
        return 1.0
    if seen.size <= EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=seen.size)))
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (SAMPLE, seen.size))
        signs[0] = 1.0  # what was seen is one of them
    means = signs @ seen / seen.size
    return float(np.mean(means >= seen.mean() - 1e-12 * np.abs(seen).max()))


@dataclass(frozen=True)
class Comparison:
    """Whether the second of two cases is larger: yes, no (the first is), or not told.

    p: that of the direction seen.
    """

    low: float
    high: float
    p: float
    seeds: int

    @property
    def larger(self) -> bool | None:
        if self.p > LEVEL:
            return None
        return self.high > self.low


def compare(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison | None:
    """Two cases by seed; None if they have no seed in common."""
    shared = sorted(set(first) & set(second))
    if not shared:
        return None
    one, other = (np.array([case[seed] for seed in shared]) for case in (first, second))
    differences = other - one
    differences[np.isclose(one, other, rtol=1e-9)] = 0.0  # rounding is no difference
    p = p_value(differences if differences.mean() >= 0 else -differences)
    return Comparison(float(one.mean()), float(other.mean()), p, len(shared))
