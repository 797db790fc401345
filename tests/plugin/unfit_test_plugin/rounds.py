"""A method from outside: several Newton steps on the rows that remain, as an option says."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from unfit.engines.base import Engine
from unfit.knobs import knob
from unfit.methods.base import Method, State, moved, with_noise


class Rounds(Method):
    name = "rounds"
    title = "ROUNDS"
    summary = "several Newton steps on the rows that remain"
    description = "ROUNDS takes {rounds} Newton steps on the rows that remain."
    tau = "More rounds come closer to a retraining, and each is one more pass over the rows."
    noise = "end"

    @dataclass(frozen=True)
    class Options:
        rounds: Annotated[int, Ge(1)] = knob(2, "Newton steps per erasure")

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        mask, weights = data.without(deleted), state.centre
        ridge = self.ridge(data, mask)
        for _ in range(self.options.rounds):
            gradient = data.gradient_sum(weights, mask) + ridge * weights
            factors = data.factors(weights, mask, ridge)
            weights = weights - [f.solve(g) for f, g in zip(factors, gradient, strict=True)]
        centred = moved(state, weights, state.n - len(deleted))
        return with_noise(centred, self.perturbed(weights, rng))
