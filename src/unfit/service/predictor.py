"""The active model, ready to answer: no answer is older than the moment it was asked for."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unfit.data.encoding import Absent
from unfit.data.objects import ObjectEncoder
from unfit.errors import BadInput, Unavailable
from unfit.store.change_counter import Seen
from unfit.workspace import Workspace
from unfit.workspace.list_format import Position
from unfit.workspace.model import ReleasedModel
from unfit.workspace.model_cache import ListWatch, ModelCache


@dataclass(frozen=True)
class Predictor:
    """A version that can answer for rows as JSON objects."""

    model: ReleasedModel
    encoder: ObjectEncoder

    def answer(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Absent]:
        """An answer a row, and how many rows hold a category without a column."""
        fields = self.encoder.fields
        for i, row in enumerate(rows):
            if not fields <= row.keys():
                lacking = sorted(fields - row.keys())
                more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
                raise BadInput(
                    f"row {i} has no field {lacking[0]!r}{more}; null stands for a missing value"
                )
        X, absent = self.encoder.encode(rows)
        names = self.model.card.classes
        P = self.model.probabilities(X)
        best = np.argmax(P, axis=1).tolist()
        answers = [
            {"class": names[j], "probabilities": dict(zip(names, p, strict=True))}
            for j, p in zip(best, P.tolist(), strict=True)
        ]
        return answers, absent


class PredictorCache:
    """Loads a version when there is a new one; those who need it wait for it, nobody else."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._model_cache = ModelCache(workspace.store, workspace.artifacts)
        self._list_watch = ListWatch(workspace.deletions)
        self._loading = asyncio.Lock()
        self._place: object = None
        self._have: _Loaded | None = None

    async def get(self, seen: Seen) -> Predictor:
        have, listed = self._have, self._workspace.deletions
        if have is not None and have.fits(seen) and listed.agrees(have.known):
            return have.predictor
        async with self._loading:
            have = self._have
            if have is None or not have.fits(seen):
                have = await asyncio.to_thread(self._load, seen)
            if not await asyncio.to_thread(self._list_watch.may_answer, have.known):
                raise Unavailable("people on the deletion list are being forgotten; try again soon")
            self._have = have
            return have.predictor

    def _load(self, seen: Seen) -> "_Loaded":
        if self._place not in (None, seen.place):
            self._list_watch.start_over()
        self._place = seen.place
        record = self._workspace.store.model.read()  # first: what is loaded is at least as new
        model = self._model_cache.active_model()
        before = None if self._have is None else self._have.predictor
        if before is not None and before.model.card is model.card:  # as most versions do
            made = Predictor(model, before.encoder)
        else:
            made = Predictor(model, ObjectEncoder(model.card.encoding))
        return _Loaded(record.changes, seen.place, made, Position.parse(record.list_known))


@dataclass(frozen=True)
class _Loaded:
    """What answers, and as of which change and how much of the deletion list."""

    changes: int
    place: object
    predictor: Predictor
    known: Position | None

    def fits(self, seen: Seen) -> bool:
        return self.changes == seen.changes and self.place == seen.place
