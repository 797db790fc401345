"""FISHER: a Newton step on the remaining rows, with noise shaped by the Fisher information.

w <- w - H(w; D')^-1 gradient(w; D')  +  sigma H(w; D')^(-1/4) b
"""

from collections.abc import Sequence

import numpy as np

from unfit.core.factors import Cholesky, Factor
from unfit.core.noise import standard_normal
from unfit.engines.base import Engine
from unfit.methods.onestep import OneStep


class Fisher(OneStep):
    name = "fisher"
    roots = True

    def released(self, weights: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        if self.settings.sigma == 0:
            return weights
        hessians = self.statistics(data, weights).hessian_sum
        b = self.settings.sigma * standard_normal(rng, weights.shape)
        pairs = zip(hessians, b, strict=True)
        return np.asarray(
            weights + [Cholesky.of(h).inverse_fourth_root(noise) for h, noise in pairs]
        )

    def step(
        self,
        weights: np.ndarray,
        gradient_remaining: np.ndarray,
        gradient_deleted: np.ndarray,
        factors: Sequence[Factor],
        rng: np.random.Generator,
    ) -> np.ndarray:
        if self.settings.sigma == 0:
            solved = [f.solve(-g) for f, g in zip(factors, gradient_remaining, strict=True)]
        else:
            b = self.settings.sigma * standard_normal(rng, weights.shape)
            solved = [
                f.noisy_solve(-g, noise)
                for f, g, noise in zip(factors, gradient_remaining, b, strict=True)
            ]
        return np.asarray(weights + np.array(solved))
