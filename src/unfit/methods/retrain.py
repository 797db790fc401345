"""RETRAIN: Newton from the current weights to convergence on the rows that remain.

Exact, and the fastest honest way to be exact: the baseline for the others and a method in its own
right. Publishes w + sigma b, b fresh each time.
"""

import numpy as np

from unfit.engines.base import Engine
from unfit.methods.base import Method, State, moved


class Retrain(Method):
    name = "retrain"
    noise = "end"

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        weights = self.optimum(data, rng, mask=data.without(deleted), start=state.weights)
        return moved(state, self.perturbed(weights, rng), state.n - len(deleted))
