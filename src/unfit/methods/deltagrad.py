"""DELTAGRAD: replay the stored SGD run without the deleted rows, mostly blind to the rest.

The run is stored in a memory-mapped file of steps x 2 x k x d numbers. Every deletion writes a new
one, so the old model is whole until the new one is; `prepare` has the file for it ready.
Publishes w_T + sigma b, b fresh each time; the next replay goes by the stored run, where no noise
is.
"""

import logging
from dataclasses import replace

import numpy as np

from unfit.core.replay import GONE, LEAVING, PRESENT, Cadence
from unfit.core.trajectory import Reserve, TrajectoryFile, readable, require
from unfit.engines.base import Engine
from unfit.engines.sgd import SgdEngine, sgd_engine
from unfit.methods.base import (
    Method,
    Run,
    State,
    Training,
    finite,
    random_order,
    random_start,
    with_noise,
)
from unfit.progress import ProgressCallback

log = logging.getLogger("unfit")


class DeltaGrad(Method):
    name = "deltagrad"
    title = "DELTAGRAD"
    summary = "a replay of the SGD run, mostly without looking at the rows that stay"
    description = (
        "DELTAGRAD replays the training: most steps are corrected from what was recorded at the "
        "time, and every {period}th one, after the first {burn_in}, is computed exactly without "
        "the deleted rows."
    )
    uses = ("period", "burn_in")
    tau = (
        "The period T0 is {period}: one step in {period} reads the rows. A smaller period is "
        "closer to a retraining but takes longer."
    )
    needs = (SgdEngine,)
    replays = True
    passes = 0
    solvers = ("sgd",)
    noise = "end"

    def train(
        self,
        data: Engine,
        rng: np.random.Generator,
        progress: ProgressCallback | None = None,
        *,
        start: np.ndarray | None = None,
    ) -> State:
        row_of = random_order(data.remaining, rng)
        n = len(row_of)
        plan = self.plan(rng, n)
        origin = random_start(rng, data) if start is None else start
        shape = (plan.steps(n), 2, data.k, data.d)
        size = require(shape, copies=2)  # a deletion writes a second one beside the first
        log.info("the DELTAGRAD trajectory takes %s, twice", readable(size))
        file = TrajectoryFile(shape)
        walking = sgd_engine(data, "DELTAGRAD")
        layout = walking.lay_out(row_of)
        weights = walking.sgd(layout, plan, origin, trajectory=file.array, progress=progress)
        sizes = np.full(plan.steps_per_epoch(n), plan.batch_size, np.int64)
        sizes[-1] = n - (len(sizes) - 1) * plan.batch_size
        run = Run(plan, row_of, np.tile(sizes, plan.epochs), file, layout.radius())
        training = Training(iterations=plan.epochs)
        centred = State(self.name, finite(weights, "SGD"), n, run=run, training=training)
        return with_noise(centred, self.perturbed(weights, rng))

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if state.run is None:
            raise ValueError("this state has no stored run; train it with method 'deltagrad'")
        if len(deleted) == 0:
            return state
        run = state.run
        fate_of_row = np.where(data.remaining, PRESENT, GONE).astype(np.uint8)
        fate_of_row[deleted] = LEAVING
        target = (state.spare and state.spare.take()) or TrajectoryFile(run.file.array.shape)
        walking = sgd_engine(data, "DELTAGRAD")
        layout = walking.lay_out(run.row_of)
        weights, counts = walking.replay(
            layout,
            run.plan,
            Cadence(self.settings.burn_in, self.settings.period),
            fate_of_row[run.row_of],
            run.counts,
            old=run.file.array,
            new=target.array,
            radius=run.radius * data.loss.max_slope,
        )
        centre = finite(weights, "the replay")
        staying = np.flatnonzero(fate_of_row[run.row_of] == PRESENT)
        radius = layout.radius(staying, run.radius)
        run = replace(run, counts=counts, file=target, radius=radius)
        centred = State(self.name, centre, state.n - len(deleted), run=run)
        return with_noise(centred, self.perturbed(centre, rng))

    def _centre_of(self, state: State, data: Engine) -> np.ndarray:
        """w_T, by the last step of the stored run."""
        run = state.run
        if run is None or len(run.file.array) == 0:
            return super()._centre_of(state, data)
        last, gradient = np.array(run.file.array[-1])
        if run.counts[-1] == 0:  # a batch with nothing left moves nothing
            return np.asarray(last)
        return np.asarray(last - run.plan.learning_rate * (gradient + run.plan.l2 * last))

    def prepare(self, state: State, data: Engine) -> State:
        if state.run is None or state.spare is not None:
            return state
        file = TrajectoryFile(state.run.file.array.shape).touch()
        return replace(state, spare=Reserve(file))
