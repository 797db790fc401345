"""The pipeline over time: a stream of deletion batches under several policies.

One process, alone: every batch is retrained once (that is what always-retraining costs, and the
model that disparity is measured against); then each policy unlearns it, is told what the pipeline
would tell it, and decides. The steps and the decision are those that the workspace uses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy_disparity, accuracy_error, sape
from unfit.core.objective import Rows
from unfit.experiments.contenders import CONTENDERS, Contender
from unfit.experiments.laboratory import Deletion, Laboratory
from unfit.experiments.randomness import generator
from unfit.experiments.runs import Run
from unfit.lifecycle.pipeline import Baseline, hits, rehearse, step
from unfit.lifecycle.policy import Always, Disparity, Never, Policy, decide
from unfit.methods import Method, State


@dataclass(frozen=True)
class Retrained:
    """The model retrained after a batch, and how long it took."""

    deletion: Deletion
    weights: np.ndarray
    seconds: float


def policy_of(name: str) -> Policy:
    """always, never, or a threshold of the estimated disparity in percent, as `5%`."""
    if name == "always":
        return Always()
    return Never() if name == "never" else Disparity(float(name.rstrip("%")))


def streams(laboratory: Laboratory, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one law and seed: policies x steps; a run's fraction is what is gone by then."""
    contender = CONTENDERS[runs[0].method]
    law, seed = runs[0].law, runs[0].seed
    fractions = sorted({run.fraction for run in runs})
    wanted = {(run.policy, run.step): run for run in runs}
    method = laboratory.method(contender, 0.0)
    test = Rows(
        laboratory.data.X_test, np.asarray(laboratory.data.y_test), laboratory.data.entry.intercept
    )
    retrained = []
    for fraction in fractions:
        deletion = laboratory.deletion(law, fraction, seed)
        retrained.append(_retrain(laboratory, deletion))
    for name in dict.fromkeys(run.policy for run in runs):
        rows = _one(laboratory, contender, method, name, retrained, test, seed)
        for number, row in enumerate(rows, 1):
            if (name, number) in wanted:
                yield wanted[name, number], row


def _retrain(laboratory: Laboratory, deletion: Deletion) -> Retrained:
    rng = generator("stream", laboratory.name, deletion.law, deletion.fraction, deletion.seed)
    start = perf_counter()
    weights = laboratory.sgd().optimum(laboratory.without(deletion), rng)
    return Retrained(deletion, weights, perf_counter() - start)


def _one(
    laboratory: Laboratory, contender: Contender, method: Method, name: str,
    retrained: Sequence[Retrained], test: Rows, seed: int,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """One policy over the whole stream."""
    policy, data = policy_of(name), laboratory.engine.shared()
    rng = generator("stream", laboratory.name, name, seed)
    state = laboratory.trained_by(contender, 0.0, seed)
    initial = hits(state.weights, test)
    baseline = rehearse(method, state, data, test, initial, rng, laboratory.data.entry.theta)
    classes = [str(c) for c in range(laboratory.data.k)]
    everyone = np.arange(len(test))
    state, cost, gone = method.prepare(state, data), 0.0, np.zeros(0, np.int64)
    early = retrained[0].deletion.rows  # once off the clock: the first call loads its kernels
    step(method, state, data, early, test, everyone, initial, baseline, classes, rng)
    for after in retrained:
        batch = after.deletion.rows[len(gone) :]
        gone = after.deletion.rows
        start = perf_counter()
        done = step(method, state, data, batch, test, everyone, initial, baseline, classes, rng)
        unlearning = 0.0 if name == "always" else perf_counter() - start
        verdict = decide(policy, done.facts)
        data.forget(batch)
        updated = done.state.weights
        true = accuracy_disparity(
            laboratory.accuracy_deleted(after.weights, after.deletion),
            laboratory.accuracy_deleted(updated, after.deletion),
        )
        employed = after.weights if verdict.retrain else updated
        cost += unlearning + (after.seconds if verdict.retrain else 0.0)
        best, now = laboratory.accuracy(after.weights), laboratory.accuracy(employed)
        yield {
            "deleted": len(gone),
            "retrained": bool(verdict.retrain),
            "seconds_unlearn": unlearning,
            "seconds_retrain_sgd": after.seconds,
            "seconds_total": cost,
            "acc_test_unlearned": laboratory.accuracy(updated),
            "acc_test_employed": now,
            "acc_test_retrained": best,
            "acc_err": accuracy_error(best, now),
            "acc_err_init": sape(done.facts.initial_accuracy, done.facts.accuracy),
            "acc_dis": true,
            "estimate": done.facts.estimate,
            "acc_dis_employed": 0.0 if verdict.retrain else true,
            "slope": baseline.slope,
            "seconds_spent": after.seconds + unlearning,
        }
        state = done.state
        if verdict.retrain:
            state = State(contender.name, employed, data.n_remaining)
            initial = hits(employed, test)
            baseline = Baseline(
                data.n_remaining, float(initial.mean()), baseline.slope, baseline.theta,
                baseline.rehearsed_acc_dis, baseline.rehearsed_acc_err_init,
            )  # fmt: skip
        state = method.prepare(state, data)
