"""What it leads to that rows leave a model: unlearn, evaluate, decide, write the new files aside.

Nothing here changes what is active: that is the commit's, in erasure.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from unfit.certify import Ready
from unfit.certify.agreement import agreement, largest_disparity
from unfit.certify.polishing import stated
from unfit.errors import CannotTrain, Unavailable
from unfit.lifecycle import drift, pipeline
from unfit.lifecycle.policy import Action, Facts, Verdict, decide
from unfit.methods import State
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.stopwatch import Stopwatch
from unfit.store.records import Decision, HeldOut, NewVersion, Version
from unfit.workspace import retraining
from unfit.workspace.certification import Release, joint_mu_with
from unfit.workspace.constants import Changes
from unfit.workspace.model import Model, model_arrays, subjects_left
from unfit.workspace.session import Session


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """What a batch of requests leads to.

    new: the version to activate; None if the active one stays, with `changes_to_active`.
    release: of the new version, where it is certified.
    model_after: called after the commit, for the model as it is then; None if there is none.
    """

    new: NewVersion | None = None
    decision: Decision | None = None
    release: Release | None = None
    model_after: Callable[[], Model | None] = lambda: None
    changes_to_active: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agreement(self) -> float | None:
        """Of a new version; see store.records.HeldOut."""
        held_out = None if self.new is None else self.new.held_out
        return None if held_out is None else held_out.agreement


@dataclass(frozen=True)
class Evaluation:
    """The model without the rows, and what the policy says of it."""

    step: pipeline.Step
    verdict: Verdict
    ready: Ready | None = None  # to be released, where the model is certified


@dataclass(frozen=True, kw_only=True)
class Unlearning:
    """Rows that leave a model. positions: of all of them, whether trained on or held out."""

    session: Session
    before: Version
    model: Model
    positions: np.ndarray
    watch: Stopwatch

    @cached_property
    def leaving(self) -> np.ndarray:
        """The training rows among them."""
        return self.model.training_rows(self.positions)

    @property
    def number(self) -> int:
        """Of the version that a commit makes."""
        return self.before.number + 1

    def outcome(self, progress: ProgressCallback | None) -> BatchResult:
        """Unlearn and decide; write the files of the new version."""
        if len(self.leaving) == 0:
            return self._only_held_out()
        found = self.evaluate(self.session.rng(self.number))
        reach("forget.unlearned")
        with self.watch.phase("write"):
            until = self.session.retention.retain(self.number, self.model.dataset, self.leaving)
        reach("forget.retained")
        if found.verdict.retrain:
            return self._retrained(found, until, progress)
        return self._updated(found, until, found.verdict.reason)

    def foresee(self, rng: np.random.Generator) -> tuple[Evaluation, Action, str]:
        """What `outcome` would decide, and why, as far as that is known before a training."""
        found = self.evaluate(rng)
        if not found.verdict.retrain:
            return found, "update", found.verdict.reason
        try:
            retraining.rows_to_train(self.session, self.model.dataset, self._live_after())
        except CannotTrain as failure:
            action: Action = "update" if found.step.unlearned else "withdraw"
            return found, action, _not_retrained(found, failure)
        return found, "retrain", found.verdict.reason

    def evaluate(self, rng: np.random.Generator) -> Evaluation:
        """Unlearn and ask the policy. Changes nothing."""
        with self.watch.phase("evaluate"):
            return self._evaluate(rng)

    def _evaluate(self, rng: np.random.Generator) -> Evaluation:
        model, leaving = self.model, self.leaving
        held_out = model.test_positions(self.positions)
        if len(held_out) == 0:
            return self._not_unlearned("no held-out row is left to measure accuracy on")
        try:
            now, ready = model.for_pipeline(), None
            step = pipeline.step(now, leaving, held_out, rng, self.watch.phase)
            if step.unlearned and len(leaving):
                ready = self._polished(step.state)
                step, distance = self._certified(step, ready)
                seen = self.before.held_out
                since = 0.0 if seen is None else seen.log_loss_change or 0.0
                found = leaving, held_out
                step = drift.measured(step, now, *found, since=since, distance=distance)
        except (FloatingPointError, np.linalg.LinAlgError, Unavailable) as error:
            return self._not_unlearned(f"unlearning failed ({error}), so the model is retrained")
        mini_batch = model.method.settings.deletion_batch_size or max(1, len(leaving))
        self.watch.steps = -(-len(leaving) // mini_batch)
        verdict = decide(self.session.policy, step.facts)
        verdict = _with_constants(verdict, model.constants_without(self.positions))
        return Evaluation(step, verdict, ready)

    def _polished(self, state: State) -> Ready | None:
        """The updated weights, near enough to the optimum for a certificate; None without one."""
        if self.model.releases is None:
            return None
        with self.watch.phase("certify"):
            return self.model.releases.polish(
                self.model.state, state, self.model.data, self.leaving
            )

    def _certified(
        self, step: pipeline.Step, ready: Ready | None
    ) -> tuple[pipeline.Step, float | None]:
        """The step at the polished weights, with what is known of them; and how far they may be
        from a retraining's, as a share of their length. That is what the certificate allows: what
        they came to is for its annex alone. It is rounded up to a power of two, because it would
        tell their length before noise. Noise comes later: no decision may depend on it."""
        if ready is None:
            return step, None
        centre, distance = ready.ball
        gone = self.model.data.take(self.leaving)
        disparity = largest_disparity(gone, centre, distance)
        if disparity and len(gone) < self.session.config.preprocessing.min_rows:
            disparity = None  # of so few rows it would tell which label they had, for good
        facts = replace(
            step.facts,
            disparity=disparity,
            joint_mu=joint_mu_with(self.session, ready.releases.certifier.promise),
        )
        share = distance / (float(np.linalg.norm(centre)) or 1.0)
        rounded = stated(2.0 ** math.ceil(math.log2(share)))
        return replace(step, state=ready.state, facts=facts), rounded

    def _not_unlearned(self, reason: str) -> Evaluation:
        rows = self.model.baseline.rows
        gone = rows - self.model.data.n_remaining + len(self.leaving)
        facts = Facts(rows=rows, deleted=gone)
        step = pipeline.Step(self.model.state, facts, unlearned=False)
        return Evaluation(step, Verdict(True, reason))

    # --- what it may lead to --------------------------------------------------------------------

    def _only_held_out(self) -> BatchResult:
        """The version stays; its file loses what it says of these rows, if there are any."""
        model, positions = self.model, self.positions

        def model_after() -> Model:
            model.forget(positions)
            return model

        if len(positions) == 0:
            return BatchResult(model_after=model_after)
        left = model.test_positions(positions)
        found = drift.held_out_quality(model.state.weights, model.test, left)
        correct = model.correct_without(positions)
        seen = self.before.held_out
        held_out = HeldOut(
            majority=found.majority,
            log_loss=found.log_loss,
            auc=found.auc,
            initial_accuracy=float(model.initially_correct[left].mean()) if len(left) else None,
            log_loss_change=None if seen is None else seen.log_loss_change,
        )
        changes = {
            "model_sha": self.session.artifacts.put_arrays(model_arrays(model.state, correct)),
            "subjects": model.subjects_without(positions),
            "accuracy": found.accuracy,
            "held_out": held_out,
        }
        return BatchResult(model_after=model_after, changes_to_active=changes)

    def _updated(self, found: Evaluation, until: datetime | None, reason: str) -> BatchResult:
        """The model that has unlearned the rows."""
        model, positions, before = self.model, self.positions, self.before
        artifacts, ready, facts = self.session.artifacts, found.ready, found.step.facts
        state = found.step.state if ready is None else ready.released()
        shown = facts if ready is None else self._released_facts(facts, state)
        certain = None if ready is None else self._agreement(state, ready)
        with self.watch.phase("write"):
            correct = model.correct_without(positions)
            model_sha = artifacts.put_arrays(model_arrays(state, correct))
            card, card_sha = model.card_without(positions), before.card_sha
            if card != model.card:
                card_sha = artifacts.put_json(card.to_json())
        reach("forget.artifacts-written")

        def model_after() -> Model:
            model.forget(positions, state, None if ready is None else ready.releases)
            return model

        new = NewVersion(
            kind="updated",
            method=before.method,
            generation=before.generation,
            model_sha=model_sha,
            card_sha=card_sha,
            retained_until=until,
            rows=state.n,
            subjects=model.subjects_without(positions),
            deleted=len(self.leaving),
            accuracy=shown.accuracy,
            seconds=self.watch.seconds,
            baseline=before.baseline,
            times=self.watch.times(),
            held_out=HeldOut(
                majority=shown.majority,
                log_loss=shown.log_loss,
                auc=shown.auc,
                initial_accuracy=shown.initial_accuracy,
                log_loss_change=shown.log_loss_change,
                agreement=certain,
            ),
        )
        release = None if ready is None else Release.of(card, ready, state, trained=False)
        return BatchResult(
            new=new,
            decision=self._decision("update", reason, facts),
            release=release,
            model_after=model_after,
        )

    def _agreement(self, state: State, ready: Ready) -> float | None:
        """The share of held-out rows whose label is certain to be that of a retraining."""
        left = self.model.test_positions(self.positions)
        rows = self.model.test_rows().take(left)
        return agreement(rows, state.weights, *ready.ball)

    def _released_facts(self, facts: Facts, state: State) -> Facts:
        """The same of the weights as they are released, which people are shown."""
        left = self.model.test_positions(self.positions)
        found = drift.held_out_quality(state.weights, self.model.test, left)
        return replace(facts, accuracy=found.accuracy, log_loss=found.log_loss, auc=found.auc)

    def _retrained(
        self, found: Evaluation, until: datetime | None, progress: ProgressCallback | None
    ) -> BatchResult:
        """A model trained on what remains. If none can be trained, the erasure goes on all the
        same: the updated model is taken, or else the model is withdrawn."""
        step, reason = found.step, found.verdict.reason
        live = self._live_after()
        training = retraining.begin(self.session, self.watch, progress)
        try:
            made = retraining.retrain_rows(
                training, self.model.dataset, live, deleted=len(self.leaving)
            )
        except CannotTrain as failure:
            reason = _not_retrained(found, failure)
            if step.unlearned:
                return self._updated(found, until, reason)
            return BatchResult(
                new=self._withdrawn(live, until),
                decision=self._decision("withdraw", reason, step.facts),
            )
        return BatchResult(
            new=replace(made.new, retained_until=until),
            decision=self._decision("retrain", reason, step.facts),
            release=made.release,
            model_after=lambda: made.model,
        )

    def _live_after(self) -> np.ndarray:
        """Which rows remain without those that leave, of training and held-out ones."""
        live = self.model.live.copy()
        live[self.positions] = False
        return live

    def _withdrawn(self, live: np.ndarray, until: datetime | None) -> NewVersion:
        """A version without a model."""
        dataset, before = self.model.dataset, self.before
        return NewVersion(
            kind="withdrawn",
            method=before.method,
            generation=before.generation,
            retained_until=until,
            rows=int(live[: dataset.n_train].sum()),
            subjects=len(np.unique(dataset["subjects"][live])),
            deleted=len(self.leaving),
            seconds=self.watch.seconds,
            baseline=before.baseline,
            times=self.watch.times(),
        )

    def _decision(self, action: Action, reason: str, facts: Facts) -> Decision:
        return Decision(
            version=self.number,
            at=self.session.clock(),
            action=action,
            reason=reason,
            inputs=facts.as_dict(),
            estimate=facts.estimate if facts.disparity is None else facts.disparity,
            threshold=self.session.config.policy.disparity,
        )


def without_model(session: Session, positions: np.ndarray) -> BatchResult:
    """Rows leave a workspace whose model was withdrawn: there is nothing to unlearn."""
    dataset, live = session.dataset(), session.live().copy()
    live[positions] = False
    changes = {
        "rows": int(live[: dataset.n_train].sum()),
        "subjects": subjects_left(dataset, live, positions),
    }
    return BatchResult(changes_to_active=changes)


def _not_retrained(found: Evaluation, failure: CannotTrain) -> str:
    return f"{found.verdict.reason}; but no model can be trained: {failure}"


def _with_constants(verdict: Verdict, found: Changes) -> Verdict:
    """Constants that changed leave no choice."""
    if not found.due:
        return verdict
    reasons = [found.reason, *([verdict.reason] if verdict.retrain else [])]
    return Verdict(True, "; ".join(reasons))
