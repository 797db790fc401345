"""The active model, kept in memory for those who only predict: no lock, no rows."""

from unfit.errors import Damaged, Unavailable, Untrained, Withdrawn
from unfit.store.artifacts import Artifacts
from unfit.store.store import Store
from unfit.workspace.model import ReleasedModel, open_released_model

TRIES = 20


class ModelCache:
    """Reads the active version when it is a new one, and its card only if that is new too."""

    def __init__(self, store: Store, artifacts: Artifacts) -> None:
        self._store, self._artifacts = store, artifacts
        self._model: ReleasedModel | None = None
        self._made_of: tuple[int, str | None, str | None] | None = None

    def active_model(self) -> ReleasedModel:
        for _ in range(TRIES):
            version = self._store.versions.active()
            if version is None:
                raise Untrained
            if version.model_sha is None:
                raise Withdrawn
            made_of = (version.number, version.model_sha, version.card_sha)
            if self._model is not None and self._made_of == made_of:
                return self._model
            same_card = self._made_of is not None and self._made_of[2] == version.card_sha
            card = self._model.card if self._model is not None and same_card else None
            try:
                self._model = open_released_model(version, self._artifacts, card)
            except Damaged:  # or superseded, and purged, since we asked
                if self._store.versions.active() == version:
                    raise
                continue
            self._made_of = made_of
            return self._model
        raise Unavailable("the model changes faster than it can be read")
