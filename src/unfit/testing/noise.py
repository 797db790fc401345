"""The contract of a method's noise: as much as a retraining has, and fresh with every request."""

from dataclasses import dataclass, replace

import numpy as np

from unfit.testing.cases import FAST, Case, MethodClass, distance, rng, trained


def check_noise_is_fresh(method: MethodClass, case: Case) -> None:
    noisy, data = method(replace(FAST, sigma=0.1)), case.data()
    one, other = noisy.train(data, rng(1)), noisy.train(data, rng(2))
    assert distance(one.weights, other.weights) > 1e-3, "two seeds, the same noise"
    generator = rng(1)
    first, second = noisy.train(data, generator), noisy.train(data, generator)
    assert distance(first.weights, second.weights) > 1e-3, "two trainings shared their noise"
    if method.noise != "objective":
        state = trained(noisy, data)
        a = noisy.unlearn(state, data, case.deleted, rng(3)).weights
        b = noisy.unlearn(state, data, case.deleted, rng(4)).weights
        assert distance(a, b) > 1e-4, "two unlearnings shared their noise"


@dataclass(frozen=True)
class NoisyRuns:
    """Models (runs, k, d) published by independent runs of the same requests."""

    trained: np.ndarray
    first: np.ndarray  # after the first request
    second: np.ndarray  # after both
    retrained: np.ndarray  # trained on what both requests leave


RUNS = 24  # in 25 dimensions or more: a spread is known to 3 %, a correlation to 0.05
SIGMAS = (1.0, 10.0)  # the larger one is far off the optimum, where a wrong start shows


def noisy_runs(method: MethodClass, case: Case, sigma: float) -> NoisyRuns:
    """Train, forget 12 rows and then 18 others, and train without them: each with fresh seeds."""
    m = method(replace(FAST, sigma=sigma))
    models: list[list[np.ndarray]] = []
    for run in range(RUNS):
        data = case.data()
        state = trained(m, data, seed=4 * run)
        published = [state.weights]
        for request, deleted in enumerate((case.deleted[:12], case.deleted[12:]), 1):
            state = m.unlearn(state, data, deleted, rng(4 * run + request))
            data.forget(deleted)
            published.append(state.weights)
        models.append([*published, m.train(data, rng(4 * run + 3)).weights])
    return NoisyRuns(*np.array(models).transpose(1, 0, 2, 3))


def spread(models: np.ndarray) -> float:
    """Root mean square distance of models (runs, k, d) from their mean."""
    return float(np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=(1, 2)).mean()))


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Of the deviations of two sets of models from their means."""
    a, b = one - one.mean(axis=0), other - other.mean(axis=0)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def check_spread_is_that_of_retraining(method: MethodClass, case: Case) -> None:
    """At the same sigma, unlearned models differ from run to run as retrained ones do.

    Less, and the noise that hides who was deleted has been taken away again, as by a step from the
    released weights to the optimum; more, and it is no longer the noise that was asked for.
    """
    for sigma in SIGMAS:
        runs = noisy_runs(method, case, sigma)
        for models, when in ((runs.first, "one request"), (runs.second, "two requests")):
            ratio = spread(models) / spread(runs.retrained)
            assert 0.75 <= ratio <= 1.33, (
                f"at sigma={sigma:g} models differ {ratio:.2f} times as much from run to run after "
                f"{when} as retrained ones do; step from state.centre, and add noise once, with "
                "Method.release"
            )


def check_each_request_has_noise_of_its_own(method: MethodClass, case: Case) -> None:
    """Noise is drawn by `unlearn`, in full, and has nothing to do with the noise before.

    Not for noise in the objective, which is drawn once, at training.
    """
    if method.noise == "objective":
        return
    for sigma in SIGMAS:
        runs = noisy_runs(method, case, sigma)
        pairs = [
            (runs.trained, runs.first, "the trained model and the first request"),
            (runs.first, runs.second, "the first request and the second"),
        ]
        for one, other, what in pairs:
            found = correlation(one, other)
            assert abs(found) <= 0.25, (
                f"at sigma={sigma:g} the noise of {what} is correlated ({found:.2f}): each needs "
                "noise of its own"
            )
        m, data = method(replace(FAST, sigma=sigma)), case.data()
        state = trained(m, data)
        again = [m.unlearn(state, data, case.deleted, rng(run)).weights for run in range(RUNS)]
        ratio = spread(np.array(again)) / spread(runs.retrained)
        assert 0.75 <= ratio <= 1.33, (
            f"at sigma={sigma:g} unlearning the same rows from the same model again and again "
            f"varies {ratio:.2f} times as much as retraining: unlearn must draw all of its noise"
        )
