"""The pipeline over time: a stream of deletion batches under several policies.

One process, alone: every batch is retrained once (that is what always-retraining costs, and the
model that disparity is measured against); then each policy unlearns it, is told what the pipeline
would tell it, and decides. The steps and the decision are those that the workspace uses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy_disparity, accuracy_error
from unfit.core.objective import Rows
from unfit.errors import BadInput
from unfit.experiments.contenders import CONTENDERS, Contender
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.experiments.workbench import Deletion, Workbench
from unfit.lifecycle.drift import measured
from unfit.lifecycle.pipeline import TrainedModel, correct, rehearse, step
from unfit.lifecycle.policies import POLICIES, Always, Disparity, Never
from unfit.lifecycle.policy import Policy, decide
from unfit.lifecycle.scores import TestScores
from unfit.methods import Method, State


@dataclass(frozen=True)
class Retrained:
    """The model retrained after a batch, and how long it took."""

    deletion: Deletion
    weights: np.ndarray
    seconds: float


def policy_of(name: str) -> Policy:
    """A registered policy by its name, or a threshold of the estimated disparity, such as `5%`."""
    return Disparity(float(name[:-1])) if name.endswith("%") else POLICIES.find(name)()


def streams(workbench: Workbench, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one law and seed: policies x steps; a run's fraction is what is gone by then."""
    contender = CONTENDERS[runs[0].method]
    if contender.method.train is not Method.train and contender.method.noise == "end":
        raise BadInput(f"a stream cannot restart {contender.label} from retrained weights alone")
    law, seed = runs[0].law, runs[0].seed
    fractions = sorted({run.fraction for run in runs})
    wanted = {(run.policy, run.step): run for run in runs}
    opened = _open(workbench, contender, law, seed)
    retrained = [
        _retrain(workbench, workbench.deletion(law, fraction, seed)) for fraction in fractions
    ]
    for name in dict.fromkeys(run.policy for run in runs):
        for number, row in enumerate(_one(workbench, contender, opened, name, retrained), 1):
            if (name, number) in wanted:
                yield wanted[name, number], row


@dataclass(frozen=True)
class Rehearsed:
    """What all policies start with: the trained model with c, and the seconds that c cost."""

    model: TrainedModel
    seconds: float


def _open(workbench: Workbench, contender: Contender, law: str, seed: int) -> Rehearsed:
    data, entry = workbench.data, workbench.data.entry
    test = Rows(data.X_test, np.asarray(data.y_test), entry.intercept, workbench.loss)
    method = workbench.method(contender, 0.0)
    state = workbench.trained_by(contender, 0.0, seed)
    right = correct(state.weights, test)
    rng = generator("rehearsal", workbench.name, law, seed)
    start = perf_counter()
    baseline = rehearse(
        method,
        state,
        workbench.engine,
        test,
        right,
        rng,
        theta=entry.theta,
        target=entry.target,
    )
    seconds = perf_counter() - start
    model = TrainedModel(
        method=method,
        data=workbench.engine,
        test=TestScores(test),
        class_names=[str(c) for c in range(workbench.data.k)],
        state=state,
        baseline=baseline,
        initially_correct=right,
    )
    return Rehearsed(model, seconds)


def _retrain(workbench: Workbench, deletion: Deletion) -> Retrained:
    rng = generator("stream", workbench.name, deletion.law, deletion.fraction, deletion.seed)
    start = perf_counter()
    weights = workbench.sgd().optimum(workbench.without(deletion), rng)
    return Retrained(deletion, weights, perf_counter() - start)


def _one(
    workbench: Workbench,
    contender: Contender,
    opened: Rehearsed,
    name: str,
    retrained: Sequence[Retrained],
) -> Iterator[dict[str, Any]]:
    """One policy over the whole stream.

    It pays for what it does: unlearning, evaluating and preparing for the next batch, retraining,
    and the rehearsal if it goes by a threshold. Always retraining pays for retraining alone. What
    the paper's policies do not look at is measured for others only.
    """
    policy, data, method = policy_of(name), workbench.engine.shared(), opened.model.method
    rng = generator("stream", workbench.name, name, retrained[0].deletion.seed)
    model = replace(opened.model, data=data, state=method.prepare(opened.model.state, data))
    test, gone = model.test, np.zeros(0, np.int64)
    everyone = np.arange(len(test.rows))
    cost = opened.seconds if isinstance(policy, Disparity) else 0.0
    early = retrained[0].deletion.rows  # once off the clock: the first call loads its kernels
    step(model, early, everyone, rng)
    log_loss_change = 0.0
    for after in retrained:
        batch = after.deletion.rows[len(gone) :]
        gone = after.deletion.rows
        start = perf_counter()
        done = step(model, batch, everyone, rng)
        if not isinstance(policy, Disparity | Always | Never):
            done = measured(done, model, batch, everyone, since=log_loss_change)
            log_loss_change = done.facts.log_loss_change or 0.0
        unlearning = perf_counter() - start
        verdict = decide(policy, done.facts)
        data.forget(batch)
        updated, state = done.state.weights, done.state
        if verdict.retrain:
            state = State(contender.name, after.weights, data.n_remaining)
            right = test.correct(state.weights)
            baseline = replace(model.baseline, rows=data.n_remaining, accuracy=float(right.mean()))
            model = replace(model, initially_correct=right, baseline=baseline)
            log_loss_change = 0.0
        start = perf_counter()
        state = method.prepare(state, data)
        preparing = perf_counter() - start
        model = replace(model, state=state)
        cost += after.seconds if verdict.retrain else 0.0
        cost += 0.0 if isinstance(policy, Always) else unlearning + preparing
        best, now = workbench.accuracy(after.weights), workbench.accuracy(state.weights)
        yield {
            "deleted": len(gone),
            "retrained": bool(verdict.retrain),
            "seconds_unlearn": unlearning,
            "seconds_prepare": preparing,
            "seconds_retrain_sgd": after.seconds,
            "seconds_rehearsal": opened.seconds,
            "seconds_total": cost,
            "acc_test_unlearned": workbench.accuracy(updated),
            "acc_test_employed": now,
            "acc_test_retrained": best,
            "acc_err": accuracy_error(best, now),
            "acc_err_init": done.facts.acc_err_init,
            "acc_dis": accuracy_disparity(
                workbench.accuracy_deleted(after.weights, after.deletion),
                workbench.accuracy_deleted(updated, after.deletion),
            ),
            "estimate": done.facts.estimate,
            "slope": model.baseline.slope,
            "seconds_spent": after.seconds + unlearning + preparing,
        }
