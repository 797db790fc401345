"""What answers the batches of a stream: a method of the paper, NEWTON, or the cheaper of its ways.

A method of the paper is prepared for every batch; `newton` goes on from the weights at hand, to the
tolerance of a refit, and is not. `stream` is NEWTON to no more of a gradient than SGD leaves, which
is what its batches are compared with: by a guide from a sample of the rows that serves for all of
them (methods.running_guide), or by products alone where such a guide would cost more.
"""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from unfit.engines.base import Engine
from unfit.errors import BadInput
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.positions import counts_of, course_of
from unfit.experiments.workbench import Workbench
from unfit.methods import Method, Settings, State
from unfit.methods.newton import Newton
from unfit.methods.running_guide import price_of_guide

REFIT_TOL = 1e-6
STREAM = "stream"  # not a method: the cheaper of two ways of NEWTON, to a residual that SGD sets
_AS_NEAR = 1.0  # of the gradient that SGD leaves
_PASSES_SAVED = 4  # by a guide, for each batch


@dataclass(frozen=True, kw_only=True)
class Unlearner:
    """A method that answers the batches of a stream, and whether it is prepared for each.

    tol: of the mean gradient, to which a retraining goes. seconds: what it took to find that out.
    """

    method: Method
    prepares: bool
    tol: float = REFIT_TOL
    seconds: float = 0.0

    def prepared(self, state: State, data: Engine) -> State:
        return self.method.prepare(state, data) if self.prepares else state


def unlearner_of(workbench: Workbench, name: str) -> Unlearner:
    """A contender of the paper, `newton` or `stream`."""
    if name == STREAM:
        return _for_stream(workbench)
    if name == Newton.name:
        return Unlearner(method=_newton_to(REFIT_TOL), prepares=False)
    contender = CONTENDERS[name]
    if contender.method.train is not Method.train and contender.method.noise == "end":
        raise BadInput(f"a stream cannot restart {contender.label} from retrained weights alone")
    return Unlearner(method=workbench.method(contender, 0.0), prepares=True)


def _newton_to(residual: float, *, sample: int = 0) -> Newton:
    return Newton(Settings(options=(("residual", residual), ("sample", sample))))


def _for_stream(workbench: Workbench) -> Unlearner:
    """The cheaper of the two ways for all batches of a data set's stream."""
    weights, data = workbench.initial(0), workbench.engine
    mean_gradient(data, weights)  # off the clock: the first call loads its kernel
    start = perf_counter()
    tol = _AS_NEAR * mean_gradient(data, weights)
    seconds = perf_counter() - start
    course = course_of(workbench)
    batches = 1 if course is None else len(counts_of(course, workbench.data.n))
    sizes, sample = _newton_to(tol).objective(data).sizes, 1
    pays = price_of_guide(sizes, sample) < _PASSES_SAVED * batches
    while sample * sizes.d < sizes.n and price_of_guide(sizes, 2 * sample) <= 1:
        sample *= 2  # more rows for less than a pass
    method = _newton_to(tol, sample=sample if pays else 0)
    return Unlearner(method=method, prepares=pays, tol=tol, seconds=seconds)


def mean_gradient(data: Engine, weights: np.ndarray) -> float:
    """|gradient sum| of the rows that remain, for each of them."""
    total = data.gradient_sum(weights) + Settings().l2 * data.n_remaining * weights
    return float(np.linalg.norm(total)) / data.n_remaining
