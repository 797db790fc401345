"""NEWTON: steps on the rows that remain until nothing is left of their gradient.

    H(w; D') step = gradient(w; D'),   w <- w - step        from the centre, to a residual

As exact as RETRAIN, and prepared: the inverse Hessian that `prepare` makes, with the leaving rows
taken out, guides conjugate gradients, so that a request takes a few passes over the rows. No
Hessian is made while it leads. Guided, four more digits cost one or two products, so by default it
goes that far beyond the tolerance of training: then the weights do not show how they were come by.

With `sample` the guide is made from a few rows a column instead of all. That is enough for a loose
residual, and then one pass or none answers a request (methods.running_guide).
Publishes w + sigma b, b fresh each time.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from unfit.core.conjugate_gradients import TRUSTED, Guide
from unfit.core.newton import MAX_STEPS
from unfit.core.statistics import gradient_of_rows
from unfit.engines.base import Engine
from unfit.knobs import knob
from unfit.methods.base import Method, Settings, State, moved, with_noise
from unfit.methods.guides import guide_without
from unfit.methods.minimum import Objective, minimize
from unfit.methods.running_guide import FEW_OF_ALL, Lost, RunningGuide

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
        sample: Annotated[int, Ge(0)] = knob(
            0, "rows for each column that `prepare` makes the guide from; 0 for all rows"
        )

    def __init__(self, settings: Settings, *, refine: bool = False, polished: bool = False) -> None:
        super().__init__(settings, refine=refine, polished=polished)
        if self.options.sample and (self.options.steps or not self.options.residual):
            raise ValueError(
                "option 'sample' of method 'newton' makes a guide to a residual: give `residual`, "
                "such as 1e-3, and no `steps`"
            )

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        objective = self.objective(data, data.without(deleted))
        known, lost = state.running_guide, 0
        if known is not None and len(deleted) <= FEW_OF_ALL * state.n:
            try:
                centred = self._followed(known, state, objective, deleted)
                return with_noise(centred, self.perturbed(centred.weights, rng))
            except Lost as error:
                lost = error.passes
        centred = self._minimised(state, objective, deleted, lost)
        return with_noise(centred, self.perturbed(centred.weights, rng))

    @property
    def _residual(self) -> float:
        return self.options.residual or FURTHER * self.settings.tol

    def _followed(
        self, known: RunningGuide, state: State, objective: Objective, deleted: np.ndarray
    ) -> State:
        rows = objective.data.take(deleted)
        weights, known = known.followed(
            state.centre,
            gradient_of_rows(rows, state.centre, objective.penalty),
            objective.gradient,
            self._residual * objective.total_weight,
        )
        return moved(state, weights, state.n - len(deleted), running_guide=known)

    def _minimised(
        self, state: State, objective: Objective, deleted: np.ndarray, lost: int
    ) -> State:
        """lost: passes that a running guide took before it led no more."""
        data, start, known = objective.data, state.centre, state.running_guide
        many = len(deleted) > FEW_OF_ALL * state.n
        guide: Guide | None
        if known is None:
            guide, kept = guide_without(state, data, deleted, objective.penalty)
        else:
            guide, kept = known.made if many else None, None
        if guide is not None:  # from where the rows that leave have not pulled the weights
            pulled = gradient_of_rows(data.take(deleted), start, objective.penalty)
            start = start + guide(np.arange(len(start)), pulled)
        found = minimize(
            objective,
            self._residual,
            start=start,
            near=not many,
            guide=guide,
            max_steps=self.options.steps or MAX_STEPS,
        )
        leads = found.products <= TRUSTED * found.steps
        return moved(
            state,
            found.weights,
            state.n - len(deleted),
            stale_inverse=kept if leads else None,
            running_guide=known and known.after_solve(0 if many else lost + found.passes),
        )

    def prepare(self, state: State, data: Engine) -> State:
        if self.options.sample and data.forms_hessian and not data.wide():
            return self._with_running_guide(state, data)
        if state.inverses is not None or data.wide():
            return state
        statistics = state.statistics or self.statistics(data, state.centre)
        return replace(state, statistics=data.with_factors(statistics, roots=False))

    def _with_running_guide(self, state: State, data: Engine) -> State:
        """With a guide from a sample, or a better one than that which leads no more."""
        known, objective = state.running_guide, self.objective(data)
        if known is not None and not known.due:
            return state
        if known is not None:
            made = known.better(objective, state.centre)
        else:
            made = RunningGuide.of_sample(objective, state.centre, self.options.sample)
        return replace(state, running_guide=made)
