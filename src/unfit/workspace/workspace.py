"""`unfit.Workspace`: the verbs. Each that changes something holds the writer's lock, finishes what
a crash left undone, does its work aside, commits in one transaction, and purges."""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from unfit.clock import now
from unfit.data.dataset import Dataset, held_names
from unfit.data.ids import checked_text
from unfit.data.ingest import Intake, split, spool
from unfit.data.sources import open_source
from unfit.errors import LostLock, Unavailable, UnfitError, Untrained
from unfit.points import reach
from unfit.progress import ProgressCallback
from unfit.store.records import Applied, Decision, Version
from unfit.workspace import audit, constants, erasure, export, lost_list, purge, retention, training
from unfit.workspace.audit import Report
from unfit.workspace.list_format import Position
from unfit.workspace.list_watch import ListWatch
from unfit.workspace.lost_list import Loss
from unfit.workspace.model import ReleasedModel
from unfit.workspace.model_cache import ModelCache
from unfit.workspace.prediction import Predictions, Rows, predict_file
from unfit.workspace.requests import (
    Ids,
    Selection,
    forgotten_spellings,
    ids_of,
    named,
    near_spellings,
    refuse,
)
from unfit.workspace.results import Forgotten, Status, Trained
from unfit.workspace.retention import Retained
from unfit.workspace.session import Session
from unfit.workspace.stopwatch import Stopwatch

log = logging.getLogger("unfit")


class Workspace:
    """A model in a folder that can be trained, asked, made to forget, audited and retrained.

    path: a folder that `unfit init` made. clock: where the time comes from. `progress`
    arguments are called as progress(stage, done, total) while a verb works.
    """

    def __init__(self, path: str | Path = ".", *, clock: Callable[[], datetime] = now) -> None:
        self._session = Session(Path(path), clock)
        self.folder, self.config = self._session.folder, self._session.config
        self.store = self._session.store
        self.list_path = self._session.deletions.path
        self.artifacts = self._session.artifacts
        self._model_cache = ModelCache(self.store, self.artifacts)
        self.deletions = self._session.deletions
        self._list_watch = ListWatch(self.deletions)
        self._checked = False

    def prepare(self) -> None:
        """Compute ahead what makes the next erasure cheap, and keep it for the next process."""
        with self.session() as session:
            session.save_prepared()

    def warm_up(self) -> None:
        """As much of it as the next erasure of this process cannot do without, in memory alone."""
        with self.session() as session:
            if session.active is not None and session.active.model_sha is not None:
                constants.prepare_sums(session.ready_model())

    def defer_purge(self) -> None:
        """From now on leave the bytes of the forgotten to `purge`, for many requests at once."""
        self._session.defers_purge = True

    def purge(self) -> bool:
        """Purge what is due; whether all is gone."""
        with self.session() as session:
            if session.active is not None and session.record.purge_due:
                session.purge()
            return session.purged

    def retained(self) -> Retained:
        """Which deleted rows are kept for audits just now."""
        window, session = self.config.retention.audit_window, self._session
        return retention.retained(session.retained, self.store, session.clock(), window)

    def purge_expired(self) -> int:
        """Remove deleted rows that were kept for audits long enough; how many. Waits for nobody."""
        return self._session.purge_expired()

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def session(self) -> Iterator[Session]:
        try:
            with self._session.lock.held():
                self._session.recover()
                erasure.catch_up(self._session)
                self._list_watch.caught_up(self._session.known)
                self._checked = True
                yield self._session
        except LostLock:  # what was written aside meanwhile goes, by the lock as it is now
            self._session.reset()
            with suppress(UnfitError), self._session.lock.held():
                self._session.recover()
            raise

    def work_as(self, what: str) -> None:
        """Hold the lock as a process of the service, which may be ended if it stands still."""
        self._session.lock.what, self._session.lock.service = what, True

    def _follow_list(self, session: Session) -> None:
        """Forget whom others have listed meanwhile; what fails now is done by who comes next."""
        try:
            erasure.catch_up(session)
        except LostLock:
            raise
        except UnfitError as error:
            log.warning("the deletion list is read later: %s", error)

    # --- the verbs -----------------------------------------------------------------------------

    def train(self, progress: ProgressCallback | None = None) -> Trained:
        """Read the source, train the first model, employ it."""
        with self.session() as session:
            if session.active is not None:
                raise Unavailable(
                    "this workspace is trained already; `unfit retrain` trains again on the rows "
                    "that remain, and a new workspace starts from the source"
                )
            reach("train.start")
            watch = Stopwatch()
            session.begin_list()
            listed = session.deletions.read()
            config, roles = self.config, self.config.the_roles()
            source = open_source(config.location(self.folder))
            intake, generation = Intake(), session.generation_name(1)
            with training.building(session.data_folder, generation) as folder:
                with watch.phase("read"):
                    raw = spool(source, roles, config.feature_columns(), folder, progress, intake)
                reach("train.rows-spooled")
                left_out = purge.listed_positions(raw, listed, self.list_path.name, config.id)
                train, test = split(raw, config.split.test_share, config.split.seed, left_out)
                classes = training.classes_of(raw, train)
                training.require_trainable(classes, test, roles.label)
                with watch.phase("encode"):
                    encoding = training.write_generation(folder, raw, train, test, config, progress)
                del raw
            reach("train.dataset-written")
            dataset = Dataset(session.data_folder / generation)
            fresh = training.train_model(
                dataset, classes, encoding, config, session.rng(1), progress, watch
            )
            reach("train.trained")
            new = training.save(fresh, session.artifacts, "trained", 0, watch)
            reach("train.artifacts-written")
            why = self._opening(1, "open", "the first model of this workspace", fresh)
            assert listed.position is not None
            known = session.deletions.join(config.id, listed.position)
            applied = Applied(list_known=str(known))
            with watch.phase("commit"):
                version = session.store.commit(None, new, why, applied, session.clock())
            watch.stop()
            session.now_known(known)
            reach("train.committed")
            session.activate(version, fresh.employed(version), watch)
            self._follow_list(session)
            return _employed(version, fresh, watch, len(left_out), intake)

    def retrain(
        self, progress: ProgressCallback | None = None, reason: str = "asked for"
    ) -> Trained:
        """Train again on the rows that remain: new constants, a new baseline."""
        with self.session() as session:
            before = session.require_version()
            reach("retrain.start")
            watch = Stopwatch()
            live = session.live()
            new, fresh = erasure.retrained(session, session.dataset(), live, 0, watch, progress)
            why = self._opening(before.number + 1, "retrain", reason, fresh)
            with watch.phase("commit"):
                version = session.store.commit(before, new, why, Applied(), session.clock())
            watch.stop()
            reach("retrain.committed")
            session.activate(version, fresh.employed(version), watch)
            return _employed(version, fresh, watch)

    def submit(
        self, *, subjects: Iterable[object] = (), rows: Iterable[object] = (),
        key: str | None = None, by: str | None = None, limit: int | None = None,
    ) -> str:  # fmt: skip
        """File an erasure request and return its key; `apply`, here or elsewhere, applies it.

        by: whose token asks. limit: how many requests may wait.
        """
        return self._submit(ids_of(subjects, rows), key, by, limit)

    def apply(self, progress: ProgressCallback | None = None) -> int:
        """Apply all requests that wait, together; how many there were."""
        with self.session() as session:
            applied = len(erasure.apply_pending(session, progress).outcomes)
            self._follow_list(session)
            return applied

    def forget(
        self,
        *,
        subjects: Iterable[object] = (),
        rows: Iterable[object] = (),
        key: str | None = None,
        strict: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Forgotten:
        """Forget subjects or rows now: submit, apply, commit, purge.

        Ids that match nobody, with near spellings that do exist, and repeated ones are reported;
        strict refuses the whole request for them. The same key with the same ids is the same
        request, however often it is made. dry_run changes nothing and says what would happen.
        """
        ids = ids_of(subjects, rows)
        key = None if key is None else checked_text(key, "the key")
        if dry_run or strict:
            with self.session() as session:
                session.require_version()
                selection = erasure.resolve_ids(session, ids)
                if strict and not (key and session.store.requests.find(key=key)):
                    refuse(ids, selection, _near(session, ids, selection.outcomes))
                if dry_run:
                    return self._foreseen(session, ids, selection, key or "")
        key = uuid.uuid4().hex if key is None else key
        try:
            return self._forget_now(ids, key, progress)
        except LostLock:  # by the same key: it is filed already, and may have been applied
            return self._forget_now(ids, key, progress)

    def _forget_now(self, ids: Ids, key: str, progress: ProgressCallback | None) -> Forgotten:
        with self.session() as session:
            session.require_version()
            new = not session.store.requests.find(key=key)
            self._submit(ids, key)
            try:
                batch = erasure.apply_pending(session, progress)
            except LostLock:  # the request is filed: whoever has taken over applies it
                raise
            except Exception:
                if new:  # what failed has changed nothing
                    session.store.requests.take_back(key)
                raise
            self._follow_list(session)
            replayed = key not in batch.outcomes
            if replayed:
                batch = _earlier(session, key)
            return self._answer(session, key, ids, batch, replayed)

    def predict(
        self, source: Rows, output: Path | None = None, *, format: str | None = None,
        spreadsheet: bool = False,
    ) -> Predictions:  # fmt: skip
        """Predict the rows of a file or an Arrow table; written to `output` or kept in memory.

        spreadsheet: in a CSV, texts that would be taken for formulas get an apostrophe in front.
        """
        model = self.active_model()
        roles = self.config.the_roles()
        kind, names = self.config.source, self._names_held
        return predict_file(
            model, source, output, format, roles, kind, names, spreadsheet=spreadsheet
        )

    def _names_held(self) -> Mapping[str, Collection[str]]:
        """Categories by column that rows of this workspace hold, however few."""
        version = self.store.versions.active()
        if version is None or version.generation is None:
            return {}
        return held_names(self._session.data_folder / version.generation)

    def caught_up(self) -> bool:
        """Whether everybody on the deletion list is forgotten here; False for an old backup."""
        try:
            return self.deletions.check(Position.parse(self.store.model.read().list_known))
        except UnfitError:
            return False

    def active_model(self) -> ReleasedModel:
        """The model in use, as it is now; a restored backup first catches up with deletions."""
        model = self.store.model.read()
        if model.list_known is None and self.store.versions.active() is None:
            raise Untrained
        late = not self._checked and (model.purge_due or self.retained().overdue_rows > 0)
        if not self._list_watch.may_answer(Position.parse(model.list_known)) or late:
            with self.session():
                pass
        self._checked = True
        return self._model_cache.active_model()

    def audit(
        self, *, deleted: str | Path | None = None, threshold: float | None = None,
        draws: int | None = None, random_state: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> Report:  # fmt: skip
        """Retrain independently, compare, say what was found; the model in use stays as it is.

        The records keep the report rounded, and of few deleted rows the verdict alone. Erasures
        wait while the rows are copied, not while they are trained on.
        """
        threshold = self.config.policy.disparity if threshold is None else threshold
        audit.check_request(threshold, draws)
        with self.session() as session:
            evidence = audit.gather(
                session.open_model(), self.config, session.retained, session.store,
                None if deleted is None else Path(deleted),
            )  # fmt: skip
        report = evidence.weigh(threshold, draws, random_state, progress)
        kept = report.recorded(self.config.preprocessing.min_rows)
        made = session.store.audits.add(
            evidence.version, report.passed, kept.as_dict(), session.clock()
        )  # fmt: skip
        return replace(report, id=made)

    def export(self) -> tuple[int, bytes]:
        """The model in use as a zip of safetensors and JSON, and its version's number."""
        model = self.active_model()
        return model.version, export.pack(model)

    def accept_loss(self, *, dry_run: bool = False) -> Loss | None:
        """After the deletion list or its key was lost for good: go on with what there is.

        Says what is lost; None if nothing is. dry_run changes nothing.
        """
        with self._session.lock.held():
            self._session.recover()
            if dry_run:
                return lost_list.find(self._session)
            lost = lost_list.accept(self._session)
        with self.session():
            return lost

    def status(self) -> Status:
        """What there is; changes nothing."""
        store, policy = self.store, self.config.policy
        version, counts = store.versions.active(), store.requests.counts()
        audits, kept = store.audits.find(), self.retained()
        return Status(
            str(self.folder), version.method if version else self.config.model.method, version,
            store.forgotten.counts()[0], counts["pending"], counts["applied"],
            counts["unmatched"], store.model.read().purge_due or kept.overdue_rows > 0,
            policy.retrain_when, policy.disparity,
            store.versions.find(), store.decisions.find(), audits[-1] if audits else None,
            version is not None and not self.caught_up(), self.config.retention.audit_window, kept,
        )  # fmt: skip

    # --- answers -------------------------------------------------------------------------------

    def _submit(
        self, ids: Ids, key: str | None, by: str | None = None, limit: int | None = None
    ) -> str:
        if self._session.active is None and self.store.versions.active() is None:
            raise Untrained
        key = uuid.uuid4().hex if key is None else checked_text(key, "the key")
        self.store.requests.submit(key, ids, self._session.clock(), by, limit)
        reach("forget.submitted")
        return key

    def _opening(self, number: int, action: Any, reason: str, fresh: training.Fresh) -> Decision:
        baseline = fresh.opened.baseline
        facts = {"slope": baseline.slope, "rows": baseline.rows, "accuracy": baseline.accuracy}
        return Decision(
            version=number,
            at=self._session.clock(),
            action=action,
            reason=reason,
            inputs=facts,
            estimate=0.0,
            threshold=self.config.policy.disparity,
        )

    def _foreseen(self, session: Session, ids: Ids, selection: Selection, key: str) -> Forgotten:
        """What `forget` would do, expect and decide."""
        version, n_train = session.require_version(), session.dataset().n_train
        watch = Stopwatch()
        estimate, action, reason = None, "keep", "no training row would leave"
        if version.model_sha is not None and (selection.positions < n_train).any():
            rng = np.random.default_rng()
            ready = session.ready_model()
            step, verdict = erasure.evaluate(session, ready, selection.positions, rng, watch)
            estimate, reason = step.facts.estimate, verdict.reason
            action = "retrain" if verdict.retrain else "update"
        kind = "retrained" if action == "retrain" else "updated"
        like = [v.seconds for v in session.store.versions.find() if v.kind == kind]
        expected = float(np.median(like[-10:])) if like else None
        return Forgotten(
            key, len(selection.positions), selection.subjects,
            named(ids, selection.outcomes, "repeated"), named(ids, selection.outcomes, "unknown"),
            version.number, action, reason, estimate, self.config.policy.disparity, expected,
            purged=False, dry_run=True, near=_near(session, ids, selection.outcomes),
            forgotten_as=_before(session, ids, selection.outcomes),
        )  # fmt: skip

    def _answer(
        self, session: Session, key: str, ids: Ids, batch: erasure.Batch, replayed: bool
    ) -> Forgotten:
        outcomes, why = batch.outcomes[key], batch.why
        kept = _kept(session, batch)
        nobody = bool(outcomes) and all(said == "unknown" for said, _ in outcomes)
        return Forgotten(
            key, sum(n for _, n in outcomes), sum(said == "forgotten" for said, _ in outcomes),
            named(ids, outcomes, "repeated"), named(ids, outcomes, "unknown"), batch.version,
            why.action if why else "keep", why.reason if why else "no training row has left",
            why.estimate if why else None, self.config.policy.disparity,
            None if replayed else batch.seconds,
            purged=None if nobody else session.purged and kept is None,
            purge_due=not session.purged, kept_rows=0 if kept is None else kept.deleted,
            kept_until=None if kept is None else kept.retained_until,
            purge_seconds=None if replayed else batch.purge_seconds, replayed=replayed,
            near=_near(session, ids, outcomes), forgotten_as=_before(session, ids, outcomes),
        )  # fmt: skip


def _kept(session: Session, batch: erasure.Batch) -> Version | None:
    """The version a batch made, if what left with it is kept for audits."""
    if batch.why is None:
        return None
    found = session.store.versions.find(number=batch.version)
    return next((v for v in found if v.retained_until is not None), None)


def _near(
    session: Session, ids: Ids, outcomes: Sequence[tuple[str, int]]
) -> dict[str, Sequence[str]]:
    """Near spellings of the ids that matched nobody."""
    pairs = zip(ids, outcomes, strict=True)
    unknown = [pair for pair, (outcome, _) in pairs if outcome == "unknown"]
    return near_spellings(unknown, session.dataset(), session.store) if unknown else {}


def _before(session: Session, ids: Ids, outcomes: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Of the ids that matched nobody: near spellings of somebody forgotten before."""
    pairs = zip(ids, outcomes, strict=True)
    unknown = [pair for pair, (outcome, _) in pairs if outcome == "unknown"]
    return forgotten_spellings(unknown, session.store) if unknown else {}


def _earlier(session: Session, key: str) -> erasure.Batch:
    """What became of a request that was applied before."""
    (request,) = session.store.requests.find(key=key)
    outcomes = [(item.outcome or "unknown", item.rows or 0) for item in request.items]
    why = session.store.decisions.on(request)
    return erasure.Batch({key: outcomes}, request.version or 0, why)


def _employed(
    version: Version,
    fresh: training.Fresh,
    watch: Stopwatch,
    left_out: int = 0,
    intake: Intake | None = None,
) -> Trained:
    intake = intake or Intake()
    return Trained(
        version.number, version.kind, version.method, version.rows, version.subjects,
        fresh.card.encoding.width, fresh.opened.baseline.accuracy, fresh.opened.baseline.slope,
        watch.seconds, left_out, dict(watch.phases), watch.kernels, intake.dropped,
        intake.unreadable, version.held_out,
    )  # fmt: skip
