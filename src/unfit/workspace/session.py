"""The writer's session: a workspace opened for work, with its records, rows and model.

Whoever uses it holds the writer's lock. A session knows what is there and keeps it in memory;
changing it is the work of training, retraining, erasure, purge and recovery.
"""

import logging
import os
from dataclasses import replace

import numpy as np

from unfit.certify.keys import SigningKey
from unfit.data.dataset import Dataset
from unfit.engines import Dask
from unfit.engines.base import MakeEngine, engine_name, readers_of
from unfit.engines.cluster.settings import ADDRESS
from unfit.errors import BadInput, CannotTrain, Unavailable, Untrained, Withdrawn
from unfit.methods import METHODS
from unfit.points import reach
from unfit.readers import Readers
from unfit.stopwatch import Stopwatch
from unfit.store.artifacts import Artifacts
from unfit.store.purges import Removed
from unfit.store.records import Times, Version
from unfit.workspace.constants import UNROUNDED
from unfit.workspace.deletion_list import fingerprint
from unfit.workspace.layout import CONFIG_FILE, generation_name
from unfit.workspace.list_format import Position
from unfit.workspace.model import Model, load_card, open_model, statistics_arrays
from unfit.workspace.purge_schedule import PurgeSchedule
from unfit.workspace.reader import WorkspaceReader
from unfit.workspace.signing import sign_waiting

log = logging.getLogger("unfit")


class Session:
    """The state of an open workspace.

    active: the version that answers now. model: the same, opened for work; None until it is needed.
    record: the row of the model in the records, as this session last read or wrote it.
    """

    def __init__(self, reader: WorkspaceReader) -> None:
        self.layout, self.config, self.clock = reader.layout, reader.config, reader.clock
        self.deletions, self.lock, self.store = reader.deletions, reader.lock, reader.store
        self.retention, self.key_file = reader.retention, reader.key_file
        self.policy = self.config.policy.policy()
        self.artifacts = Artifacts(self.layout.artifacts)
        self.config.check_method()
        self.active: Version | None = None
        self.model: Model | None = None
        self.record = self.store.model.read()
        self.schedule = PurgeSchedule()
        self.purged = True  # no byte is left that must go
        self._only_own = False  # what must go comes from commits of this session alone
        self._by_others: tuple[int, ...] | None = None  # see store.purges.Removed; None: not known
        self.purge_seconds: float | None = None  # None if the last commit was not purged yet
        self._untimed: list[tuple[int, Stopwatch]] = []  # versions whose times are not recorded
        self._seen = self.record.changes  # the last change that this session knows of
        self._key_problem: str | None = None  # that was warned of
        self.files_checked = False  # no file of a crash is left, by this session's own look

    # --- the active version --------------------------------------------------------------------

    def require_version(self) -> Version:
        if self.active is None:
            raise Untrained
        return self.active

    def dataset(self) -> Dataset:
        version = self.require_version()
        if self.model is not None and self.model.generation == version.generation:
            return self.model.dataset
        assert version.generation is not None
        return Dataset(self.layout.generation(version.generation))

    def live(self) -> np.ndarray:
        """Mask of the rows that are there, without the forgotten ones."""
        return self.dataset().live if self.model is None else self.model.live

    def readers(self) -> Readers | None:
        """Processes of the engine that read and write files at once, where it has any."""
        return readers_of(self.engine_choice())

    def engine_choice(self) -> str | MakeEngine | None:
        """What [engine] tells `make_engine`."""
        table = self.config.engine
        if (table.name or engine_name()) != "dask" or (not table.name and table.address):
            if table.address is not None:
                raise BadInput(
                    f'{CONFIG_FILE}: engine.address applies only to the engine "dask"; '
                    'set name = "dask"'
                )
            return table.name or None
        address = table.address or os.environ.get(ADDRESS)
        if not address:
            return table.name or None  # the engine says what is missing
        try:
            return Dask(
                address,
                shards=table.shards,
                allow_plaintext=table.allow_plaintext,
                no_workers_timeout=table.no_workers_timeout,
            )
        except BadInput as error:
            where = ADDRESS if table.address is None else f"{CONFIG_FILE}: engine.address"
            raise BadInput(f"{where}: {error}") from None

    def open_model(self) -> Model:
        """The active version, opened for work."""
        version = self.require_version()
        if version.model_sha is None:
            raise Withdrawn
        if self.model is None or self.model.version_id != version.id:
            self.model = None
            self.model = open_model(version, self.artifacts, self.layout, self.engine_choice())
            self._seen = self.record.changes
            if self.model.card.encoding.min_rows is None:
                log.warning("%s; `unfit retrain` fits them anew", UNROUNDED)
        return self.model

    def ready_model(self) -> Model:
        """The active version, able to unlearn fast: with a guide, or else prepared."""
        model = self.open_model()
        return model if model.state.stale_inverse is not None else self.prepared_model()

    def prepared_model(self) -> Model:
        """The active version with what makes the next unlearning cheapest."""
        model = self.open_model()
        model.state = model.method.prepare(model.state, model.data)
        return model

    def save_prepared(self) -> None:
        """Keep the statistics for the next process."""
        version = self.active
        if version is None or version.model_sha is None or version.statistics_sha is not None:
            return
        if not METHODS.find(version.method).keeps_sums:
            return
        arrays = statistics_arrays(self.prepared_model().state)
        if arrays is not None:
            sha = self.artifacts.put_arrays(arrays)
            reach("prepare.written")
            self.store.versions.set_statistics(version, sha)
            reach("prepare.recorded")
            self.active = replace(version, statistics_sha=sha)

    # --- what the next version is made with ----------------------------------------------------

    def generation_name(self, number: int) -> str:
        """The name of the generation of rows that a version with this number would write."""
        return generation_name(number, self.lock.term)

    def rng(self, number: int) -> np.random.Generator:
        """Fresh randomness, or that of a version where model.random_state fixes it."""
        seed = self.config.model.random_state
        return np.random.default_rng(None if seed is None else [seed, number])

    def require_same_columns(self, dataset: Dataset) -> None:
        columns = self.config.feature_columns()
        wanted = [(c.name, c.kind) for c in columns]
        if wanted != dataset.columns or [c.width for c in columns if c.width] != dataset.widths:
            raise CannotTrain(
                f"{CONFIG_FILE}: the columns differ from those the data was read with; put them "
                "back, or make a new workspace"
            )

    # --- changes of the records ----------------------------------------------------------------

    def refresh(self) -> bool:
        """Read the records again; whether another process has changed them since."""
        self.active, self.record = self.store.versions.active(), self.store.model.read()
        self.purged = not self.record.purge_due
        changed = self.record.changes != self._seen
        if changed:
            self.model, self._only_own = None, False
        return changed

    def reset(self) -> None:
        """Another process has taken over: nothing in memory is certain any more."""
        self.model = self.active = None
        self.files_checked = self._only_own = False

    def activate(self, version: Version, model: Model | None, watch: Stopwatch | None) -> None:
        """A version was committed: it is the active one, and a purge is due.

        watch: of a new version; its times are recorded when the purge is done.
        """
        if model is not None:
            model.version_id = version.id
        self.active, self.model = version, model
        if not self.record.purge_due:
            self._only_own = True
        self.purged, self.purge_seconds = False, None
        if watch is not None:
            self._untimed.append((version.id, watch))
        self._note_change()
        self.record = replace(self.record, purge_due=True)
        self.layout.trained_mark.touch(0o600)

    def times_to_record(self, purge_seconds: float) -> list[tuple[int, float, Times]]:
        """Id, seconds and times of each version that was committed since the last purge."""
        self.purge_seconds = purge_seconds
        return [(id, watch.seconds, watch.times(purge_seconds)) for id, watch in self._untimed]

    def finish_purge(self, card_sha: str | None) -> None:
        """Everything that was due is purged. card_sha: of the card, which may be a new one."""
        version = self.require_version()
        self._untimed, self.purged, self._only_own = [], True, False
        if card_sha != version.card_sha:
            self._note_change()
            self.active = replace(version, card_sha=card_sha)
            if self.model is not None:
                self.model.card = load_card(self.active, self.artifacts)

    def knows_all_removed(self, removed: Removed) -> bool:
        """Whether nothing else was removed from the records since they were last vacuumed."""
        return self._only_own and self._by_others == removed.by_others

    def vacuumed(self, removed: Removed | None) -> None:
        """The database holds nothing any more that was removed; None: that is not certain."""
        self._by_others = None if removed is None else removed.by_others

    def _note_change(self) -> None:
        """This session has changed the records itself."""
        self._seen = self.store.last_change
        self.record = replace(self.record, changes=self._seen)

    # --- certificates --------------------------------------------------------------------------

    def signing_key(self) -> SigningKey | None:
        """The key that signs certificates; None, with one warning, if it cannot be used."""
        try:
            self.key_file.begin()
            key = self.key_file.require()
        except (BadInput, Unavailable) as error:
            if str(error) != self._key_problem:
                log.warning("certificates wait for a signature: %s", error)
            self._key_problem = str(error)
            return None
        self._key_problem = None
        return key

    def sign_waiting(self) -> int:
        """Sign the certificates that wait for a key; how many there were."""
        waiting = self.store.certificates.count()[1]
        key = self.signing_key() if waiting else None
        return 0 if key is None else sign_waiting(self.store.certificates, key)

    def purge_salts(self) -> None:
        """Remove what opens commitments, where nobody has fetched it in time."""
        if self.active is not None:
            before = self.clock() - self.config.certify.keep_salts
            if self.store.certificates.purge_salts(before=before):
                self.record = replace(self.record, purge_due=True)
                self._only_own = False

    # --- the deletion list and its key ---------------------------------------------------------

    @property
    def list_known(self) -> Position | None:
        """How far the deletion list is applied here."""
        return Position.parse(self.record.list_known)

    def note_list_known(self, position: Position) -> None:
        """The records say how far the deletion list is applied."""
        self._note_change()
        self.record = replace(self.record, list_known=str(position))

    def begin_list(self) -> None:
        """Before a first training: a deletion list and its key, made if there are none."""
        self.store.model.set_key_fingerprint(fingerprint(self.deletions.begin()))

    def check_key(self) -> None:
        """All digests here were made with one key: without it, the session cannot go on."""
        key = self.deletions.key.require(self.record.key_fingerprint)
        if self.record.key_fingerprint is None:
            found = fingerprint(key)
            self.store.model.set_key_fingerprint(found)
            self.record = replace(self.record, key_fingerprint=found)
