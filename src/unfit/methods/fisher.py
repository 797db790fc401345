"""FISHER: a Newton step on the remaining rows, with noise shaped by the Fisher information.

w <- w - H(w; D')^-1 gradient(w; D')  +  sigma H(w; D')^(-1/4) b
"""

from collections.abc import Sequence

import numpy as np

from unfit.core.noise import standard_normal
from unfit.core.sgd import Progress
from unfit.core.statistics import Cholesky, Factor
from unfit.engines.base import Engine
from unfit.methods.base import State
from unfit.methods.onestep import OneStep


class Fisher(OneStep):
    name = "fisher"
    roots = True

    def train(
        self, data: Engine, rng: np.random.Generator, progress: Progress | None = None
    ) -> State:
        weights = self.optimum(data, rng, progress=progress)
        if self.settings.sigma > 0:
            hessian = self.statistics(data, weights).hessian_sum
            weights = weights + self._noise([Cholesky.of(h) for h in hessian], weights.shape, rng)
        return State(self.name, weights, data.n_remaining)

    def step(
        self,
        weights: np.ndarray,
        gradient_remaining: np.ndarray,
        gradient_deleted: np.ndarray,
        factors: Sequence[Factor],
        rng: np.random.Generator,
    ) -> np.ndarray:
        newton = [factor.solve(g) for factor, g in zip(factors, gradient_remaining, strict=True)]
        return np.asarray(weights - np.array(newton) + self._noise(factors, weights.shape, rng))

    def _noise(
        self, factors: Sequence[Factor], shape: tuple[int, ...], rng: np.random.Generator
    ) -> np.ndarray:
        """sigma F^(-1/4) b, covariance sigma^2 F^(-1/2); nothing is drawn for sigma = 0."""
        if self.settings.sigma == 0:
            return np.zeros(shape)
        b = standard_normal(rng, shape)
        shaped = [f.inverse_fourth_root(row) for f, row in zip(factors, b, strict=True)]
        return self.settings.sigma * np.array(shaped)
