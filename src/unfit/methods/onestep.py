"""What FISHER and INFLUENCE share: one Newton-like step per mini-batch of deleted rows.

They differ in the gradients they step along and in their noise. With statistics kept at the centre
a step reads the rows that leave and no others, in one of four ways (core.statistics.cheapest);
where there are none (the second mini-batch, or nobody prepared) a pass over the rows makes them.

Later mini-batches of wide rows take no new Hessian: products with it, guided by the factor of the
first one, solve for the step to the same precision (core.by_products).

With `refine` a factor is a guide only, and the weights do not depend on how they were come by. Few
rows are followed to the optimum (methods.few_rows), at a pass over the rows, or at none where there
are so many rows that it can be foreseen (methods.foresight). For more of them
products with the Hessian itself, in float64, bring the step to 1e-11 of the weights
(core.factors.Refined). The inverse from before the
weights moved serves for the next request too, at d times less than a new Hessian.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unfit.core.by_products import Systems, guide_of
from unfit.core.conjugate_gradients import Products
from unfit.core.deleted_sums import gradient_and_roots
from unfit.core.factors import Cholesky, Factor, Inverse, Product, Refined, Spectrum, TooFar
from unfit.core.objective import Rows, root_weighted
from unfit.core.statistics import (
    FEW_ROWS_OF_ALL,
    FEW_ROWS_PER_COLUMN,
    PRECISION,
    ROUGH_PRECISION,
    Statistics,
    cheapest,
    factors_less,
    factors_less_few,
    factors_without,
    gradient_and_corrected,
    gradient_of_rows,
    worth_class_split,
)
from unfit.engines.base import Engine
from unfit.methods.base import Method, State, finite, moved, split, with_noise
from unfit.methods.few_rows import (
    ENOUGH,
    FEW_OF_ALL,
    Correction,
    Solvers,
    price_of_sums,
    solved,
)
from unfit.methods.foresight import WORTH_FROM, Foreseen, Foresight
from unfit.methods.guides import guide_without
from unfit.methods.minimum import Objective, minimize
from unfit.methods.stream import Departure, Direction, Stream

STREAM_TOLERANCE = 10.0  # of a stream's residual, in units of the tolerance of training
BEFORE_POLISHING = 0.1  # relative, of a step so long that what it leaves has to be polished anyway


class _Guides:
    """What the later mini-batches of a request are guided by: the factors of an earlier one."""

    def __init__(self, kept: Sequence[Inverse | Spectrum] | None) -> None:
        self._factors: Sequence[Inverse | Spectrum | Cholesky] | None = kept
        self._guide: Products | None = None

    def lead(self, objective: Objective) -> bool:
        """Whether there are any, and products cost less than a Hessian."""
        return self._factors is not None and objective.by_products

    @property
    def guide(self) -> Products:
        if self._guide is None:
            self._guide = guide_of(self._factors or ())
        return self._guide

    def renew(self, factors: Sequence[Factor]) -> None:
        made = [factor for factor in factors if isinstance(factor, Cholesky)]
        if len(made) == len(factors):
            self._factors, self._guide = made, None


@dataclass(frozen=True)
class _Batch:
    """A mini-batch: its rows, those that left before it, a generator if noise is to be drawn."""

    rows: np.ndarray
    gone: np.ndarray
    rng: np.random.Generator | None
    guides: _Guides


class OneStep(Method):
    uses = ("deletion_batch_size",)
    tau = (
        "Deleted rows can be processed all at once or in steps of m' rows. The setting here is "
        "{deletion_batch_size}. Smaller steps follow the curve more closely, but each needs its "
        "own solve and its own passes over the rows."
    )
    keeps_sums = True
    passes = 0
    roots = False  # whether the method wants roots of the Hessian
    along: ClassVar[Direction]  # which gradients it steps along

    def step(
        self,
        weights: np.ndarray,
        gradient_remaining: np.ndarray,
        gradient_deleted: np.ndarray,
        factors: Sequence[Factor],
    ) -> np.ndarray:
        """The next weights, from sums at the current ones; factors are of the remaining rows."""
        target = self.along.remaining * gradient_remaining
        if self.along.deleted:
            target = target + self.along.deleted * gradient_deleted
        return np.asarray(weights + factors[0].solve_each(factors, target))

    def noise_of(
        self, factors: Sequence[Factor], d: int, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Fresh noise (k, d) for what is released, shaped by the last step's factors; or None."""
        return None

    def unlearn(
        self, state: State, data: Engine, deleted: np.ndarray, rng: np.random.Generator
    ) -> State:
        if len(deleted) == 0:
            return state
        if state.stream is not None and self._streams(len(deleted)):
            followed = self._followed(state, state.stream, data, deleted)
            finite(followed.weights)
            return followed
        at = state
        if state.kept_centre is not None:
            at = state.at(state.centre, None)
        gone, noise = 0, None
        guides = _Guides(None if at.statistics is None else at.statistics.factors)
        for rows in split(deleted, self.settings.deletion_batch_size):
            if noise is not None:  # the published manner: on from the noisy weights
                at = replace(at, weights=at.weights + noise)
            draws = self.settings.noise_per_batch or gone + len(rows) == len(deleted)
            batch = _Batch(rows, deleted[:gone], rng if draws else None, guides)
            at, noise = self._forget(at, data, batch)
            gone += len(rows)
        released = finite(at.weights if noise is None else at.weights + noise)
        return with_noise(at, released)

    def _forget(self, at: State, data: Engine, batch: _Batch) -> tuple[State, np.ndarray | None]:
        """The state at its next centre, and noise for it if the batch has a generator."""
        W, left, m = at.weights, at.n - len(batch.rows), len(batch.rows)
        known = at.statistics
        if known is not None and m <= left and not self._refines:
            try:
                weights, noise = self._known(known, data, batch.rows, batch.rng)
                stream = None
                if len(batch.gone) == 0 and self._streams(m):
                    stream = Stream(statistics=known, waiting=batch.rows)
                return moved(at, weights, left, stream=stream), noise
            except (TooFar, np.linalg.LinAlgError):
                pass  # so much leaves that what is known says nothing of the rest
        rows = data.take(batch.rows)
        of_deleted = gradient_of_rows(rows, W, self.penalty(data))
        mask = data.without(np.concatenate([batch.gone, batch.rows]))
        objective = self.objective(data, mask)
        if self._refines and m <= left and not data.wide(mask):
            try:
                if self._few(m, left):
                    return self._corrected(at, objective, rows, of_deleted), None
            except TooFar:  # one step from where the weights were, then
                pass
            try:
                return self._refined(at, objective, rows, of_deleted, batch), None
            except TooFar:  # too far away, or too ill-conditioned for float32's sums to lead
                pass
        weights, noise = self._measured(W, objective, of_deleted, batch)
        first = len(batch.gone) == 0 and self._streams(m)
        return moved(at, weights, left, stream=Stream() if first else None), noise

    def _measured(
        self, W: np.ndarray, objective: Objective, of_deleted: np.ndarray, batch: _Batch
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The step by sums over the rows that remain: by products if a guide leads, or Hessians."""
        if batch.guides.lead(objective):
            _, gradient, products = objective.value_gradient_products(W)
            factors = self._by_products(objective, products, batch.guides)
            try:
                return self._stepped(W, gradient, of_deleted, factors, batch.rng)
            except TooFar:
                pass
        made = objective.factors(W)
        batch.guides.renew(made)
        _, gradient = objective.value_gradient(W)
        return self._stepped(W, gradient, of_deleted, made, batch.rng)

    def _by_products(
        self, objective: Objective, products: Products, guides: _Guides
    ) -> Sequence[Factor]:
        """The Hessians by their products, as precise as the rows and what is asked for."""
        exact = objective.data.dtype == np.float64 or self._refines
        systems = Systems(
            products=products,
            guide=guides.guide,
            precision=PRECISION if exact else ROUGH_PRECISION,
            most=int(objective.sizes.hessian / objective.sizes.product),
            dtype=np.dtype(np.float64) if exact else objective.product_dtype,
        )
        return systems.factors(objective.data.k)

    def _streams(self, m: int) -> bool:
        """Whether requests of so many rows can follow each other from one point."""
        size = self.settings.deletion_batch_size
        plain = self.settings.sigma == 0 and self.solver != "sgd" and not self._refines
        return plain and (size is None or m <= size)

    def _followed(self, state: State, stream: Stream, data: Engine, deleted: np.ndarray) -> State:
        """One more request of a stream, with new sums if they are due. Where there are none, or so
        much leaves that none lead to the rest, it is minimised from where the weights are."""
        tol = STREAM_TOLERANCE * self.settings.tol
        asked = Departure(data, deleted, state.centre, self.along, tol)
        try:
            weights, stream = stream.answered(asked)
        except TooFar:
            renewed = self.prepare(replace(state, stream=None), data).statistics
            try:
                weights, stream = Stream(statistics=renewed).answered(asked)
            except TooFar:
                return self._minimised(state, data, deleted, tol)
        return moved(state, weights, state.n - len(deleted), stream=stream)

    def _minimised(self, state: State, data: Engine, deleted: np.ndarray, tol: float) -> State:
        guide, kept = guide_without(state, data, deleted, self.penalty(data))
        objective = self.objective(data, data.without(deleted))
        found = minimize(objective, tol, start=state.centre, guide=guide)
        return moved(state, found.weights, state.n - len(deleted), kept, stream=Stream())

    def _stepped(
        self,
        W: np.ndarray,
        gradient_remaining: np.ndarray,
        gradient_deleted: np.ndarray,
        factors: Sequence[Factor],
        rng: np.random.Generator | None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        weights = self.step(W, gradient_remaining, gradient_deleted, factors)
        return weights, None if rng is None else self.noise_of(factors, W.shape[1], rng)

    def _known(
        self, known: Statistics, data: Engine, batch: np.ndarray, rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The step from kept sums: what is looked at are the rows that leave, or fewer."""
        W = known.weights
        factors: Sequence[Factor]
        way = cheapest(known, len(batch))
        leaving = data.weight_of(batch)
        shift = known.penalty.leaving(leaving, W.shape[1])
        if way == "factorize":
            gradient, hessian = data.sums_of(W, batch)
            factors = factors_less(known, hessian, shift)
        elif way == "class split":
            gradient, factor = data.by_class_split(known, batch)
            factors = [factor]
        elif way == "woodbury":
            gradient, roots = gradient_and_roots(data.take(batch), W)
            factors = factors_less_few(known, roots, leaving)
        else:
            roughly = self.polished and len(batch) > FEW_ROWS_OF_ALL * known.n
            precision = BEFORE_POLISHING if roughly else 0.0
            gradient, factors = gradient_and_corrected(known, data.take(batch), precision)
        of_deleted = gradient + shift * W
        return self._stepped(W, known.gradient_sum - of_deleted, of_deleted, factors, rng)

    @property
    def _refines(self) -> bool:
        return self.refine and self.settings.sigma == 0

    def _refined(
        self,
        state: State,
        objective: Objective,
        rows: Rows,
        of_deleted: np.ndarray,
        batch: _Batch,
    ) -> State:
        """The step by products with the Hessian, guided by whatever is known of it."""
        W, left = state.weights, state.n - len(rows)
        data, mask, ridge = objective.data, objective.mask, objective.ridge
        share = rows.total_weight / (data.total_weight(mask) + rows.total_weight)
        guides, after = self._guides(state, data, rows, share)
        _, sums, products = data.value_gradient_products(W, mask)
        gradient = sums + ridge * W

        def regularised(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            return np.asarray(products(problems, V) + ridge * V)

        def of_one(c: int) -> Product:
            return lambda v: np.asarray(regularised(np.array([c]), v[None])[0])

        def step(guides: Sequence[Factor]) -> np.ndarray:
            refined = [
                Refined(guide, of_one(c), float(np.linalg.norm(W[c])))
                for c, guide in enumerate(guides)
            ]
            return self.step(W, gradient, of_deleted, refined)

        if guides is not None:
            try:
                return moved(state, step(guides), left, after)
            except TooFar:
                pass
        if batch.guides.lead(objective):
            try:
                factors = self._by_products(objective, regularised, batch.guides)
                return moved(state, self.step(W, gradient, of_deleted, factors), left)
            except TooFar:
                pass
        made = objective.factors(W)
        batch.guides.renew(made)
        return moved(state, step(made), left)

    def _few(self, m: int, left: int) -> bool:
        """Whether so few rows leave that they are followed to the optimum. A matter of counts
        alone: what is done must not depend on what is known."""
        return self.solver != "sgd" and m <= FEW_OF_ALL * left

    def _corrected(
        self, state: State, objective: Objective, rows: Rows, of_deleted: np.ndarray
    ) -> State:
        """The optimum of what remains, by a guide and a pass or two."""
        W, left, d = state.weights, state.n - len(rows), objective.data.d
        data, mask = objective.data, objective.mask
        ridge = self.ridge(data, mask)

        def gradient(weights: np.ndarray) -> np.ndarray:
            return np.asarray(data.gradient_sum(weights, mask) + ridge * weights)

        def fresh(weights: np.ndarray) -> Solvers:
            return [factor.solve for factor in data.factors(weights, mask, ridge)]

        after = self._inverses(state, objective, rows)
        guide = fresh(W) if after is None else [one.solve for one in after]
        if self.polished:
            return moved(state, W + solved(guide, of_deleted), left, after)
        ahead = self._foreseen(state, of_deleted, after, len(rows))
        if ahead is not None and ahead.distance <= ENOUGH:
            return replace(
                moved(state, ahead.weights, left, after),
                distance=ahead.distance,
                guide_passes=state.guide_passes,
                foresight=ahead.then,
            )
        found = Correction(gradient=gradient, guide=guide, fresh=fresh).run(W, of_deleted)
        spared = ahead is not None and ahead.distance_if_renewed <= ENOUGH  # by a new guide
        passes = state.guide_passes + found.passes - (not spared)
        if not found.led or passes >= price_of_sums(d, left):
            after, passes = None, 0  # a new one would have paid
        made = moved(state, found.weights, left, after)
        known = None if after is None else state.foresight
        if known is not None:
            known = known.measured(found.weights, found.distance)
        return replace(made, distance=found.distance, guide_passes=passes, foresight=known)

    def _foreseen(
        self, state: State, of_deleted: np.ndarray, after: Sequence[Inverse] | None, m: int
    ) -> Foreseen | None:
        """Where a step ends without a pass; None where nothing is known that tells."""
        known, sums = state.foresight, state.statistics
        if known is None or after is None or m >= FEW_ROWS_PER_COLUMN * state.weights.shape[1]:
            return None
        target = of_deleted if sums is None else of_deleted - sums.gradient_sum
        return known.step(state.weights, target, after)

    def _inverses(self, state: State, objective: Objective, rows: Rows) -> Sequence[Inverse] | None:
        """Inverses of about the Hessians without a few rows; None where there are none."""
        inverses = state.inverses
        if inverses is None:
            return None
        if len(rows) >= FEW_ROWS_PER_COLUMN * state.weights.shape[1]:
            return inverses  # to take so many out of it costs more than another pass
        pairs = zip(inverses, root_weighted(rows, state.weights), strict=True)
        shift = objective.penalty.leaving(rows.total_weight, rows.d)
        return [one.downdated(u, shift) for one, u in pairs]

    def _guides(
        self, state: State, data: Engine, rows: Rows, share: float
    ) -> tuple[Sequence[Factor] | None, Sequence[Inverse] | None]:
        """Factors of about the Hessians without the rows, which are such a share of all, and
        inverses for the next time."""
        known, inverses = state.statistics, state.inverses
        if inverses is None or len(rows) >= FEW_ROWS_PER_COLUMN * state.weights.shape[1]:
            return (None if known is None else factors_without(known, rows)), None
        shift = self.penalty(data).leaving(rows.total_weight, data.d)
        pairs = list(zip(inverses, root_weighted(rows, state.weights), strict=True))
        guides = [one.without(u, shift, share) for one, u in pairs]
        return guides, [one.downdated(u, shift) for one, u in pairs]

    def prepare(self, state: State, data: Engine) -> State:
        if state.statistics is not None and state.statistics.factors is not None:
            return state
        if state.stream is not None and state.stream.leads:  # until it says otherwise
            return state
        if data.wide():  # no Hessian is made: a step costs n^3 / 3 and a pass anyway
            if state.statistics is None:
                data.factors(state.centre, None, self.ridge(data))  # keeps what it can
            return state
        statistics = state.statistics or self.statistics(data, state.centre)
        wants_roots = self.roots and self.settings.sigma > 0
        statistics = data.with_factors(statistics, wants_roots)
        batch = self.settings.deletion_batch_size or 0
        if not wants_roots and not self._refines and worth_class_split(data.k, data.d, batch):
            statistics = replace(statistics, class_split=data.class_split(statistics))
        return replace(state, statistics=statistics, foresight=self._foresight(state, data))

    def _foresight(self, state: State, data: Engine) -> Foresight | None:
        """What tells how near the optimum a step ends, for requests that are followed to it."""
        follows = self._refines and not self.polished and self.solver != "sgd"
        if not follows or not data.loss.self_concordant or data.n_remaining < WORTH_FROM:
            return None
        radius = data.radius()
        return None if radius is None else Foresight.at(state.centre, radius, data.dtype)
