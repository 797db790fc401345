"""Margins of the test rows under the weights that were asked for last, each computed once.

An erasure asks for those of the new weights several times (accuracy, log-loss, what is shown) and
for those of the old ones, which the erasure before has asked for. May know core.
"""

import numpy as np

from unfit.core.objective import Rows
from unfit.core.predictions import margins, predicted_classes

_KEPT = 3  # weights: the old ones, the new ones before noise, and as released


class TestScores:
    """Test rows and what weights say of them."""

    __test__ = False  # to pytest: this is no class of tests

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []  # the last one asked for comes last

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """(n, k) of all rows: to copy the chosen ones would take longer."""
        for place, (known, found) in enumerate(self._kept):
            if known is weights or np.array_equal(known, weights):
                self._kept.append(self._kept.pop(place))
                return found
        found = margins(self.rows.X, weights)
        self._kept = [*self._kept[1 - _KEPT :], (weights, found)]
        return found

    def correct(self, weights: np.ndarray) -> np.ndarray:
        """Which rows are predicted right, (n,) bool."""
        return np.asarray(predicted_classes(self.margins(weights)) == self.rows.codes)
