"""`unfit.Workspace`: the verbs. Each that changes the model takes the writer's lock, recovers from
whatever happened before, does its work aside, commits in one transaction, and purges. `submit`,
which files a request, and `purge_expired`, which removes old files, do without the lock."""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from unfit.certify.keys import PublicKey
from unfit.clock import now
from unfit.data.dataset import held_names
from unfit.data.ids import checked_text
from unfit.errors import Damaged, LostLock, Unavailable, UnfitError, Untrained
from unfit.progress import ProgressCallback
from unfit.workspace import (
    audit,
    erasure,
    export,
    lost_list,
    purge,
    recovery,
    requests,
    retraining,
    training,
)
from unfit.workspace.audit import Evidence, Report
from unfit.workspace.certificates import Certificates
from unfit.workspace.deletion_list import ListWatch
from unfit.workspace.list_format import Position
from unfit.workspace.lost_list import Loss
from unfit.workspace.model import ReleasedModel
from unfit.workspace.model_cache import ModelCache
from unfit.workspace.prediction import Predictions, Rows, is_large, predict_file
from unfit.workspace.purge_schedule import PurgeSchedule
from unfit.workspace.reader import WorkspaceReader
from unfit.workspace.requests import Ids
from unfit.workspace.results import Forgotten, Status, Trained
from unfit.workspace.retention import Retained
from unfit.workspace.session import Session


class Workspace:
    """A model in a folder that can be trained, asked, made to forget, audited and retrained.

    path: a folder that `unfit init` made. clock: where the time comes from. `progress` arguments
    are called as progress(stage, done, total) while the work goes on.
    """

    def __init__(self, path: str | Path = ".", *, clock: Callable[[], datetime] = now) -> None:
        self._reader = WorkspaceReader(path, clock=clock)
        self._session = Session(self._reader)
        self.layout, self.config = self._session.layout, self._session.config
        self.folder = self.layout.folder
        self.store, self.artifacts = self._session.store, self._session.artifacts
        self.deletions = self._session.deletions
        self.list_path = self.deletions.path
        self._model_cache = ModelCache(self.store, self.artifacts)
        self._list_watch = ListWatch(self.deletions)
        self._recovered = False

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The writer's session: the lock is held, and everybody who must be is forgotten."""
        session = self._session
        try:
            with session.lock.held():
                recovery.recover(session)
                recovery.catch_up(session)
                self._list_watch.caught_up(session.list_known)
                self._recovered = True
                yield session
        except LostLock:  # what was written aside meanwhile goes, by the lock as it is now
            session.reset()
            with suppress(UnfitError), session.lock.held():
                recovery.recover(session)
            raise

    def work_as(self, what: str) -> None:
        """Hold the lock as a process of the service, which may be ended if it hangs."""
        self._session.lock.what, self._session.lock.service = what, True

    # --- a model ---------------------------------------------------------------------------------

    def train(self, progress: ProgressCallback | None = None) -> Trained:
        """Read the source, and train and activate the first model."""
        with self.session() as session:
            made = training.train(session, progress)
            recovery.try_to_catch_up(session)
            return made

    def retrain(
        self, progress: ProgressCallback | None = None, reason: str = "asked for"
    ) -> Trained:
        """Train again on the rows that remain, with new constants and a new baseline."""
        with self.session() as session:
            return retraining.retrain(session, progress, reason)

    def prepare(self) -> None:
        """Compute ahead what makes the next erasure cheap, and keep it for the next process."""
        with self.session() as session:
            session.save_prepared()

    def warm_up(self) -> None:
        """Compute ahead only what the next erasure of this process needs, in memory."""
        with self.session() as session:
            if session.active is not None and session.active.model_sha is not None:
                session.ready_model().prepare_sums()

    # --- erasures --------------------------------------------------------------------------------

    def submit(
        self,
        *,
        subjects: Iterable[object] = (),
        rows: Iterable[object] = (),
        key: str | None = None,
        by: str | None = None,
        limit: int | None = None,
    ) -> str:
        """File an erasure request and return its key; `apply`, here or elsewhere, applies it.

        by: whose token asks. limit: how many requests may wait.
        """
        ids = requests.ids_of(subjects, rows)
        if self._session.active is None and self.store.versions.active() is None:
            raise Untrained
        key = _key(key)
        erasure.submit(self._session, ids, key, by, limit)
        return key

    def apply(self, progress: ProgressCallback | None = None) -> int:
        """Apply all requests that wait, together; how many there were."""
        with self.session() as session:
            applied = len(erasure.apply_pending(session, progress).outcomes)
            recovery.try_to_catch_up(session)
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

        Ids that match nobody are reported, with near spellings that do exist, and so are repeated
        ones; strict refuses the whole request for them. The same key with the same ids is the same
        request, however often it is made. dry_run changes nothing and says what would happen.
        """
        ids = requests.ids_of(subjects, rows)
        given, key = key, _key(key)
        if dry_run or strict:
            with self.session() as session:
                session.require_version()
                selection = erasure.resolve_ids(session, ids)
                if strict and not (given and session.store.requests.find(key=key)):
                    unknown = erasure.unknown_ids(ids, selection.outcomes)
                    requests.refuse(ids, selection, erasure.near(session, unknown))
                if dry_run:
                    return erasure.foresee(session, ids, selection, key if given else "")
        try:
            return self._forget(ids, key, progress, new=given is None)
        except LostLock:  # by the same key: it is filed already, and may have been applied
            return self._forget(ids, key, progress)

    def _forget(
        self, ids: Ids, key: str, progress: ProgressCallback | None, *, new: bool = False
    ) -> Forgotten:
        with self.session() as session:
            session.require_version()
            batch = erasure.apply_now(session, ids, key, progress, new=new)
            recovery.try_to_catch_up(session)
            return erasure.answer(session, key, ids, batch)

    # --- purges ----------------------------------------------------------------------------------

    @property
    def schedule(self) -> PurgeSchedule:
        """When a purge that was deferred, or an expiry of retained rows, is due."""
        return self._session.schedule

    def defer_purge(self) -> None:
        """From now on, leave the bytes of the forgotten to `purge`, for many requests at once."""
        self.schedule.deferred = True

    def purge(self) -> bool:
        """Purge what is due; whether nothing is left."""
        with self.session() as session:
            if session.active is not None and session.record.purge_due:
                purge.purge(session)
            return session.purged

    def retained(self) -> Retained:
        """How many deleted rows are kept for audits now."""
        return self._session.retention.status()

    def purge_expired(self) -> int:
        """Remove retained rows whose time is over; how many. Needs no lock."""
        return self._session.retention.purge_expired()

    # --- answers ---------------------------------------------------------------------------------

    def predict(
        self,
        source: Rows,
        output: Path | None = None,
        *,
        format: str | None = None,
        spreadsheet: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Predictions:
        """Predict the rows of a file or an Arrow table; written to `output` or kept in memory.

        spreadsheet: in a CSV, texts that would be taken for formulas get an apostrophe in front.
        With an engine that has workers elsewhere, these predict the parts of a large file.
        """
        large = isinstance(source, str | Path) and is_large(source)
        return predict_file(
            self.active_model(),
            source,
            self.config,
            output=output,
            format=format,
            names=self._names_held,
            spreadsheet=spreadsheet,
            readers=self._session.readers() if large else None,
            progress=progress,
        )

    def _names_held(self) -> Mapping[str, Collection[str]]:
        """Categories by column that rows of this workspace hold, however few."""
        version = self.store.versions.active()
        if version is None or version.generation is None:
            return {}
        return held_names(self.layout.generation(version.generation))

    def active_model(self) -> ReleasedModel:
        """The active model, as it is now; a restored backup first catches up with deletions."""
        record = self.store.model.read()
        if record.list_known is None and self.store.versions.active() is None:
            raise Untrained
        late = not self._recovered and (record.purge_due or self.retained().overdue_rows > 0)
        if not self._list_watch.may_answer(Position.parse(record.list_known)) or late:
            with self.session():
                pass
        self._recovered = True
        return self._model_cache.active_model()

    def export(self) -> tuple[int, bytes]:
        """The active model as a zip of safetensors and JSON, and its version's number."""
        model = self.active_model()
        return model.version, export.pack(model, self.certificates.to_export(model.version))

    @cached_property
    def certificates(self) -> Certificates:
        """The certificates of this workspace and their log."""
        return Certificates(self._reader)

    def sign_certificates(self) -> int:
        """Sign the certificates that wait for a key; how many there were."""
        with self.session() as session:
            return session.sign_waiting()

    def rotate_key(self, *, lost: bool = False) -> PublicKey:
        """Sign certificates with a new key from now on; lost: the old one is gone for good."""
        with self.session() as session:
            made = session.key_file.rotate(lost=lost)
            session.sign_waiting()
            return made

    def audit(
        self,
        *,
        deleted: str | Path | None = None,
        threshold: float | None = None,
        draws: int | None = None,
        random_state: int | None = None,
        attack: bool = False,
        splits: int | None = None,
        targets: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> Report:
        """Retrain independently, compare, say what was found; the active model stays as it is.

        attack: also try to tell releases from those of a retraining, with models of so many random
        halves of the rows (splits), from which so many rows (targets) are unlearned. The records
        keep the report rounded, and of few deleted rows the verdict alone. Erasures wait while the
        rows are copied, not while they are trained on. Where rows are too many to be copied, it
        begins again after an erasure.
        """
        threshold = self.config.policy.disparity if threshold is None else threshold
        audit.check_request(threshold, draws)
        effort = audit.effort_of(splits, targets) if attack else None

        def made() -> tuple[Evidence, Report]:
            with self.session() as session:
                evidence = audit.gather(session, None if deleted is None else Path(deleted))
            try:
                return evidence, evidence.weigh(threshold, draws, random_state, progress, effort)
            except (Unavailable, Damaged) as error:
                if self.store.versions.active() == evidence.version:
                    raise
                raise audit.Outdated from error

        evidence, report = audit.persistently(made)
        kept = report.recorded(self.config.preprocessing.min_rows)
        number = self.store.audits.add(
            evidence.version, report.passed, kept.as_dict(), self._session.clock()
        )
        return replace(report, id=number)

    def caught_up(self) -> bool:
        """Whether everybody on the deletion list is forgotten here; False for an old backup."""
        return self._reader.caught_up()

    def accept_loss(self, *, dry_run: bool = False) -> Loss | None:
        """After the deletion list or its key was lost for good: go on with what there is.

        Says what is lost; None if nothing is. dry_run changes nothing.
        """
        with self._session.lock.held():
            recovery.recover(self._session)
            if dry_run:
                return lost_list.find(self._session)
            lost = lost_list.accept(self._session)
        with self.session():
            return lost

    def status(self) -> Status:
        """What there is; changes nothing."""
        return self._reader.status()


def _key(given: str | None) -> str:
    """The key of a request: as it was given, or a new one."""
    return uuid.uuid4().hex if given is None else checked_text(given, "the key")
