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
from unfit.store.filing import RESTORED
from unfit.store.records import Applied, Decision, HeldOut, NewVersion, Version
from unfit.workspace import auditing, constants, training
from unfit.workspace.deletion_list import REMEDY
from unfit.workspace.forgetting import Ids, Resolved, all_ids, resolve
from unfit.workspace.keeper import Keeper
from unfit.workspace.list_format import Content, Position
from unfit.workspace.loaded import Card, Loaded, model_arrays
from unfit.workspace.stopwatch import Stopwatch
from unfit.workspace.training import Fresh, Told

log = logging.getLogger("unfit")


@dataclass(frozen=True)
class Outcome:
    """What a batch leads to: the version to employ (None: the same one), why, and its rows."""

    new: NewVersion | None
    why: Decision | None
    loaded: Callable[[Version], Loaded | None]
    kept: Mapping[str, Any] = field(default_factory=dict)  # new facts of the same version


@dataclass(frozen=True)
class Batch:
    """What was applied together: each request's outcomes by its key, the version, the decision."""

    outcomes: Mapping[str, Sequence[tuple[str, int]]]
    version: int
    why: Decision | None
    seconds: float = 0.0  # to the commit
    purge_seconds: float | None = None  # after it; None where the purge comes later


def resolve_ids(keeper: Keeper, ids: Ids) -> Resolved:
    return resolve(ids, keeper.dataset(), keeper.store, keeper.live())


def apply_pending(
    keeper: Keeper, told: Told | None = None, known: Position | None = None, listed: Ids = ()
) -> Batch:
    """Apply every request that waits, together.

    known: how far the deletion list is applied when they are; by default, as far as it was.
    listed: ids that are on it already.
    """
    known = known or keeper.known
    assert known is not None  # whoever holds the lock has caught up with the list
    requests = keeper.store.requests(state="pending")
    if not requests:
        return Batch({}, 0, None)
    watch = Stopwatch()
    reach("forget.taken")
    before = keeper.require_version()
    loaded = None if before.model_sha is None else _ready(keeper, watch)
    items, ids = all_ids(requests)
    with watch.phase("resolve"):
        resolved = resolve_ids(keeper, ids)
        numbers = keeper.dataset()["numbers"][resolved.positions].tolist()
    outcome = _outcome(keeper, loaded, resolved.positions, watch, told)

    unlisted = set(resolved.ids).difference(listed)

    def write_list() -> str:
        nonlocal known
        assert known is not None
        if unlisted:
            ids = [pair for pair in resolved.ids if pair in unlisted]
            known = keeper.deletions.append(ids, known)
        reach("forget.listed")
        return str(known)

    settled = [(item, said, n) for item, (said, n) in zip(items, resolved.outcomes, strict=True)]
    applied = Applied(
        requests=[r.id for r in requests],
        outcomes=settled,
        rows=numbers,
        digests=resolved.digests,
        list_known=write_list,
        kept=outcome.kept,
    )
    with watch.phase("commit"):
        version = keeper.store.commit(before, outcome.new, outcome.why, applied, keeper.clock())
    watch.stop()
    keeper.now_known(known)
    reach("forget.committed")
    keeper.employ(version, outcome.loaded(version), None if outcome.new is None else watch)
    each = iter(resolved.outcomes)
    by_key = {r.key: [next(each) for _ in r.items] for r in requests}
    return Batch(by_key, version.number, outcome.why, watch.seconds, keeper.purge_seconds)


def _ready(keeper: Keeper, watch: Stopwatch) -> Loaded:
    """The employed version, able to unlearn; opening it is counted, the kernels are not."""
    with watch.phase("open"):
        loaded = keeper.load()
        watch.get_kernels_ready(loaded.method, loaded.data)
        watch.count_rows(loaded.method, loaded.data)
        return keeper.ready()


def _outcome(
    keeper: Keeper, loaded: Loaded | None, positions: np.ndarray, watch: Stopwatch,
    told: Told | None,
) -> Outcome:  # fmt: skip
    if loaded is None:  # the model was withdrawn: rows go, and there is nothing to unlearn
        left = _subjects_left(keeper.dataset(), keeper.live(), positions)
        return Outcome(None, None, lambda _: None, {"subjects": left})
    leaving = positions[positions < loaded.dataset.n_train]
    if len(leaving) == 0:  # only held-out rows go, if any
        kept = _without_held_out(keeper, loaded, positions) if len(positions) else {}
        return Outcome(None, None, lambda v: _moved(loaded, positions, v), kept)
    number = loaded.version.number + 1
    step, verdict = evaluate(keeper, loaded, positions, keeper.rng(number), watch)
    reach("forget.unlearned")
    with watch.phase("write"):
        until = _retain(keeper, loaded, leaving, number)
    reach("forget.retained")

    def why(action: Action, reason: str) -> Decision:
        return Decision(
            version=number,
            at=keeper.clock(),
            action=action,
            reason=reason,
            inputs=step.facts.as_dict(),
            estimate=step.facts.estimate,
            threshold=keeper.config.policy.disparity,
        )

    def updated(reason: str) -> Outcome:
        new = _updated(keeper, loaded, positions, step, until, watch)
        return Outcome(
            new, why("employ", reason), lambda v: _moved(loaded, positions, v, step.state)
        )

    if not verdict.retrain:
        return updated(verdict.reason)
    live = loaded.live.copy()
    live[positions] = False
    reach("retrain.start")
    try:
        new, fresh = retrained(keeper, loaded.dataset, live, len(leaving), watch, told)
    except CannotTrain as failure:  # an erasure cannot be refused for it
        said = f"{verdict.reason}; but no model can be trained: {failure}"
        if step.unlearned:
            return updated(said)
        withdrawn = _withdrawn(loaded, live, len(leaving), until, watch)
        return Outcome(withdrawn, why("withdraw", said), lambda _: None)
    new = replace(new, retained_until=until)
    return Outcome(new, why("retrain", verdict.reason), fresh.employed)


def _without_held_out(keeper: Keeper, loaded: Loaded, positions: np.ndarray) -> dict[str, Any]:
    """The model stays; its file loses what it says of these rows."""
    left = loaded.test_positions(positions)
    found = drift.held_out_quality(loaded.state.weights, loaded.test_rows().take(left))
    hits = _hits_without(loaded, positions)
    before = loaded.version.held_out
    seen = HeldOut(
        majority=found.majority,
        log_loss=found.log_loss,
        auc=found.auc,
        initial_accuracy=float(loaded.initial_hits[left].mean()) if len(left) else None,
        log_loss_change=None if before is None else before.log_loss_change,
    )
    return {
        "model_sha": keeper.artifacts.put_arrays(model_arrays(loaded.state, hits)),
        "subjects": _subjects_left(loaded.dataset, loaded.live, positions),
        "accuracy": found.accuracy,
        "held_out": seen,
    }


def evaluate(
    keeper: Keeper, loaded: Loaded, positions: np.ndarray, rng: np.random.Generator,
    watch: Stopwatch,
) -> tuple[pipeline.Step, Verdict]:  # fmt: skip
    """Unlearn and say what the policy makes of it. Changes nothing."""
    with watch.phase("evaluate"):
        return _evaluated(keeper, loaded, positions, rng, watch)


def _evaluated(
    keeper: Keeper, loaded: Loaded, positions: np.ndarray, rng: np.random.Generator,
    watch: Stopwatch,
) -> tuple[pipeline.Step, Verdict]:  # fmt: skip
    held_out = loaded.test_positions(positions)
    leaving = positions[positions < loaded.dataset.n_train]
    if len(held_out) == 0:
        facts = Facts(rows=loaded.baseline.rows, deleted=len(leaving))
        return pipeline.Step(loaded.state, facts, unlearned=False), Verdict(
            True, "no held-out row is left to measure accuracy on"
        )
    try:
        step = pipeline.step(
            loaded.method, loaded.state, loaded.data, leaving, loaded.test_rows(), held_out,
            loaded.initial_hits, loaded.baseline, list(loaded.card.classes), rng, watch.phase,
        )  # fmt: skip
        if step.unlearned and len(leaving):
            left = loaded.test_rows().take(held_out)
            seen = loaded.version.held_out
            since = 0.0 if seen is None else seen.log_loss_change or 0.0
            step = drift.measured(
                step, loaded.state, loaded.method, loaded.data, leaving, left, since
            )
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        facts = Facts(rows=loaded.baseline.rows, deleted=len(leaving))
        reason = f"unlearning failed ({error}), so the model is retrained"
        return pipeline.Step(loaded.state, facts, unlearned=False), Verdict(True, reason)
    batch = loaded.method.settings.deletion_batch_size or max(1, len(leaving))
    watch.steps = -(-len(leaving) // batch)
    verdict = decide(keeper.config.policy.policy(), step.facts)
    return step, _with_constants(verdict, constants.changes(loaded, positions))


def _with_constants(verdict: Verdict, found: constants.Changes) -> Verdict:
    """Constants that changed leave no choice."""
    if not found.due:
        return verdict
    reasons = [found.reason, *([verdict.reason] if verdict.retrain else [])]
    return Verdict(True, "; ".join(reasons))


def _updated(
    keeper: Keeper, loaded: Loaded, positions: np.ndarray, step: pipeline.Step,
    until: datetime | None, watch: Stopwatch,
) -> NewVersion:  # fmt: skip
    with watch.phase("write"):
        hits = _hits_without(loaded, positions)
        sha = keeper.artifacts.put_arrays(model_arrays(step.state, hits))
        card, card_sha = _card_without(loaded, positions), loaded.version.card_sha
        if card != loaded.card:
            card_sha = keeper.artifacts.put_json(card.to_json())
    reach("forget.artifacts-written")
    v, n = loaded.version, loaded.dataset.n_train
    return NewVersion(
        kind="updated",
        method=v.method,
        generation=v.generation,
        model_sha=sha,
        card_sha=card_sha,
        retained_until=until,
        rows=step.state.n,
        subjects=_subjects_left(loaded.dataset, loaded.live, positions),
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


def _card_without(loaded: Loaded, positions: np.ndarray) -> Card:
    """The card after rows have left: without names that too few hold."""
    return replace(loaded.card, encoding=constants.changes(loaded, positions).encoding)


def _hits_without(loaded: Loaded, positions: np.ndarray) -> np.ndarray:
    hits, n = loaded.initial_hits.copy(), loaded.dataset.n_train
    hits[positions[positions >= n] - n] = False
    return hits


def _moved(
    loaded: Loaded, positions: np.ndarray, version: Version, state: State | None = None
) -> Loaded:
    """The loaded version after rows have left."""
    leaving = positions[positions < loaded.dataset.n_train]
    if len(leaving):
        loaded.card = _card_without(loaded, positions)
        constants.without(loaded, leaving)
    loaded.initial_hits = _hits_without(loaded, positions)
    loaded.data.forget(leaving)
    loaded.live[positions] = False
    loaded.version = version
    if state is not None:
        loaded.state = state
    return loaded


def _subjects_left(dataset: Dataset, live: np.ndarray, positions: np.ndarray) -> int:
    """How many subjects have a row when these have gone."""
    live = live.copy()
    live[positions] = False
    counts = np.bincount(dataset["subjects"][live], minlength=len(dataset.subject_ids))
    return int(np.count_nonzero(counts))


def _withdrawn(
    loaded: Loaded, live: np.ndarray, deleted: int, until: datetime | None, watch: Stopwatch
) -> NewVersion:
    v = loaded.version
    return NewVersion(
        kind="withdrawn",
        method=v.method,
        generation=v.generation,
        retained_until=until,
        rows=int(live[: loaded.dataset.n_train].sum()),
        subjects=len(np.unique(loaded.dataset["subjects"][live])),
        deleted=deleted,
        seconds=watch.seconds,
        baseline=v.baseline,
        times=watch.times(),
    )


def retrained(
    keeper: Keeper, dataset: Dataset, live: np.ndarray, deleted: int, watch: Stopwatch,
    told: Told | None,
) -> tuple[NewVersion, Fresh]:  # fmt: skip
    """A new generation of the live rows, and a model trained on it from scratch."""
    keeper.same_columns(dataset)
    raw, n = dataset.raw(), dataset.n_train
    train, test = np.flatnonzero(live[:n]), n + np.flatnonzero(live[n:])
    classes = training.classes_of(raw, train)
    training.require_trainable(classes, test, keeper.config.roles.label)
    number = keeper.require_version().number + 1
    generation = keeper.generation_name(number)
    with (
        watch.phase("encode"),
        training.building(keeper.data_folder, generation) as folder,
    ):
        encoding = training.write_generation(folder, raw, train, test, keeper.config, told)
    reach("retrain.dataset-written")
    written = Dataset(keeper.data_folder / generation)
    rng = keeper.rng(number)
    fresh = training.train_model(written, classes, encoding, keeper.config, rng, told, watch)
    reach("retrain.trained")
    new = training.save(fresh, keeper.artifacts, "retrained", deleted, watch)
    reach("retrain.artifacts-written")
    return new, fresh


def _retain(keeper: Keeper, loaded: Loaded, leaving: np.ndarray, number: int) -> datetime | None:
    """Keep deleted training rows for the audit, if the owner says so."""
    window = keeper.config.retention.audit_window
    if not window:
        return None
    auditing.retain(keeper.retained, number, loaded.dataset, leaving)
    return keeper.clock() + window


def catch_up(keeper: Keeper) -> None:
    """Forget whoever the deletion list names and this workspace, a backup perhaps, remembers."""
    if keeper.current is None:
        return
    deletions, known = keeper.deletions, keeper.known
    nothing_new = deletions.check(known)
    keeper.check_key()
    if nothing_new:
        return
    added = deletions.read_after(known)
    if known is None or added.position is None or known.list_id != added.position.list_id:
        _check_new(keeper, added)
        deletions.upgrade()
        added = deletions.read()
        assert added.position is not None
        known = deletions.join(keeper.config.id, added.position)
    else:
        known = added.position
    pending = keeper.store.requests(state="pending")
    waiting = {(item.kind, item.value) for request in pending for item in request.items}
    listed = [pair for pair in added.ids if pair not in waiting]
    said = resolve_ids(keeper, listed).outcomes
    missed = [pair for pair, (outcome, _) in zip(listed, said, strict=True)
              if outcome == "forgotten"]  # fmt: skip
    if missed:
        log.warning("deletions were missing here and are applied now: %d", len(missed))
        keeper.store.submit(RESTORED + uuid.uuid4().hex, missed, keeper.clock())
    if missed or pending:
        apply_pending(keeper, known=known, listed=added.ids)
    else:
        keeper.store.set_list_known(str(known))
        keeper.now_known(known)


def _check_new(keeper: Keeper, found: Content) -> None:
    """A list that this workspace has read nothing of so far: is it one for it, and whole?"""
    known, name = keeper.known, keeper.deletions.path.name
    owners = found.of("workspace")
    if owners and keeper.config.id not in owners:
        raise Unavailable(
            f"the deletion list {name} belongs to another workspace; put this one's beside it, or "
            "name it in retention.deletion_list"
        )
    if known is None and found.earlier_bytes < keeper.model.list_position:
        raise Unavailable(
            f"the deletion list {name} was cut: it held {keeper.model.list_position:,} bytes that "
            f"were read from it; {REMEDY}"
        )
