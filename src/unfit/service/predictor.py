"""The active model, ready to predict: no answer is by a model older than the request."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unfit.data.encoding import Absent, matrix_of
from unfit.data.objects import ObjectEncoder
from unfit.errors import BadInput, Unavailable
from unfit.store.change_counter import Counters
from unfit.workspace import Workspace
from unfit.workspace.deletion_list import ListWatch
from unfit.workspace.list_format import Position
from unfit.workspace.model import ReleasedModel
from unfit.workspace.model_cache import ModelCache


@dataclass(frozen=True)
class Predictor:
    """A model that predicts for rows as JSON objects."""

    model: ReleasedModel
    encoder: ObjectEncoder

    def answer(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Absent]:
        """One answer per row, and how many rows have a category without a column."""
        fields = self.encoder.fields
        for i, row in enumerate(rows):
            if not fields <= row.keys():
                missing = sorted(fields - row.keys())
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                raise BadInput(
                    f"row {i} lacks the field {missing[0]!r}{more}; send null for a missing value"
                )
        X, absent = self.encoder.encode(rows)
        names = self.model.card.classes
        P = self.model.probabilities(matrix_of(X))
        best = np.argmax(P, axis=1).tolist()
        answers = [
            {"class": names[j], "probabilities": dict(zip(names, p, strict=True))}
            for j, p in zip(best, P.tolist(), strict=True)
        ]
        return answers, absent


class PredictorCache:
    """Loads a version when there is a new one; only requests that need it wait for it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._model_cache = ModelCache(workspace.store, workspace.artifacts)
        self._list_watch = ListWatch(workspace.deletions)
        self._loading = asyncio.Lock()
        self._place: object = None
        self._have: _Loaded | None = None

    async def get(self, seen: Counters) -> Predictor:
        have, listed = self._have, self._workspace.deletions
        if have is not None and have.is_current(seen) and listed.agrees(have.known):
            return have.predictor
        async with self._loading:
            have = self._have
            if have is None or not have.is_current(seen):
                have = await asyncio.to_thread(self._load, seen)
            if not await asyncio.to_thread(self._list_watch.may_answer, have.known):
                raise Unavailable("people on the deletion list are being forgotten; try again soon")
            self._have = have
            return have.predictor

    def _load(self, seen: Counters) -> "_Loaded":
        if self._place not in (None, seen.place):
            self._list_watch.start_over()
        self._place = seen.place
        # read before the model, so that what is loaded is at least as new as the record
        record = self._workspace.store.model.read()
        model = self._model_cache.active_model()
        before = None if self._have is None else self._have.predictor
        if before is not None and before.model.card is model.card:  # as for most versions
            made = Predictor(model, before.encoder)
        else:
            made = Predictor(model, ObjectEncoder(model.card.encoding))
        return _Loaded(
            predictor=made,
            changes=record.changes,
            place=seen.place,
            known=Position.parse(record.list_known),
        )


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """A predictor, and as of which change and position in the deletion list it was loaded."""

    predictor: Predictor
    changes: int
    place: object
    known: Position | None

    def is_current(self, seen: Counters) -> bool:
        return self.changes == seen.changes and self.place == seen.place
