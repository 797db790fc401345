"""Beyond the paper: its methods beside certified unlearning, and what their noise can be told by.

All start from the optimum of all rows, but for DELTAGRAD, which has to replay a run of SGD. The
reference of a method is its own retraining: the optimum of what remains with noise of its kind; a
replay with every step exact for DELTAGRAD. What an observer finds is counted from 10,000 releases
of each by certify.release_test, along the line that tells the two Gaussians apart best. Only the
place of a release along that line counts, whose law is known, so that is what is drawn:

    FISHER     c + sigma H^(-1/4) b: H of the updated model is where its step started, as published
    INFLUENCE  the gradient that is left, u, over sigma: its noise is in the objective
    DELTAGRAD  c + sigma b
    certified  as published by certify.releases, whole

For FISHER covariances differ as well, by which more may be told than along a line.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from unfit.certify import Promise, Releases
from unfit.certify.paper_noise import Ridge, deltagrad_claim, fisher_claim, influence_claim
from unfit.certify.rates import Scores, told_apart
from unfit.certify.release_test import DRAWS, Centres, release_test
from unfit.core.factors import Cholesky, Factor, Spectrum
from unfit.core.metrics import accuracy_disparity, accuracy_error
from unfit.core.noise import standard_normal
from unfit.core.statistics import SPECTRUM_UP_TO
from unfit.engines.base import Engine
from unfit.experiments.contenders import CONTENDERS
from unfit.experiments.plans import CERTIFIED, NOISE
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.experiments.timing import shortest
from unfit.experiments.workbench import Deletion, Workbench
from unfit.methods import METHODS, Method, Settings, State

PROMISE = Promise(1.0, 1e-5, NOISE)
TOL = 1e-11
RELEASES = 10  # whose accuracies are averaged
NOBODY = np.zeros(0, np.int64)

Draw = Callable[[], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A deletion by one method. updated, retrained: draw released weights. mu: claimed, or that of
    the means; found: the least epsilon that 10,000 releases show; claimed: epsilon, if any."""

    seconds: float
    updated: Draw
    retrained: Draw
    mu: float | None
    found: float | None
    claimed: float | None
    label: str


class Case:
    """One deletion of one data set, with what all methods share."""

    def __init__(self, workbench: Workbench, deletion: Deletion) -> None:
        self.workbench, self.deletion = workbench, deletion
        self.l2 = Settings().l2
        self.left = workbench.without(deletion)
        self.ridge = self.l2 * self.left.n_remaining
        self.before = workbench.optimum()
        self.after = workbench.optimum(deletion)
        self.rng = generator("beyond", workbench.name, deletion.fraction, deletion.seed)

    @property
    def engine(self) -> Engine:
        return self.workbench.engine

    def gradient(self, W: np.ndarray) -> np.ndarray:
        """F over the rows that remain."""
        return np.asarray(self.left.gradient_sum(W) + self.ridge * W)

    def exact(self) -> float:
        """Seconds of the fastest exact retraining, from the weights at hand."""
        method = METHODS["retrain"](Settings())
        state = State("retrain", self.before, self.engine.n_remaining)
        return shortest(lambda: method.unlearn(state, self.engine, self.deletion.rows, self.rng))

    @cached_property
    def replayed(self) -> tuple[float, np.ndarray, np.ndarray]:
        """DELTAGRAD's seconds and weights, and those of a replay with every step exact."""
        contender, bench, rows = CONTENDERS["deltagrad"], self.workbench, self.deletion.rows
        method = bench.method(contender, 0.0, contender.taus[-1].name, len(rows))
        every = type(method)(replace(method.settings, period=1))
        state = bench.trained_by(contender, 0.0, self.deletion.seed)

        def once(by: Method) -> tuple[float, np.ndarray]:
            ready = by.prepare(replace(state, spare=None), self.engine)
            start = perf_counter()
            weights = by.unlearn(ready, self.engine, rows, self.rng).weights
            return perf_counter() - start, weights

        seconds, centre = min((once(method) for _ in range(3)), key=lambda pair: pair[0])
        return seconds, centre, once(every)[1]

    @cached_property
    def fisher(self) -> "FisherStep":
        return FisherStep.of(self)

    def measured(self, outcome: Outcome) -> dict[str, Any]:
        """The paper's measures, averaged over releases."""
        bench, gone = self.workbench, self.deletion
        best = bench.accuracy(self.after)
        errors, disparities = [], []
        for _ in range(RELEASES):
            weights, again = outcome.updated(), outcome.retrained()
            errors.append(accuracy_error(best, bench.accuracy(weights)))
            of_gone = (bench.accuracy_deleted(w, gone) for w in (again, weights))
            disparities.append(accuracy_disparity(*of_gone))
        return {
            "deleted": len(gone.rows),
            "seconds_unlearn": outcome.seconds,
            "acc_err": float(np.mean(errors)),
            "acc_dis": float(np.mean(disparities)),
            "mu": outcome.mu,
            "epsilon_found": outcome.found,
            "epsilon_claimed": outcome.claimed,
            "label": outcome.label,
        }


def beyond(workbench: Workbench, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one deletion: methods x sigma."""
    start = perf_counter()
    case = Case(workbench, workbench.deletion(runs[0].law, runs[0].fraction, runs[0].seed))
    exact = case.exact()
    for run in runs:
        found = case.measured(OUTCOMES[run.method](case, run.sigma))
        spent = {"seconds_retrain_exact": exact, "seconds_spent": perf_counter() - start}
        yield run, found | spent
        start = perf_counter()


@dataclass(frozen=True)
class Shape:
    """Powers of a Hessian times vectors: by its spectrum, which many vectors share, where that is
    small enough."""

    factor: Cholesky
    spectrum: Spectrum | None

    @classmethod
    def of_each(cls, factors: Sequence[Factor]) -> "list[Shape]":
        made = [factor for factor in factors if isinstance(factor, Cholesky)]
        assert len(made) == len(factors)
        small = made[0].hessian.shape[0] <= SPECTRUM_UP_TO
        return [cls(one, Spectrum.of(one.hessian) if small else None) for one in made]

    @property
    def d(self) -> int:
        return int(self.factor.hessian.shape[0])

    def inverse_fourth_root(self, v: np.ndarray) -> np.ndarray:
        if self.spectrum is None:
            return self.factor.inverse_fourth_root(v)
        return self._power(-0.25, v)

    def root(self, v: np.ndarray) -> np.ndarray:
        if self.spectrum is None:
            twice = self.inverse_fourth_root(self.inverse_fourth_root(v))
            return np.asarray(self.factor.hessian @ twice)
        return self._power(0.5, v)

    def _power(self, power: float, v: np.ndarray) -> np.ndarray:
        assert self.spectrum is not None
        Q, values = self.spectrum.vectors, self.spectrum.values
        return np.asarray(Q @ (values**power * (Q.T @ v)))


@dataclass(frozen=True, kw_only=True)
class FisherStep:
    """What FISHER's step came to, whatever its sigma. published, theirs: the shapes of its noise
    and of a retraining's; at_new: factors at the new centre."""

    seconds: float
    centre: np.ndarray
    published: list[Shape]
    theirs: list[Shape]
    at_new: Sequence[Factor]

    @classmethod
    def of(cls, case: Case) -> "FisherStep":
        method = METHODS["fisher"](Settings(tol=TOL))
        state = State("fisher", case.before, case.engine.n_remaining)
        state = method.prepare(state, case.engine)
        rows = case.deletion.rows
        seconds = shortest(lambda: method.unlearn(state, case.engine, rows, case.rng))
        centre = method.unlearn(state, case.engine, rows, case.rng).weights
        published, at_new, theirs = (
            case.left.factors(W, None, case.ridge) for W in (case.before, centre, case.after)
        )
        return cls(
            seconds=seconds,
            centre=centre,
            published=Shape.of_each(published),
            theirs=Shape.of_each(theirs),
            at_new=at_new,
        )


def _fisher(case: Case, sigma: float) -> Outcome:
    step = case.fisher
    centre, published, theirs = step.centre, step.published, step.theirs
    norms = case.workbench.norms[case.left.remaining]
    radius = math.sqrt(float(norms.max()) ** 2 + case.engine.intercept) * (1 + 1e-6)
    claim = fisher_claim(
        case.gradient(centre),
        step.at_new,
        Ridge(ridge=case.ridge, radius=radius),
        sigma=sigma,
        delta=PROMISE.delta,
    )
    shift = centre - case.after
    line = np.array([shape.root(d) for shape, d in zip(theirs, shift, strict=True)])
    spread = [_spread(shapes, line) for shapes in (published, theirs)]
    apart = float((line * shift).sum())
    return Outcome(
        seconds=step.seconds,
        updated=lambda: centre + _shaped(published, sigma, case.rng),
        retrained=lambda: case.after + _shaped(theirs, sigma, case.rng),
        mu=apart / (sigma * spread[1]) if apart > 0 else 0.0,
        found=_found(apart / sigma, spread[0], spread[1], case.rng),
        claimed=claim.epsilon,
        label="heuristic noise as published; at the new centre: " + claim.label,
    )


def _shaped(shapes: Sequence[Shape], sigma: float, rng: np.random.Generator) -> np.ndarray:
    """sigma H^(-1/4) b."""
    drawn = [shape.inverse_fourth_root(standard_normal(rng, (shape.d,))) for shape in shapes]
    return sigma * np.array(drawn)


def _spread(shapes: Sequence[Shape], line: np.ndarray) -> float:
    """The standard deviation of H^(-1/4) b along a line."""
    pairs = zip(shapes, line, strict=True)
    return math.sqrt(sum(float((shape.inverse_fourth_root(v) ** 2).sum()) for shape, v in pairs))


def _found(apart: float, ours: float, theirs: float, rng: np.random.Generator) -> float:
    """epsilon from places along a line: means so far apart, and these deviations."""
    first = apart + ours * rng.standard_normal(DRAWS)
    drawn = Scores(first, theirs * rng.standard_normal(DRAWS))
    return told_apart(*drawn.halves(), PROMISE.delta).epsilon


def _influence(case: Case, sigma: float) -> Outcome:
    method = METHODS["influence"](Settings(sigma=sigma, tol=TOL))
    state = method.prepare(method.train(case.engine, case.rng), case.engine)
    rows = case.deletion.rows
    seconds = shortest(lambda: method.unlearn(state, case.engine, rows, case.rng))
    weights = method.unlearn(state, case.engine, rows, case.rng).weights
    tilt = np.zeros_like(weights) if state.linear_term is None else state.linear_term
    left = float(np.linalg.norm(case.gradient(weights) + tilt))
    claim = influence_claim(left, sigma=sigma, delta=PROMISE.delta)
    again = method.train(case.left, case.rng).weights
    return Outcome(
        seconds=seconds,
        updated=lambda: weights,
        retrained=lambda: again,
        mu=claim.mu,
        found=_found(left / sigma, 1.0, 1.0, case.rng),
        claimed=claim.epsilon,
        label=claim.label,
    )


def _deltagrad(case: Case, sigma: float) -> Outcome:
    seconds, centre, reference = case.replayed
    apart = float(np.linalg.norm(centre - reference))
    return Outcome(
        seconds=seconds,
        updated=lambda: centre + sigma * standard_normal(case.rng, centre.shape),
        retrained=lambda: reference + sigma * standard_normal(case.rng, centre.shape),
        mu=apart / sigma,
        found=_found(apart / sigma, 1.0, 1.0, case.rng),
        claimed=None,
        label=deltagrad_claim(delta=PROMISE.delta).label,
    )


def _certified(case: Case, sigma: float) -> Outcome:
    settings = Settings(tol=TOL)
    method, rows = METHODS["fisher"](settings, polished=True), case.deletion.rows
    data = case.engine.shared()
    releases = Releases.open(PROMISE, settings, data)
    state = State("fisher", case.before, data.n_remaining)
    releases, state, _ = releases.publish(None, state, data, NOBODY)
    state = method.prepare(state, data)
    releases = releases.prepared(state, data)

    def unlearned() -> Any:
        after = method.unlearn(state, data, rows, case.rng)
        return releases.publish(state, after, data, rows)

    seconds = shortest(unlearned)
    later, updated, certificate = unlearned()
    release = later.certifier.release
    found = release_test(
        release,
        Centres(updated.centre, case.after, None),
        epsilon=PROMISE.epsilon,
        delta=PROMISE.delta,
    ).found
    return Outcome(
        seconds=seconds,
        updated=lambda: release(updated.centre),
        retrained=lambda: release(case.after),
        mu=certificate.mu,
        found=found.epsilon,
        claimed=PROMISE.epsilon,
        label="certified",
    )


OUTCOMES: dict[str, Callable[[Case, float], Outcome]] = {
    "fisher": _fisher,
    "influence": _influence,
    "deltagrad": _deltagrad,
    CERTIFIED: _certified,
}
