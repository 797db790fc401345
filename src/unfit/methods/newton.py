"""NEWTON: steps on the rows that remain until nothing is left of their gradient.

    H(w; D') step = gradient(w; D'),   w <- w - step        from the centre, to a residual

As exact as RETRAIN, and prepared: the inverse Hessian that `prepare` makes, with the leaving rows
taken out, guides conjugate gradients, so that a request takes a few passes over the rows. No
Hessian is made while it leads. Guided, four more digits cost one or two products, so by default it
goes that far beyond the tolerance of training: then the weights do not show how they were come by.
Publishes w + sigma b, b fresh each time.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from unfit.core.conjugate_gradients import TRUSTED
from unfit.core.newton import MAX_STEPS
from unfit.engines.base import Engine
from unfit.knobs import knob
from unfit.methods.base import Method, State, moved, with_noise
from unfit.methods.guides import guide_without
from unfit.methods.minimum import minimize

FURTHER = 1e-4  # of the tolerance of training, to which steps go by default


class Newton(Method):
    name = "newton"
    title = "NEWTON"
    summary = "Newton steps on the rows that remain, until nothing is left of their gradient"
    description = (
        "NEWTON takes Newton steps on the remaining rows until their gradient is smaller than "
        "after a training. The stored inverse of their curvature leads the way, so that each step "
        "costs a few passes over the rows instead of a new Hessian."
    )
    tau = (
        "Each step brings the weights closer to those of a retraining. The number of steps is "
        "{steps}, where 0 means as many as the residual needs."
    )
    keeps_sums = True
    noise = "end"

    @dataclass(frozen=True)
    class Options:
        steps: Annotated[int, Ge(0)] = knob(0, "Newton steps per request at most; 0 for any number")
        residual: Annotated[float, Ge(0)] = knob(
            0.0, "length of the mean gradient at which steps end; 0 for a ten-thousandth of tol"
        )

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        left = state.n - len(deleted)
        guide, kept = guide_without(state, data, deleted, self.penalty(data))
        found = minimize(
            self.objective(data, data.without(deleted)),
            self.options.residual or FURTHER * self.settings.tol,
            start=state.centre,
            guide=guide,
            max_steps=self.options.steps or MAX_STEPS,
        )
        leads = found.products <= TRUSTED * found.steps
        centred = moved(state, found.weights, left, kept if leads else None)
        return with_noise(centred, self.perturbed(found.weights, rng))

    def prepare(self, state: State, data: Engine) -> State:
        if state.inverses is not None or data.wide():
            return state
        statistics = state.statistics or self.statistics(data, state.centre)
        return replace(state, statistics=data.with_factors(statistics, roots=False))
