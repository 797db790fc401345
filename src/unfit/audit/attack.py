"""Attacking a model: can its releases be told from those of a retraining, and the way it was made?

With a claim (a Promise) the attacks try to refute it; without one they say what epsilon they could
show for the noise that the method adds. May know methods, engines and what is certified.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unfit.audit.attack_report import NO_NOISE, Attack
from unfit.audit.comparison import Question, with_known_labels
from unfit.audit.retrained import WIDEST, Retraining, replayed, retrain
from unfit.certify.certifier import Promise
from unfit.certify.pipelines import CertifiedPipeline, MethodPipeline, Pipeline
from unfit.certify.rates import MISTAKES
from unfit.certify.release_test import DRAWS, Centres, Release, ReleaseTest, release_test
from unfit.certify.releases import Releases
from unfit.certify.shadow_models import Size, shadow_test
from unfit.core.factors import Spectrum
from unfit.core.noise import standard_normal
from unfit.engines.base import Engine
from unfit.errors import BadInput
from unfit.methods.base import Method
from unfit.methods.fisher import Fisher
from unfit.progress import ProgressCallback

DELTA = 1e-5  # at which epsilon is stated where nobody claims one
_EACH = MISTAKES / 2  # of two attacks


@dataclass(frozen=True)
class Claim:
    """What is promised of every release, and the function that publishes them."""

    promise: Promise
    release: Release


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried: releases of each centre, halves of the rows, targets in them."""

    draws: int = DRAWS
    size: Size = field(default_factory=Size)

    def __post_init__(self) -> None:
        if self.draws < 100:
            raise BadInput(f"draws must be >= 100, got {self.draws}")


def attack(
    question: Question,
    claim: Claim | None,
    *,
    effort: Effort,
    rng: np.random.Generator,
    delta: float = DELTA,
    progress: ProgressCallback | None = None,
) -> Attack:
    """Attack the state of a method. claim: what it was published under; None: the method's own
    noise, for which epsilon is stated at this delta."""
    q = question
    if progress is not None:
        progress("retraining independently", 0, 0)
    retrained = retrain(q.method, q.data)
    if claim is not None:
        delta = claim.promise.delta
    release, note = _how_released(q, claim, retrained, rng)
    on_release = None
    if release is not None:
        on_release = _release_test(q, claim, release, retrained, delta, effort.draws)
    on_shadows = shadow_test(
        _pipeline(q.method, q.data, claim),
        q.data,
        retrained.weights,
        epsilon=None if claim is None else claim.promise.epsilon,
        delta=delta,
        size=effort.size,
        rng=rng,
        mistakes=_EACH,
        progress=progress,
    )
    return Attack(release=on_release, shadow=on_shadows, note=note)


def _release_test(
    q: Question,
    claim: Claim | None,
    release: Release,
    retrained: Retraining,
    delta: float,
    draws: int,
) -> ReleaseTest:
    known = with_known_labels(q.deleted)
    reference = retrained.weights
    if claim is None and (own := replayed(q.state, q.data)) is not None:
        reference = own  # a run that is repeated is compared with its own repetition
    control = None
    if len(known):  # as far from the reference as the deleted rows move the optimum
        control = reference + (retrained.control(q.data, known) - retrained.weights)
    return release_test(
        release,
        Centres(q.state.centre, reference, control),
        epsilon=None if claim is None else claim.promise.epsilon,
        delta=delta,
        draws=draws,
        mistakes=_EACH,
    )


def _pipeline(method: Method, data: Engine, claim: Claim | None) -> Pipeline:
    if claim is None:
        return MethodPipeline(method)
    releases = Releases.open(claim.promise, method.settings, data)
    return CertifiedPipeline(method, releases, claim.release)


def _how_released(
    q: Question, claim: Claim | None, retrained: Retraining, rng: np.random.Generator
) -> tuple[Release | None, str]:
    """The function that publishes centres; or None, and why there is none."""
    if claim is not None:
        return claim.release, ""
    method = q.method
    if method.noise == "objective" and method.settings.sigma > 0:
        return None, "the noise is part of the objective: every release is a training of its own"
    if method.solver == "sgd" and (q.state.run is None or method.settings.sigma == 0):
        return None, "chance in training is part of every release, and each is a training"
    if method.settings.sigma == 0:
        return None, NO_NOISE
    if isinstance(method, Fisher) and not q.data.forms_hessian:
        return None, "the noise has the shape of the Hessian, which is not made of sparse rows"
    if isinstance(method, Fisher) and q.data.d > WIDEST:
        return None, (
            f"the noise has the shape of the Hessian, which is not made beyond {WIDEST:,} columns"
        )
    return own_release(method, q.data, retrained.weights, rng), ""


def own_release(
    method: Method, data: Engine, optimum: np.ndarray, rng: np.random.Generator
) -> Release:
    """How a method publishes a centre with its own sigma, many at a time.

    FISHER's noise has the shape of the Hessian, which is taken at the optimum.
    """
    sigma = method.settings.sigma

    def plain(centre: np.ndarray, count: int) -> np.ndarray:
        return np.asarray(centre + sigma * standard_normal(rng, (count, *centre.shape)))

    def one_by_one(centre: np.ndarray, count: int) -> np.ndarray:
        return np.array([method.released(centre, data, rng) for _ in range(count)])

    if isinstance(method, Fisher):
        return _shaped(sigma, _fourth_roots(method, data, optimum), rng)
    return plain if type(method).released is Method.released else one_by_one


def _fourth_roots(method: Method, data: Engine, optimum: np.ndarray) -> list[np.ndarray]:
    ridge = method.settings.l2 * data.n_remaining * np.eye(data.d)
    spectra = [Spectrum.of(h + ridge) for h in data.hessian_sum(optimum)]
    return [(s.vectors * s.values**-0.25) @ s.vectors.T for s in spectra]


def _shaped(
    sigma: float, roots: list[np.ndarray], rng: np.random.Generator
) -> Callable[[np.ndarray, int], np.ndarray]:
    def release(centre: np.ndarray, count: int) -> np.ndarray:
        drawn = sigma * standard_normal(rng, (count, *centre.shape))
        each = [drawn[:, c] @ root for c, root in enumerate(roots)]
        return np.asarray(centre + np.stack(each, axis=1))

    return release
