"""Who keeps a workspace in order: what is employed, what is model, what a crash left undone.

Everything here is done with the writer's lock held; `current` is the employed version as long as
it is.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from unfit import disk
from unfit.data.dataset import Dataset
from unfit.errors import CannotTrain, Damaged, LostLock, Unavailable, Untrained
from unfit.points import reach
from unfit.store.artifacts import Artifacts
from unfit.store.records import Times, Version
from unfit.store.store import Store
from unfit.workspace import config as configuration
from unfit.workspace import purge, retention
from unfit.workspace.config import Config
from unfit.workspace.constants import EARLIER
from unfit.workspace.deletion_list import DeletionList
from unfit.workspace.digest_key import fingerprint
from unfit.workspace.list_format import Position
from unfit.workspace.lock import Terms, WriterLock
from unfit.workspace.model import Model, load_card, open_model, statistics_arrays
from unfit.workspace.stopwatch import Stopwatch

log = logging.getLogger("unfit")
_KEPT = ("fisher", "influence")  # methods whose prepared statistics are worth a file


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("the clock gives times without a zone")
    return moment.astimezone(UTC)


def _tighten(folder: Path) -> None:
    """What an earlier release, or a copy, has left open to others is its owner's alone again."""
    disk.owner_only(folder)
    with suppress(OSError):
        for path in [*folder.iterdir(), *folder.glob("*/*"), *folder.glob("data/*/*")]:
            disk.owner_only(path)


class Session:
    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        self.folder = folder
        self.clock: Callable[[], datetime] = lambda: _utc(clock())
        self.config: Config = configuration.read(folder)
        _tighten(folder)
        self.artifacts = Artifacts(folder / "artifacts")
        self.deletions = DeletionList(self.config.list_path(folder))
        self.lock = WriterLock(folder / "unfit.lock")
        self.store = Store(
            self.config.store_url(folder),
            self.config.id,
            self.clock(),
            self._digest_key,
            self.lock.held,
        )
        self._key: bytes | None = None
        self.lock.terms = Terms(read=self.store.model.term, begin_after=self.store.model.begin_term)
        self.store.require_term(lambda: self.lock.term)
        self.active: Version | None = None
        self.model: Model | None = None
        self.record = self.store.model.read()
        self.purged = True
        self.purge_seconds: float | None = None  # of the last purge, if the last commit had one
        self._timed: list[tuple[int, Stopwatch]] = []  # versions whose times are not written yet
        self.defers_purge = (
            False  # by `Workspace.purge`, for many requests at once, and not after each
        )
        self._seen = self.record.changes  # of the commits, by what is open
        self._mark = folder / "unfit.trained"
        self._purged_strays = False

    def close(self) -> None:
        self.store.close()

    @property
    def data_folder(self) -> Path:
        return self.folder / "data"

    @property
    def retained(self) -> Path:
        return self.folder / "retained"

    # --- what there is -------------------------------------------------------------------------

    def require_version(self) -> Version:
        if self.active is None:
            raise Untrained
        return self.active

    def dataset(self) -> Dataset:
        version = self.require_version()
        if self.model is not None and self.model.version.generation == version.generation:
            return self.model.dataset
        assert version.generation is not None
        return Dataset(self.data_folder / version.generation)

    def live(self) -> np.ndarray:
        """Mask of the rows that are there, forgotten ones aside."""
        return self.dataset().live if self.model is None else self.model.live

    def open_model(self) -> Model:
        version = self.require_version()
        if version.model_sha is None:
            raise Unavailable("the model was withdrawn: too few classes have rows left")
        if self.model is None or self.model.version.id != version.id:
            self.model = None
            self.model = open_model(version, self.artifacts, self.data_folder)
            self._seen = self.record.changes
            if self.model.card.encoding.min_rows is None:
                log.warning("%s; `unfit retrain` fits them anew", EARLIER)
        return self.model

    def generation_name(self, number: int) -> str:
        """Of the rows of a version: another one in each term of the lock, so that a process that
        has lost the lock cannot have anything in common with the next."""
        return f"rows-{number}-{self.lock.term}" if self.lock.term else f"rows-{number}"

    def reset(self) -> None:
        """Another process has been here: nothing that is known is known for sure."""
        self.model = self.active = None
        self._purged_strays = False

    def rng(self, number: int) -> np.random.Generator:
        """Fresh randomness, or that of a version where model.random_state fixes it."""
        seed = self.config.model.random_state
        return np.random.default_rng(None if seed is None else [seed, number])

    def same_columns(self, dataset: Dataset) -> None:
        asked = [(c.name, c.kind) for c in self.config.feature_columns()]
        if asked != dataset.columns:
            raise CannotTrain(
                f"{configuration.FILE}: columns differ from those the data was read with; put them "
                "back, or make a new workspace"
            )

    # --- what lies beside the workspace --------------------------------------------------------

    @property
    def known(self) -> Position | None:
        """How far the deletion list is applied here."""
        return Position.parse(self.record.list_known)

    def now_known(self, position: Position) -> None:
        """The records say how far the deletion list is applied."""
        self.record = replace(self.record, list_known=str(position), changes=self.store.last_change)
        self._seen = self.store.last_change

    def begin_list(self) -> None:
        """Before a first training: a deletion list and its key, made if there are none."""
        self._key = self.deletions.begin()
        self.store.model.set_key_fingerprint(fingerprint(self._key))

    def check_key(self) -> None:
        """Everything here that stands for an id was made with one key: with no other goes on."""
        key = self.deletions.key.read()
        if key is None:
            raise self.deletions.key.lost()
        found = fingerprint(key)
        if self.record.key_fingerprint is None:
            self.store.model.set_key_fingerprint(found)
            self.record = replace(self.record, key_fingerprint=found)
        elif self.record.key_fingerprint != found:
            raise self.deletions.key.wrong()
        self._key = key

    def _digest_key(self) -> bytes:
        if self._key is None:
            key = self.deletions.key.read()
            if key is None:
                raise self.deletions.key.lost()
            if self.store.model.read().key_fingerprint not in (None, fingerprint(key)):
                raise self.deletions.key.wrong()
            self._key = key
        return self._key

    # --- after a crash, and after a commit -----------------------------------------------------

    def recover(self) -> None:
        """Finish what a crash left undone, by this process or another."""
        before = self.active
        self.active, self.record = self.store.versions.active(), self.store.model.read()
        if self.record.changes != self._seen:  # another process has been here
            self.model = None
            if before is not None and not self._goes_on_from(before):  # or a backup was restored
                log.warning("the records are of another time than before: a backup was restored")
                self._purged_strays = False
        self.purged = not self.record.purge_due
        if self.active is None:
            if self._mark.exists():
                raise Damaged(
                    "this workspace was trained, but its database knows nothing of it; restore "
                    "the database, or check store.url"
                )
            if not self._purged_strays:
                purge.purge_before_training(self)
        else:
            if not self._mark.exists():
                self._mark.touch(0o600)
            if not self._purged_strays:
                purge.purge_again(self)
            due = self.record.purge_due and not self._may_wait()
            if due or (not self._purged_strays and purge.has_strays(self)):
                self.purge()
            self.purge_expired()
            retention.purge_strays(self.retained, self.store)
        self._purged_strays = True

    def _goes_on_from(self, version: Version) -> bool:
        """Whether the records still hold a version that was in use."""
        found = self.store.versions.find(number=version.number)
        return any((v.id, v.activated_at) == (version.id, version.activated_at) for v in found)

    def activate(
        self, version: Version, model: Model | None, watch: Stopwatch | None = None
    ) -> None:
        """After a commit: the new version is current; purge what it leaves behind.

        watch: of a new version; what it says in the end is written down with the purge.
        """
        self.active, self.model = version, model
        self.purge_seconds = None
        if watch is not None:
            self._timed.append((version.id, watch))
        self._seen = self.store.last_change
        self.record = replace(self.record, changes=self._seen, purge_due=True)
        self._mark.touch(0o600)
        if self.defers_purge:
            self.purged = False
        else:
            self.purge()

    def _may_wait(self) -> bool:
        """Whether what was forgotten is known here, though its bytes are there."""
        model, current = self.model, self.active
        return (
            self.defers_purge and model is not None and current is not None
            and model.version.id == current.id
        )  # fmt: skip

    def purge(self) -> None:
        """What cannot be removed now is removed by the next one to settle."""
        assert self.active is not None
        begun = time.perf_counter()
        self.purge_expired()

        def timed() -> list[tuple[int, float, Times]]:
            self.purge_seconds = time.perf_counter() - begun
            return [(id, w.seconds, w.times(self.purge_seconds)) for id, w in self._timed]

        try:
            card_sha = purge.purge(self, timed)
        except LostLock:
            raise
        except (Unavailable, OSError) as busy:
            log.warning("the purge goes on later: %s", busy)
            self.purged = False
            return
        self._timed = []
        self.purged = True
        if card_sha != self.active.card_sha:
            self._seen = self.store.last_change
            self.record = replace(self.record, changes=self._seen)
            self.active = replace(self.active, card_sha=card_sha)
            if self.model is not None:
                self.model.version = self.active
                self.model.card = load_card(self.active, self.artifacts)

    def ready_model(self) -> Model:
        """The employed version, able to unlearn fast: with a guide, or prepared."""
        model = self.open_model()
        return model if model.state.stale_inverse is not None else self.prepared_model()

    def purge_expired(self) -> int:
        """Remove deleted rows that were kept for audits long enough; how many."""
        window = self.config.retention.audit_window
        return retention.purge_expired(self.retained, self.store, self.clock(), window)

    def prepared_model(self) -> Model:
        """The employed version with what makes the next unlearning cheapest."""
        model = self.open_model()
        model.state = model.method.prepare(model.state, model.data)
        return model

    def save_prepared(self) -> None:
        """Keep the statistics for the next process."""
        version = self.active
        if version is None or version.model_sha is None or version.statistics_sha is not None:
            return
        if version.method not in _KEPT:
            return
        model = self.prepared_model()
        arrays = statistics_arrays(model.state)
        if arrays is not None:
            sha = self.artifacts.put_arrays(arrays)
            reach("prepare.written")
            self.store.versions.set_statistics(version, sha)
            reach("prepare.recorded")
            self.active = model.version = replace(version, statistics_sha=sha)
