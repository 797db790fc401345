"""RETRAIN: Newton from the current centre to convergence on the rows that remain; with the solver
"sgd", SGD from a random start.

Exact, with nothing prepared: the baseline for the others and a method in its own right. Publishes
w + sigma b, b fresh each time.
"""

import numpy as np

from unfit.engines.base import Engine
from unfit.methods.base import Method, State, moved, with_noise


class Retrain(Method):
    name = "retrain"
    title = "RETRAIN"
    summary = "exact retraining, from the weights at hand"
    description = (
        "Every erasure continues training from the active weights, on the remaining rows, until "
        "the gradient is as small as after a training. Nothing is approximated."
    )
    noise = "end"

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        mask = data.without(deleted)
        if self.solver == "sgd":
            centre = self.optimum(data, rng, mask=mask)
        else:
            centre = self.minimum(data, mask, start=state.centre).weights
        centred = moved(state, centre, state.n - len(deleted))
        return with_noise(centred, self.perturbed(centre, rng))
