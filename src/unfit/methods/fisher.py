"""FISHER: a Newton step on the remaining rows, with noise shaped by the Fisher information.

    w <- w - H(w; D')^-1 gradient(w; D')        for every mini-batch, from the centre
    published: w + sigma H(w'; D')^(-1/4) b     once a request

w is the centre, w' the one that the last step started from, whose Hessian is at hand. That at the
new centre would make little difference: on MNIST-b and COVTYPE (20,000 rows) the length of the
noise is the same to 0.6 % where 10 % of the rows leave at once, and to 1.3 % where 37.5 % do. But
only there is there an epsilon and a delta (certify.paper_noise): that noise is what `released` adds
to given weights. The noise of a step is the paper's, and heuristic.
"""

from collections.abc import Sequence

import numpy as np

from unfit.core.factors import Factor
from unfit.core.noise import standard_normal
from unfit.engines.base import Engine
from unfit.methods.onestep import OneStep
from unfit.methods.stream import Direction


class Fisher(OneStep):
    name = "fisher"
    title = "FISHER"
    summary = "a Newton step on the rows that remain"
    description = (
        "When rows leave, the best weights for the rest are a short step away. FISHER takes that "
        "Newton step: the gradient of the remaining rows, times the inverse of their curvature. "
        "Both are sums over rows, so the stored inverse, corrected for the rows that leave, gives "
        "the step."
    )
    roots = True
    along = Direction(remaining=-1.0, deleted=0.0)

    def released(self, weights: np.ndarray, data: Engine, rng: np.random.Generator) -> np.ndarray:
        if self.settings.sigma == 0:
            return weights
        factors = data.factors(weights, None, self.settings.l2 * data.n_remaining)
        return np.asarray(weights + self.noise_of(factors, data.d, rng))

    def noise_of(
        self, factors: Sequence[Factor], d: int, rng: np.random.Generator
    ) -> np.ndarray | None:
        if self.settings.sigma == 0:
            return None
        b = self.settings.sigma * standard_normal(rng, (len(factors), d))
        return factors[0].inverse_fourth_root_each(factors, b)
