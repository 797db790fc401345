"""INFLUENCE: take the deleted rows' influence off the optimum.

    w <- w + H(w; D')^-1 gradient(w; D_m)

Training minimises the objective plus a linear term sigma b.w, b drawn once; unlearning adds no
noise.
"""

import numpy as np

from unfit.core.noise import standard_normal
from unfit.engines.base import Engine
from unfit.methods.base import State
from unfit.methods.onestep import OneStep
from unfit.methods.stream import Direction
from unfit.progress import ProgressCallback


class Influence(OneStep):
    name = "influence"
    title = "INFLUENCE"
    summary = "the influence of the deleted rows, taken back in one step"
    description = (
        "INFLUENCE computes how far the deleted rows pulled the weights: their own gradient, times "
        "the inverse curvature of the remaining rows. One step in the opposite direction undoes "
        "the pull."
    )
    noise = "objective"
    along = Direction(remaining=0.0, deleted=1.0)

    def train(
        self,
        data: Engine,
        rng: np.random.Generator,
        progress: ProgressCallback | None = None,
        *,
        start: np.ndarray | None = None,
    ) -> State:
        linear_term = None
        if self.settings.sigma > 0:
            linear_term = self.settings.sigma * standard_normal(rng, (data.k, data.d))
        weights, training = self._trained(
            data, rng, linear_term=linear_term, start=start, progress=progress
        )
        return State(
            self.name, weights, data.n_remaining, linear_term=linear_term, training=training
        )
