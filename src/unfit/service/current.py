"""The model in use, as of now: no answer is older than the moment it was asked for.

Every request asks the database whether anything has changed. On SQLite that is a read of a page in
memory. On PostgreSQL requests that arrive while one asks share the next asking.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from unfit.data.encoding import Absent
from unfit.data.objects import ObjectEncoder
from unfit.errors import BadInput, Unavailable
from unfit.store.watching import Seen, Watch
from unfit.workspace import Workspace
from unfit.workspace.in_use import InUse
from unfit.workspace.list_format import Position
from unfit.workspace.list_watch import ListWatch
from unfit.workspace.loaded import Scorer

ASK_SECONDS = 5.0


class Pulse:
    """What a Watch says, asked once for all who ask at the same time."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._thread = ThreadPoolExecutor(1, "pulse")
        self._next: asyncio.Future[Seen] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def seen(self) -> Seen:
        if self._watch.local:
            return self._watch.ask()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._next)

    async def _ask(self) -> None:
        while self._next is not None:
            waiting, self._next = self._next, None
            try:
                waiting.set_result(await self._from_afar())
            except Exception as error:
                waiting.set_exception(error)
        self._asking = None

    async def _from_afar(self) -> Seen:
        """Over PostgreSQL; a connection that is lost is made again, once."""
        loop = asyncio.get_running_loop()
        for last in (False, True):
            try:
                if not self._watch.is_open:
                    await loop.run_in_executor(self._thread, self._watch.open)
                async with asyncio.timeout(ASK_SECONDS):
                    return await self._heard(loop)
            except Exception as error:
                self._watch.close()
                if last:
                    said = str(error).strip()[:200] or "no answer"
                    raise Unavailable(f"the database says: {said}") from None
        raise AssertionError

    async def _heard(self, loop: asyncio.AbstractEventLoop) -> Seen:
        answer: asyncio.Future[Seen] = loop.create_future()

        def readable() -> None:
            try:
                found = self._watch.hear()
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
                return
            if found is not None and not answer.done():
                answer.set_result(found)

        handle = self._watch.send()
        loop.add_reader(handle, readable)
        try:
            return await answer
        finally:
            loop.remove_reader(handle)

    def close(self) -> None:
        self._thread.shutdown()
        self._watch.close()


@dataclass(frozen=True)
class Scoring:
    """A version that can answer for rows as JSON objects."""

    scorer: Scorer
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
        names = self.scorer.card.classes
        P = self.scorer.probabilities(X)
        best = np.argmax(P, axis=1).tolist()
        answers = [
            {"class": names[j], "probabilities": dict(zip(names, p, strict=True))}
            for j, p in zip(best, P.tolist(), strict=True)
        ]
        return answers, absent


class Current:
    """Loads a version when there is a new one; those who need it wait for it, nobody else."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._in_use = workspace, InUse(workspace.store, workspace.artifacts)
        self._list_watch = ListWatch(workspace.deletions)
        self._loading = asyncio.Lock()
        self._place: object = None
        self._have: _Loaded | None = None

    async def scoring(self, seen: Seen) -> Scoring:
        have, listed = self._have, self._workspace.deletions
        if have is not None and have.fits(seen) and listed.agrees(have.known):
            return have.scoring
        async with self._loading:
            have = self._have
            if have is None or not have.fits(seen):
                have = await asyncio.to_thread(self._load, seen)
            if not await asyncio.to_thread(self._list_watch.may_answer, have.known):
                raise Unavailable("people on the deletion list are being forgotten; try again soon")
            self._have = have
            return have.scoring

    def _load(self, seen: Seen) -> "_Loaded":
        if self._place not in (None, seen.place):
            self._list_watch.start_over()
        self._place = seen.place
        model = self._workspace.store.model()  # first: what is loaded is at least as new
        scorer = self._in_use.scorer()
        before = None if self._have is None else self._have.scoring
        if before is not None and before.scorer.card is scorer.card:  # as most versions do
            made = Scoring(scorer, before.encoder)
        else:
            made = Scoring(scorer, ObjectEncoder(scorer.card.encoding))
        return _Loaded(model.changes, seen.place, made, Position.parse(model.list_known))


@dataclass(frozen=True)
class _Loaded:
    """What answers, and as of which change and how much of the deletion list."""

    changes: int
    place: object
    scoring: Scoring
    known: Position | None

    def fits(self, seen: Seen) -> bool:
        return self.changes == seen.changes and self.place == seen.place
