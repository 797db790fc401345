"""The pipeline over time: a stream of deletion batches under several policies.

One process, alone: every batch is retrained once by SGD (that is what always-retraining costs, and
the model that disparity is measured against); then each policy unlearns it, is told what the
pipeline would tell it, and decides. The steps and the decision are those that the workspace uses. A
policy that retrains now and then does so by Newton's method from the weights at hand, and its
rehearsal is one unlearning and one such retraining. What answers batches: experiments.unlearners.
`refit` unlearns nothing: every batch is answered by scikit-learn's lbfgs, started from the weights
before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from unfit.core.metrics import accuracy_disparity, accuracy_error
from unfit.core.objective import Rows
from unfit.engines.base import Engine
from unfit.experiments.randomness import generator
from unfit.experiments.run import Run
from unfit.experiments.unlearners import REFIT_TOL, Unlearner, mean_gradient, unlearner_of
from unfit.experiments.workbench import Deletion, Workbench
from unfit.lifecycle.drift import measured
from unfit.lifecycle.pipeline import Baseline, TestScores, TrainedModel, correct, rehearse, step
from unfit.lifecycle.policies import POLICIES, Always, Disparity, Never
from unfit.lifecycle.policy import Facts, Policy, decide
from unfit.methods import METHODS, Settings, State
from unfit.methods.minimum import minimize


@dataclass(frozen=True)
class Retrained:
    """The model retrained after a batch, and how long it took."""

    deletion: Deletion
    weights: np.ndarray
    seconds: float


REFIT = "refit"  # not a policy of ours: scikit-learn's lbfgs, warm, at every batch


def policy_of(name: str) -> Policy:
    """A registered policy by its name, or a threshold of the estimated disparity, such as `5%`."""
    return Disparity(float(name[:-1])) if name.endswith("%") else POLICIES.find(name)()


def streams(workbench: Workbench, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Runs of one law and seed: policies x steps; a run's fraction is what is gone by then."""
    unlearner = unlearner_of(workbench, runs[0].method)
    law, seed = runs[0].law, runs[0].seed
    fractions = sorted({run.fraction for run in runs})
    wanted = {(run.policy, run.step): run for run in runs}
    opened = open_stream(workbench, unlearner, law, seed)
    retrained = [
        retrained_by_sgd(workbench, workbench.deletion(law, fraction, seed))
        for fraction in fractions
    ]
    for name in dict.fromkeys(run.policy for run in runs):
        rows = (
            refits(workbench, opened, retrained)
            if name == REFIT
            else under_policy(workbench, unlearner, opened, name, retrained)
        )
        for number, row in enumerate(rows, 1):
            if (name, number) in wanted:
                yield wanted[name, number], row


@dataclass(frozen=True)
class Rehearsed:
    """What all policies start with: the trained model with c, and the seconds that c cost."""

    model: TrainedModel
    seconds: float


def open_stream(workbench: Workbench, unlearner: Unlearner, law: str, seed: int) -> Rehearsed:
    """The model as SGD trains it, and c. It is rehearsed twice: the first time loads kernels."""
    data, entry, method = workbench.data, workbench.data.entry, unlearner.method
    test = Rows(data.X_test, np.asarray(data.y_test), entry.intercept, workbench.loss)
    state = State(method.name, workbench.initial(seed), workbench.engine.n_remaining)
    right = correct(state.weights, test)

    def rehearsed() -> tuple[Baseline, float]:
        rng = generator("rehearsal", workbench.name, law, seed)
        start = perf_counter()
        ready = unlearner.prepared(state, workbench.engine)
        baseline = rehearse(
            method,
            ready,
            workbench.engine,
            test,
            right,
            rng,
            theta=entry.theta,
            target=entry.target,
            retrain=lambda left: _newton(left, ready, unlearner.tol),
        )
        return baseline, perf_counter() - start

    rehearsed()
    baseline, seconds = rehearsed()
    model = TrainedModel(
        method=method,
        data=workbench.engine,
        test=TestScores(test),
        class_names=[str(c) for c in range(workbench.data.k)],
        state=state,
        baseline=baseline,
        initially_correct=right,
    )
    return Rehearsed(model, seconds + unlearner.seconds)


def _newton(data: Engine, state: State, tol: float) -> np.ndarray:
    """Retrained on the rows that remain, from the weights of a state, guided by what it keeps."""
    guide = None if state.running_guide is None else state.running_guide.made
    objective = METHODS["retrain"](Settings(tol=tol)).objective(data)
    return minimize(objective, tol, start=state.weights, near=False, guide=guide).weights


def retrained_by_sgd(workbench: Workbench, deletion: Deletion) -> Retrained:
    rng = generator("stream", workbench.name, deletion.law, deletion.fraction, deletion.seed)
    start = perf_counter()
    weights = workbench.sgd().optimum(workbench.without(deletion), rng)
    return Retrained(deletion, weights, perf_counter() - start)


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """A batch under a policy: what was known and decided, the weights, and seconds.

    updated: weights (k, d) as unlearning left them; weights: those that are employed then.
    """

    facts: Facts
    slope: float
    updated: np.ndarray
    weights: np.ndarray
    retrained: bool
    unlearning: float
    preparing: float
    retraining: float


def under_policy(
    workbench: Workbench,
    unlearner: Unlearner,
    opened: Rehearsed,
    name: str,
    retrained: Sequence[Retrained],
) -> Iterator[dict[str, Any]]:
    """One policy over the whole stream, batch after batch, which is scored when it has ended: to
    read rows for scores in between would take them out of the caches.

    It pays for what it does: preparing, unlearning, evaluating, retraining, and the rehearsal if it
    goes by a threshold. Always retraining pays for retraining alone. What
    the paper's policies do not look at is measured for others only.
    """
    policy = policy_of(name)
    cost = opened.seconds if isinstance(policy, Disparity) else 0.0
    answers = list(_answers(workbench, unlearner, opened, name, retrained))
    for after, answer in zip(retrained, answers, strict=True):
        cost += answer.retraining
        cost += 0.0 if isinstance(policy, Always) else answer.unlearning + answer.preparing
        best, now = workbench.accuracy(after.weights), workbench.accuracy(answer.weights)
        yield {
            "deleted": len(after.deletion.rows),
            "retrained": answer.retrained,
            "seconds_unlearn": answer.unlearning,
            "seconds_prepare": answer.preparing,
            "seconds_retrain_sgd": after.seconds,
            "seconds_retrain": answer.retraining,
            "seconds_rehearsal": opened.seconds,
            "seconds_total": cost,
            "acc_test_unlearned": workbench.accuracy(answer.updated),
            "acc_test_employed": now,
            "acc_test_retrained": best,
            "acc_err": accuracy_error(best, now),
            "acc_err_init": answer.facts.acc_err_init,
            "acc_dis": accuracy_disparity(
                workbench.accuracy_deleted(after.weights, after.deletion),
                workbench.accuracy_deleted(answer.updated, after.deletion),
            ),
            "estimate": answer.facts.estimate,
            "slope": answer.slope,
            "residual": mean_gradient(workbench.without(after.deletion), answer.weights),
            "seconds_spent": after.seconds + answer.unlearning + answer.preparing,
        }


def _answers(
    workbench: Workbench,
    unlearner: Unlearner,
    opened: Rehearsed,
    name: str,
    retrained: Sequence[Retrained],
) -> Iterator[_Answered]:
    policy, data = policy_of(name), workbench.engine.shared()
    everyone = np.arange(len(opened.model.test.rows))
    rng = generator("stream", workbench.name, name, retrained[0].deletion.seed)
    start = perf_counter()
    model = replace(opened.model, data=data, state=unlearner.prepared(opened.model.state, data))
    # whoever goes by a threshold has rehearsed, and was prepared for that
    opening = 0.0 if isinstance(policy, Disparity) else perf_counter() - start
    test, gone = model.test, 0
    _loaded(model, retrained, everyone, rng)
    log_loss_change = 0.0
    for after in retrained:
        batch, gone = after.deletion.rows[gone:], len(after.deletion.rows)
        start = perf_counter()
        done = step(model, batch, everyone, rng)
        if not isinstance(policy, Disparity | Always | Never):
            done = measured(done, model, batch, everyone, since=log_loss_change)
            log_loss_change = done.facts.log_loss_change or 0.0
        unlearning = perf_counter() - start
        verdict = decide(policy, done.facts)
        data.forget(batch)
        state, retraining = done.state, 0.0
        if verdict.retrain:
            weights, retraining = after.weights, after.seconds
            if not isinstance(policy, Always):
                start = perf_counter()
                weights = _newton(data, state, unlearner.tol)
                retraining = perf_counter() - start
            state = _retrained(state, weights)
            right = test.correct(state.weights)
            baseline = replace(model.baseline, rows=data.n_remaining, accuracy=float(right.mean()))
            model = replace(model, initially_correct=right, baseline=baseline)
            log_loss_change = 0.0
        start = perf_counter()
        state = unlearner.prepared(state, data)
        preparing, opening = perf_counter() - start + opening, 0.0
        model = replace(model, state=state)
        yield _Answered(
            facts=done.facts,
            slope=model.baseline.slope,
            updated=done.state.weights,
            weights=state.weights,
            retrained=bool(verdict.retrain),
            unlearning=unlearning,
            preparing=preparing,
            retraining=retraining,
        )


def _retrained(state: State, weights: np.ndarray) -> State:
    """The state with the weights of a retraining. Sums and guides that a stream goes by are kept:
    steps from their point lead to the optimum of what remains, wherever the weights are."""
    if state.stream is not None and state.stream.leads:
        return replace(state, weights=weights)
    known = state.running_guide
    known = None if known is None else known.unseen()
    return State(state.method, weights, state.n, running_guide=known)


def _loaded(
    model: TrainedModel,
    retrained: Sequence[Retrained],
    everyone: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Two batches off the clock: the first calls load their kernels. Nothing is changed, and what
    they computed is not at hand afterwards."""
    data, gone = model.data.shared(), 0
    model = replace(model, test=TestScores(model.test.rows))
    for after in retrained[:2]:
        batch = after.deletion.rows[gone:]
        done = step(replace(model, data=data), batch, everyone, rng)
        data.forget(batch)
        model, gone = replace(model, state=done.state), gone + len(batch)


def refits(
    workbench: Workbench,
    opened: Rehearsed,
    retrained: Sequence[Retrained],
    tol: float = REFIT_TOL,
) -> Iterator[dict[str, Any]]:
    """Every batch answered by a refit of scikit-learn's, each problem from its weights before.

    What is counted is fitting alone: to take the rows out is off the clock. A problem one side of
    which has no rows left cannot be fitted there, and keeps its weights.
    """
    from sklearn.linear_model import LogisticRegression

    data = workbench.engine.shared()
    l2, weights, cost, gone = Settings().l2, opened.model.state.weights, 0.0, 0
    models = []
    for w in weights:
        one = LogisticRegression(tol=tol, max_iter=10_000, fit_intercept=False, warm_start=True)
        one.coef_, one.intercept_, one.classes_ = w[None], np.zeros(1), np.array([0, 1])
        models.append(one)
    for after in retrained:
        data.forget(after.deletion.rows[gone:])
        gone = len(after.deletion.rows)
        rows = data.take(data.remaining)
        X = (
            np.column_stack([rows.X, np.ones(len(rows), rows.X.dtype)])
            if rows.intercept
            else rows.X
        )
        targets = rows.targets(data.k).astype(np.int64)
        start = perf_counter()
        for c, one in enumerate(models):
            if 0 < np.count_nonzero(targets[:, c]) < len(rows):
                one.set_params(C=1 / (l2 * len(rows))).fit(X, targets[:, c])
        seconds = perf_counter() - start
        cost += seconds
        weights = np.array([one.coef_[0] for one in models])
        yield _refitted(workbench, opened, after, weights, {"cost": cost, "seconds": seconds})


def _refitted(
    workbench: Workbench,
    opened: Rehearsed,
    after: Retrained,
    weights: np.ndarray,
    took: dict[str, float],
) -> dict[str, Any]:
    """The row of a refit, in the words of the other policies; what it has not is 0."""
    best, now = workbench.accuracy(after.weights), workbench.accuracy(weights)
    deleted = (workbench.accuracy_deleted(w, after.deletion) for w in (after.weights, weights))
    return {
        "deleted": len(after.deletion.rows),
        "retrained": True,
        "seconds_unlearn": 0.0,
        "seconds_prepare": 0.0,
        "seconds_retrain_sgd": after.seconds,
        "seconds_retrain": took["seconds"],
        "seconds_rehearsal": 0.0,
        "seconds_total": took["cost"],
        "acc_test_unlearned": now,
        "acc_test_employed": now,
        "acc_test_retrained": best,
        "acc_err": accuracy_error(best, now),
        "acc_err_init": 0.0,
        "acc_dis": accuracy_disparity(*deleted),
        "estimate": 0.0,
        "slope": opened.model.baseline.slope,
        "residual": mean_gradient(workbench.without(after.deletion), weights),
        "seconds_spent": after.seconds + took["seconds"],
    }
