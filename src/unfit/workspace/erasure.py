"""Erasure: requests that wait are resolved, unlearned and committed, and what they leave is purged.

All that wait are taken together. Everything is worked out and written aside first; the commit is
one transaction, and what comes after it can be repeated. The writer's lock is held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unfit.core.kernels.parallel import blas_for
from unfit.errors import LostLock
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.stopwatch import Stopwatch
from unfit.store.records import Applied, Decision, NewCertificate, Request, Version
from unfit.workspace import purge, unlearning
from unfit.workspace.certification import EntryMaker, Person
from unfit.workspace.list_format import Position
from unfit.workspace.model import Model, load_kernels
from unfit.workspace.requests import (
    Ids,
    Selection,
    all_ids,
    forgotten_spellings,
    named,
    near_spellings,
    resolve,
)
from unfit.workspace.results import Forgotten
from unfit.workspace.session import Session
from unfit.workspace.unlearning import BatchResult, Unlearning

RECENT = 10  # versions whose seconds tell how long the next one may take
Outcomes = Sequence[tuple[str, int]]  # what became of each id, and how many rows it had


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Requests that were applied together: the outcomes of each by its key, and the decision.

    seconds: until the commit. purge_seconds: after it; None where the purge comes later.
    certificate: its place in the log. agreement: see store.records.HeldOut.
    """

    outcomes: Mapping[str, Outcomes]
    version: int = 0
    decision: Decision | None = None
    seconds: float = 0.0
    purge_seconds: float | None = None
    certificate: int | None = None
    agreement: float | None = None


def resolve_ids(session: Session, ids: Ids) -> Selection:
    return resolve(ids, session.dataset(), session.store, session.live())


def apply_pending(
    session: Session,
    progress: ProgressCallback | None = None,
    known: Position | None = None,
    listed: Ids = (),
) -> Batch:
    """Apply every request that waits, together.

    known: the position in the deletion list to record with the commit; by default, the present one.
    listed: ids that are on it already.
    """
    known = known or session.list_known
    assert known is not None  # whoever holds the lock has caught up with the list
    requests = session.store.requests.find(state="pending")
    if not requests:
        return Batch(outcomes={})
    watch = Stopwatch()
    reach("forget.taken")
    before = session.require_version()
    model = None if before.model_sha is None else _ready_model(session, watch)
    items, ids = all_ids(requests)
    with watch.phase("resolve"):
        selection = resolve_ids(session, ids)
        numbers = session.dataset()["numbers"][selection.positions].tolist()
    result = _result(session, model, selection, watch, progress)
    applied = Applied(
        requests=[request.id for request in requests],
        outcomes=[
            (item, said, rows) for item, (said, rows) in zip(items, selection.outcomes, strict=True)
        ],
        rows=numbers,
        digests=selection.digests,
        changes_to_active=result.changes_to_active,
        certificate=_certificate(session, result, requests, selection),
    )
    reach("forget.certified")
    unlisted = set(selection.ids).difference(listed)
    change = before, result.new, result.decision, applied
    with watch.phase("commit"), session.store.committing(*change, session.clock()) as commit:
        if unlisted:  # nobody is listed whose request may still be refused
            ids = [pair for pair in selection.ids if pair in unlisted]
            known = session.deletions.append(ids, known)
        reach("forget.listed")
        commit.list_known = str(known)
    watch.stop()
    session.note_list_known(known)
    reach("forget.committed")
    new_watch = None if result.new is None else watch
    session.activate(commit.version, result.model_after(), new_watch)
    if applied.certificate is not None:
        session.sign_waiting()
    purge.after_commit(session)
    each = iter(selection.outcomes)
    return Batch(
        outcomes={request.key: [next(each) for _ in request.items] for request in requests},
        version=commit.version.number,
        decision=result.decision,
        seconds=watch.seconds,
        purge_seconds=session.purge_seconds,
        certificate=None if applied.certificate is None else applied.certificate.number,
        agreement=result.agreement,
    )


def _ready_model(session: Session, watch: Stopwatch) -> Model:
    """The active model, able to unlearn. Opening it is counted; getting kernels ready is not."""
    with watch.phase("open"):
        model = session.open_model()
        with watch.loading_kernels():
            load_kernels(model.method, model.data)
        if not model.method.replays:  # a replay does not count them
            watch.count_rows(model.data)
        return session.ready_model()


def _result(
    session: Session,
    model: Model | None,
    selection: Selection,
    watch: Stopwatch,
    progress: ProgressCallback | None,
) -> BatchResult:
    if model is None:
        return unlearning.without_model(session, selection.positions)
    work = Unlearning(
        session=session,
        before=session.require_version(),
        model=model,
        positions=selection.positions,
        watch=watch,
    )
    with blas_for(model.data.d):
        return work.outcome(progress)


def _certificate(
    session: Session, result: BatchResult, requests: Sequence[Request], selection: Selection
) -> NewCertificate | None:
    """The entry of the log for what a batch leads to, where certificates are made."""
    model = session.model
    if session.config.certify.epsilon is None and (model is None or model.card.promise is None):
        return None
    settled = iter(selection.outcomes)
    people = [
        Person(request_id=request.id, kind=item.kind, value=item.value)
        for request in requests
        for item in request.items
        if next(settled)[0] == "forgotten" and item.value is not None
    ]
    new, active = result.new, session.require_version()
    maker = EntryMaker(
        session=session,
        number=active.number if new is None else active.number + 1,
        deleted=0 if new is None else new.deleted,
        people=people,
    )
    if result.release is not None and new is not None:
        return maker.of_release(new.kind, result.release)
    if new is None:
        return maker.of_active("kept") if people else None
    return maker.of_active("withdrawn") if new.kind == "withdrawn" else None


def apply_now(
    session: Session, ids: Ids, key: str, progress: ProgressCallback | None, *, new: bool = False
) -> Batch:
    """File a request and apply it with all that wait; the same key again is the same request.

    new: the key was made for it.
    """
    new = new or not session.store.requests.find(key=key)
    session.store.requests.submit(key, ids, session.clock(), lasting=False)
    reach("forget.submitted")
    try:
        return apply_pending(session, progress)
    except LostLock:  # the request is filed: whoever has taken over applies it
        raise
    except Exception:
        if new:  # what failed has changed nothing
            session.store.requests.take_back(key)
            session.vacuumed(None)
        raise


def submit(
    session: Session, ids: Ids, key: str, by: str | None = None, limit: int | None = None
) -> None:
    """File a request. by: whose token asks. limit: how many requests may wait."""
    session.store.requests.submit(key, ids, session.clock(), by, limit)
    reach("forget.submitted")


# --- what `forget` answers ---------------------------------------------------------------------


def foresee(session: Session, ids: Ids, selection: Selection, key: str) -> Forgotten:
    """What `forget` would do, expect and decide. Changes nothing."""
    version = session.require_version()
    estimate, action, reason = None, "keep", _why_it_stays(version)
    if version.model_sha is not None and (selection.positions < session.dataset().n_train).any():
        work = Unlearning(
            session=session,
            before=version,
            model=session.ready_model(),
            positions=selection.positions,
            watch=Stopwatch(),
        )
        found, action, reason = work.foresee(np.random.default_rng())
        estimate = found.step.facts.estimate
    kind = "retrained" if action == "retrain" else "updated"
    took = [v.seconds for v in session.store.versions.find() if v.kind == kind]
    unknown = unknown_ids(ids, selection.outcomes)
    return Forgotten(
        key=key,
        rows=len(selection.positions),
        subjects=selection.subjects,
        repeated=named(ids, selection.outcomes, "repeated"),
        unknown=named(ids, selection.outcomes, "unknown"),
        version=version.number,
        action=action,
        reason=reason,
        estimate=estimate,
        threshold=session.config.policy.disparity,
        seconds=float(np.median(took[-RECENT:])) if took else None,
        purged=False,
        dry_run=True,
        near=near(session, unknown),
        forgotten_as=_forgotten_as(session, unknown),
    )


def answer(session: Session, key: str, ids: Ids, batch: Batch) -> Forgotten:
    """What became of a request, whether it was applied just now or earlier."""
    replayed = key not in batch.outcomes
    if replayed:
        batch = _earlier(session, key)
    outcomes, decision = batch.outcomes[key], batch.decision
    kept = _retained_version(session, batch)
    unknown = unknown_ids(ids, outcomes)
    nobody = bool(outcomes) and len(unknown) == len(outcomes)
    return Forgotten(
        key=key,
        rows=sum(rows for _, rows in outcomes),
        subjects=sum(outcome == "forgotten" for outcome, _ in outcomes),
        repeated=named(ids, outcomes, "repeated"),
        unknown=named(ids, outcomes, "unknown"),
        version=batch.version,
        action="keep" if decision is None else decision.action,
        reason=_reason_to_stay(session, batch) if decision is None else decision.reason,
        estimate=None if decision is None else decision.estimate,
        threshold=session.config.policy.disparity,
        seconds=None if replayed else batch.seconds,
        purged=None if nobody else session.purged and kept is None,
        purge_due=not session.purged,
        kept_rows=0 if kept is None else kept.deleted,
        kept_until=None if kept is None else kept.retained_until,
        purge_seconds=None if replayed else batch.purge_seconds,
        replayed=replayed,
        certificate=batch.certificate,
        agreement=batch.agreement,
        near=near(session, unknown),
        forgotten_as=_forgotten_as(session, unknown),
    )


def _why_it_stays(version: Version) -> str:
    if version.kind == "withdrawn":
        return "its model was withdrawn, so there is nothing to unlearn"
    return "no training row is among them"


def _reason_to_stay(session: Session, batch: Batch) -> str:
    """Why the version of a batch stayed as it was."""
    return next(map(_why_it_stays, session.store.versions.find(number=batch.version)), "")


def _earlier(session: Session, key: str) -> Batch:
    """What became of a request that was applied before."""
    (request,) = session.store.requests.find(key=key)
    outcomes = [(item.outcome or "unknown", item.rows or 0) for item in request.items]
    return Batch(
        outcomes={key: outcomes},
        version=request.version or 0,
        decision=session.store.decisions.on(request),
    )


def _retained_version(session: Session, batch: Batch) -> Version | None:
    """The version a batch made, if the rows that left with it are kept for audits."""
    if batch.decision is None:
        return None
    active = session.active
    if active is not None and active.number == batch.version and active.retained_until is None:
        return None
    found = session.store.versions.find(number=batch.version)
    return next((v for v in found if v.retained_until is not None), None)


def unknown_ids(ids: Ids, outcomes: Outcomes) -> Ids:
    """The ids that matched nobody."""
    pairs = zip(ids, outcomes, strict=True)
    return [pair for pair, (outcome, _) in pairs if outcome == "unknown"]


def near(session: Session, unknown: Ids) -> dict[str, Sequence[str]]:
    """Near spellings of ids that matched nobody."""
    return near_spellings(unknown, session.dataset(), session.store) if unknown else {}


def _forgotten_as(session: Session, unknown: Ids) -> dict[str, str]:
    """Near spellings, of somebody forgotten before, of ids that matched nobody."""
    return forgotten_spellings(unknown, session.store) if unknown else {}
