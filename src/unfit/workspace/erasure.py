"""Applying requests: resolve, unlearn, evaluate, decide, commit. The writer's lock is held.

All that wait are taken together. Everything is worked out and written aside first; the commit is
one transaction, and what comes after it can be repeated.
"""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from unfit.data.dataset import Dataset
from unfit.errors import CannotTrain, Unavailable
from unfit.lifecycle import drift, pipeline
from unfit.lifecycle.policy import Action, Facts, Verdict, decide
from unfit.methods import State
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.store.records import Applied, Decision, HeldOut, NewVersion, Version
from unfit.store.requests import RESTORED
from unfit.workspace import audit, constants, training
from unfit.workspace.deletion_list import REMEDY
from unfit.workspace.list_format import Content, Position
from unfit.workspace.model import Card, Model, model_arrays
from unfit.workspace.requests import Ids, Selection, all_ids, resolve
from unfit.workspace.session import Session
from unfit.workspace.stopwatch import Stopwatch
from unfit.workspace.training import Fresh

log = logging.getLogger("unfit")


@dataclass(frozen=True)
class Outcome:
    """What a batch leads to: the version to employ (None: the same one), why, and its rows."""

    new: NewVersion | None
    why: Decision | None
    model: Callable[[Version], Model | None]
    kept: Mapping[str, Any] = field(default_factory=dict)  # new facts of the same version


@dataclass(frozen=True)
class Batch:
    """What was applied together: each request's outcomes by its key, the version, the decision."""

    outcomes: Mapping[str, Sequence[tuple[str, int]]]
    version: int
    why: Decision | None
    seconds: float = 0.0  # to the commit
    purge_seconds: float | None = None  # after it; None where the purge comes later


def resolve_ids(session: Session, ids: Ids) -> Selection:
    return resolve(ids, session.dataset(), session.store, session.live())


def apply_pending(
    session: Session,
    progress: ProgressCallback | None = None,
    known: Position | None = None,
    listed: Ids = (),
) -> Batch:
    """Apply every request that waits, together.

    known: how far the deletion list is applied when they are; by default, as far as it was.
    listed: ids that are on it already.
    """
    known = known or session.known
    assert known is not None  # whoever holds the lock has caught up with the list
    requests = session.store.requests.find(state="pending")
    if not requests:
        return Batch({}, 0, None)
    watch = Stopwatch()
    reach("forget.taken")
    before = session.require_version()
    model = None if before.model_sha is None else _ready(session, watch)
    items, ids = all_ids(requests)
    with watch.phase("resolve"):
        selection = resolve_ids(session, ids)
        numbers = session.dataset()["numbers"][selection.positions].tolist()
    outcome = _outcome(session, model, selection.positions, watch, progress)

    settled = [(item, said, n) for item, (said, n) in zip(items, selection.outcomes, strict=True)]
    applied = Applied(
        requests=[r.id for r in requests],
        outcomes=settled,
        rows=numbers,
        digests=selection.digests,
        kept=outcome.kept,
    )
    unlisted = set(selection.ids).difference(listed)
    change = before, outcome.new, outcome.why, applied
    with watch.phase("commit"), session.store.committing(*change, session.clock()) as commit:
        if unlisted:  # nobody is listed whose request may still be refused
            ids = [pair for pair in selection.ids if pair in unlisted]
            known = session.deletions.append(ids, known)
        reach("forget.listed")
        commit.list_known = str(known)
    version = commit.version
    watch.stop()
    session.now_known(known)
    reach("forget.committed")
    session.activate(version, outcome.model(version), None if outcome.new is None else watch)
    each = iter(selection.outcomes)
    by_key = {r.key: [next(each) for _ in r.items] for r in requests}
    return Batch(by_key, version.number, outcome.why, watch.seconds, session.purge_seconds)


def _ready(session: Session, watch: Stopwatch) -> Model:
    """The employed version, able to unlearn; opening it is counted, the kernels are not."""
    with watch.phase("open"):
        model = session.open_model()
        watch.get_kernels_ready(model.method, model.data)
        watch.count_rows(model.method, model.data)
        return session.ready_model()


def _outcome(
    session: Session, model: Model | None, positions: np.ndarray, watch: Stopwatch,
    progress: ProgressCallback | None,
) -> Outcome:  # fmt: skip
    if model is None:  # the model was withdrawn: rows go, and there is nothing to unlearn
        left = _subjects_left(session.dataset(), session.live(), positions)
        return Outcome(None, None, lambda _: None, {"subjects": left})
    leaving = positions[positions < model.dataset.n_train]
    if len(leaving) == 0:  # only held-out rows go, if any
        kept = _without_held_out(session, model, positions) if len(positions) else {}
        return Outcome(None, None, lambda v: _moved(model, positions, v), kept)
    number = model.version.number + 1
    step, verdict = evaluate(session, model, positions, session.rng(number), watch)
    reach("forget.unlearned")
    with watch.phase("write"):
        until = _retain(session, model, leaving, number)
    reach("forget.retained")

    def why(action: Action, reason: str) -> Decision:
        return Decision(
            version=number,
            at=session.clock(),
            action=action,
            reason=reason,
            inputs=step.facts.as_dict(),
            estimate=step.facts.estimate,
            threshold=session.config.policy.disparity,
        )

    def updated(reason: str) -> Outcome:
        new = _updated(session, model, positions, step, until, watch)
        return Outcome(
            new, why("update", reason), lambda v: _moved(model, positions, v, step.state)
        )

    if not verdict.retrain:
        return updated(verdict.reason)
    live = model.live.copy()
    live[positions] = False
    reach("retrain.start")
    try:
        new, fresh = retrained(session, model.dataset, live, len(leaving), watch, progress)
    except CannotTrain as failure:  # an erasure cannot be refused for it
        said = f"{verdict.reason}; but no model can be trained: {failure}"
        if step.unlearned:
            return updated(said)
        withdrawn = _withdrawn(model, live, len(leaving), until, watch)
        return Outcome(withdrawn, why("withdraw", said), lambda _: None)
    new = replace(new, retained_until=until)
    return Outcome(new, why("retrain", verdict.reason), fresh.employed)


def _without_held_out(session: Session, model: Model, positions: np.ndarray) -> dict[str, Any]:
    """The model stays; its file loses what it says of these rows."""
    left = model.test_positions(positions)
    found = drift.held_out_quality(model.state.weights, model.test_rows().take(left))
    correct = _correct_without(model, positions)
    before = model.version.held_out
    seen = HeldOut(
        majority=found.majority,
        log_loss=found.log_loss,
        auc=found.auc,
        initial_accuracy=float(model.initially_correct[left].mean()) if len(left) else None,
        log_loss_change=None if before is None else before.log_loss_change,
    )
    return {
        "model_sha": session.artifacts.put_arrays(model_arrays(model.state, correct)),
        "subjects": _subjects_left(model.dataset, model.live, positions),
        "accuracy": found.accuracy,
        "held_out": seen,
    }


def evaluate(
    session: Session, model: Model, positions: np.ndarray, rng: np.random.Generator,
    watch: Stopwatch,
) -> tuple[pipeline.Step, Verdict]:  # fmt: skip
    """Unlearn and say what the policy makes of it. Changes nothing."""
    with watch.phase("evaluate"):
        return _evaluated(session, model, positions, rng, watch)


def _evaluated(
    session: Session, model: Model, positions: np.ndarray, rng: np.random.Generator,
    watch: Stopwatch,
) -> tuple[pipeline.Step, Verdict]:  # fmt: skip
    held_out = model.test_positions(positions)
    leaving = positions[positions < model.dataset.n_train]
    if len(held_out) == 0:
        facts = Facts(rows=model.baseline.rows, deleted=len(leaving))
        return pipeline.Step(model.state, facts, unlearned=False), Verdict(
            True, "no held-out row is left to measure accuracy on"
        )
    try:
        step = pipeline.step(
            model.method, model.state, model.data, leaving, model.test_rows(), held_out,
            model.initially_correct, model.baseline, list(model.card.classes), rng, watch.phase,
        )  # fmt: skip
        if step.unlearned and len(leaving):
            left = model.test_rows().take(held_out)
            seen = model.version.held_out
            since = 0.0 if seen is None else seen.log_loss_change or 0.0
            step = drift.measured(step, model.state, model.method, model.data, leaving, left, since)
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        facts = Facts(rows=model.baseline.rows, deleted=len(leaving))
        reason = f"unlearning failed ({error}), so the model is retrained"
        return pipeline.Step(model.state, facts, unlearned=False), Verdict(True, reason)
    batch = model.method.settings.deletion_batch_size or max(1, len(leaving))
    watch.steps = -(-len(leaving) // batch)
    verdict = decide(session.config.policy.policy(), step.facts)
    return step, _with_constants(verdict, constants.changes(model, positions))


def _with_constants(verdict: Verdict, found: constants.Changes) -> Verdict:
    """Constants that changed leave no choice."""
    if not found.due:
        return verdict
    reasons = [found.reason, *([verdict.reason] if verdict.retrain else [])]
    return Verdict(True, "; ".join(reasons))


def _updated(
    session: Session, model: Model, positions: np.ndarray, step: pipeline.Step,
    until: datetime | None, watch: Stopwatch,
) -> NewVersion:  # fmt: skip
    with watch.phase("write"):
        correct = _correct_without(model, positions)
        sha = session.artifacts.put_arrays(model_arrays(step.state, correct))
        card, card_sha = _card_without(model, positions), model.version.card_sha
        if card != model.card:
            card_sha = session.artifacts.put_json(card.to_json())
    reach("forget.artifacts-written")
    v, n = model.version, model.dataset.n_train
    return NewVersion(
        kind="updated",
        method=v.method,
        generation=v.generation,
        model_sha=sha,
        card_sha=card_sha,
        retained_until=until,
        rows=step.state.n,
        subjects=_subjects_left(model.dataset, model.live, positions),
        deleted=int((positions < n).sum()),
        accuracy=step.facts.accuracy,
        seconds=watch.seconds,
        baseline=v.baseline,
        times=watch.times(),
        held_out=_seen(step.facts),
    )


def _seen(facts: Facts) -> HeldOut:
    return HeldOut(
        majority=facts.majority,
        log_loss=facts.log_loss,
        auc=facts.auc,
        initial_accuracy=facts.initial_accuracy,
        log_loss_change=facts.log_loss_change,
    )


def _card_without(model: Model, positions: np.ndarray) -> Card:
    """The card after rows have left: without names that too few hold."""
    return replace(model.card, encoding=constants.changes(model, positions).encoding)


def _correct_without(model: Model, positions: np.ndarray) -> np.ndarray:
    correct, n = model.initially_correct.copy(), model.dataset.n_train
    correct[positions[positions >= n] - n] = False
    return correct


def _moved(
    model: Model, positions: np.ndarray, version: Version, state: State | None = None
) -> Model:
    """The model version after rows have left."""
    leaving = positions[positions < model.dataset.n_train]
    if len(leaving):
        model.card = _card_without(model, positions)
        constants.without(model, leaving)
    model.initially_correct = _correct_without(model, positions)
    model.data.forget(leaving)
    model.live[positions] = False
    model.version = version
    if state is not None:
        model.state = state
    return model


def _subjects_left(dataset: Dataset, live: np.ndarray, positions: np.ndarray) -> int:
    """How many subjects have a row when these have gone."""
    live = live.copy()
    live[positions] = False
    counts = np.bincount(dataset["subjects"][live], minlength=len(dataset.subject_ids))
    return int(np.count_nonzero(counts))


def _withdrawn(
    model: Model, live: np.ndarray, deleted: int, until: datetime | None, watch: Stopwatch
) -> NewVersion:
    v = model.version
    return NewVersion(
        kind="withdrawn",
        method=v.method,
        generation=v.generation,
        retained_until=until,
        rows=int(live[: model.dataset.n_train].sum()),
        subjects=len(np.unique(model.dataset["subjects"][live])),
        deleted=deleted,
        seconds=watch.seconds,
        baseline=v.baseline,
        times=watch.times(),
    )


def retrained(
    session: Session, dataset: Dataset, live: np.ndarray, deleted: int, watch: Stopwatch,
    progress: ProgressCallback | None,
) -> tuple[NewVersion, Fresh]:  # fmt: skip
    """A new generation of the live rows, and a model trained on it from scratch."""
    session.same_columns(dataset)
    raw, n = dataset.raw(), dataset.n_train
    train, test = np.flatnonzero(live[:n]), n + np.flatnonzero(live[n:])
    classes = training.classes_of(raw, train)
    training.require_trainable(classes, test, session.config.roles.label)
    number = session.require_version().number + 1
    generation = session.generation_name(number)
    with (
        watch.phase("encode"),
        training.building(session.data_folder, generation) as folder,
    ):
        encoding = training.write_generation(folder, raw, train, test, session.config, progress)
    reach("retrain.dataset-written")
    written = Dataset(session.data_folder / generation)
    rng = session.rng(number)
    fresh = training.train_model(written, classes, encoding, session.config, rng, progress, watch)
    reach("retrain.trained")
    new = training.save(fresh, session.artifacts, "retrained", deleted, watch)
    reach("retrain.artifacts-written")
    return new, fresh


def _retain(session: Session, model: Model, leaving: np.ndarray, number: int) -> datetime | None:
    """Keep deleted training rows for the audit, if the owner says so."""
    window = session.config.retention.audit_window
    if not window:
        return None
    audit.retain(session.retained, number, model.dataset, leaving)
    return session.clock() + window


def catch_up(session: Session) -> None:
    """Forget whoever the deletion list names and this workspace, a backup perhaps, remembers."""
    if session.active is None:
        return
    deletions, known = session.deletions, session.known
    nothing_new = deletions.check(known)
    session.check_key()
    if nothing_new:
        return
    added = deletions.read_after(known)
    if known is None or added.position is None or known.list_id != added.position.list_id:
        _check_new(session, added)
        deletions.upgrade()
        added = deletions.read()
        assert added.position is not None
        known = deletions.join(session.config.id, added.position)
    else:
        known = added.position
    pending = session.store.requests.find(state="pending")
    waiting = {(item.kind, item.value) for request in pending for item in request.items}
    listed = [pair for pair in added.ids if pair not in waiting]
    said = resolve_ids(session, listed).outcomes
    missed = [pair for pair, (outcome, _) in zip(listed, said, strict=True)
              if outcome == "forgotten"]  # fmt: skip
    if missed:
        log.warning("deletions were missing here and are applied now: %d", len(missed))
        session.store.requests.submit(RESTORED + uuid.uuid4().hex, missed, session.clock())
    if missed or pending:
        apply_pending(session, known=known, listed=added.ids)
    else:
        session.store.model.set_list_known(str(known))
        session.now_known(known)


def _check_new(session: Session, found: Content) -> None:
    """A list that this workspace has read nothing of so far: is it one for it, and whole?"""
    known, name = session.known, session.deletions.path.name
    owners = found.of("workspace")
    if owners and session.config.id not in owners:
        raise Unavailable(
            f"the deletion list {name} belongs to another workspace; put this one's beside it, or "
            "name it in retention.deletion_list"
        )
    if known is None and found.earlier_bytes < session.record.list_position:
        raise Unavailable(
            f"the deletion list {name} was cut: it held {session.record.list_position:,} bytes "
            f"that were read from it; {REMEDY}"
        )
