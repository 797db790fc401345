"""What FISHER and INFLUENCE share: one Newton-like step per mini-batch of deleted rows.

They differ in the step alone. Statistics kept at the current weights make it cost O(m d^2 + d^3);
where there are none (the second mini-batch, or nobody prepared) a pass over the rows makes them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unfit.core.factors import Cholesky, Factor
from unfit.core.statistics import factors_without, gradient_of_rows
from unfit.engines.base import Engine
from unfit.methods.base import Method, State, moved, split


class OneStep(Method):
    roots = False  # whether the method wants roots of the Hessian

    @abstractmethod
    def step(
        self,
        weights: np.ndarray,
        gradient_remaining: np.ndarray,
        gradient_deleted: np.ndarray,
        factors: Sequence[Factor],
        rng: np.random.Generator,
    ) -> np.ndarray:
        """The next weights, from sums at the current ones; factors are of the remaining rows."""

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        gone = 0
        for batch in split(deleted, self.settings.deletion_batch_size):
            state = self._forget(state, data, deleted[:gone], batch, rng)
            gone += len(batch)
        return state

    def _forget(
        self, state: State, data: Engine, before: np.ndarray, batch: np.ndarray,
        rng: np.random.Generator,
    ) -> State:  # fmt: skip
        W, l2 = state.weights, self.settings.l2
        left = state.n - len(batch)
        rows = data.take(batch)
        of_deleted = gradient_of_rows(rows, W, l2)
        factors: Sequence[Factor]
        if state.statistics is not None and len(batch) <= left:
            of_remaining = state.statistics.gradient_sum - of_deleted
            factors = factors_without(state.statistics, rows)
        else:
            mask = data.without(np.concatenate([before, batch]))
            fresh = self.statistics(data, W, mask)
            of_remaining = fresh.gradient_sum
            factors = [Cholesky.of(h) for h in fresh.hessian_sum]
        return moved(state, self.step(W, of_remaining, of_deleted, factors, rng), left)

    def prepare(self, state: State, data: Engine) -> State:
        if state.statistics is not None and state.statistics.factors is not None:
            return state
        statistics = state.statistics or self.statistics(data, state.weights)
        wants_roots = self.roots and self.settings.sigma > 0
        return replace(state, statistics=statistics.with_factors(wants_roots))
