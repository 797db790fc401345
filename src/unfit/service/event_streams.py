"""Those who follow erasures over server-sent events: one asking for all of them in a process.

A follower ends when its erasure is settled, after FOLLOW_SECONDS, and when its token is revoked or
its session ends. One token may follow so many, and a process so many more.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from unfit.errors import UnfitError
from unfit.service.auth import Principal
from unfit.service.problems import Problem

FOLLOWERS = 200  # connections a process
OF_ONE_TOKEN = 20
FOLLOW_SECONDS = 600.0
ASK_SECONDS = 0.2
TURNS = 5  # of asking, between looks at tokens: a second
STILL_SECONDS = 10.0  # between signs of life to who waits
BEGIN_SECONDS = 10.0  # for a follower that was admitted to begin to read

Answer = TypeVar("Answer")


@dataclass(eq=False)
class Subscriber(Generic[Answer]):
    id: int
    principal: Principal
    state: str
    admitted_at: float
    begun: bool = False
    ended: bool = False
    told: Answer | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class EventQueries(Generic[Answer]):
    """What the followers of a process ask, and of whom."""

    states: Callable[[Sequence[int]], Mapping[int, str]]  # of erasures, by their ids
    read: Callable[[int], Answer]
    may_stay: Callable[[Principal], bool]


class EventStreams(Generic[Answer]):
    def __init__(self, asking: EventQueries[Answer]) -> None:
        self._asking = asking
        self._followers: set[Subscriber[Answer]] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._followers)

    def admit(self, id: int, principal: Principal, state: str) -> Subscriber[Answer]:
        """One more, or a problem."""
        self._drop_absent()
        mine = sum(f.principal.token.id == principal.token.id for f in self._followers)
        if mine >= OF_ONE_TOKEN:
            raise Problem(
                429,
                f"this token follows {mine} erasures already; end one, or ask for its state",
                headers={"Retry-After": "5"},
            )
        if len(self._followers) >= FOLLOWERS:
            raise Problem(429, "too many follow erasures already", headers={"Retry-After": "5"})
        made = Subscriber[Answer](id, principal, state, time.monotonic())
        self._followers.add(made)
        return made

    async def changes(self, follower: Subscriber[Answer]) -> AsyncIterator[Answer | None]:
        """New states as they come, None now and then while there are none; then the end."""
        follower.begun = True
        try:
            until = time.monotonic() + FOLLOW_SECONDS
            while follower.state == "pending" and not follower.ended and time.monotonic() < until:
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._ask())
                with suppress(TimeoutError):
                    async with asyncio.timeout(STILL_SECONDS):
                        await follower.woken.wait()
                follower.woken.clear()
                told, follower.told = follower.told, None
                if not follower.ended:
                    yield told
        finally:
            self._followers.discard(follower)

    async def _ask(self) -> None:
        """While anybody follows anything."""
        for turn in itertools.count(1):
            await asyncio.sleep(ASK_SECONDS)
            self._drop_absent()
            if not self._followers:
                return
            with suppress(UnfitError):  # the database may come back
                await self._look()
                if turn % TURNS == 0:
                    await self._end_refused()

    async def _end_refused(self) -> None:
        people = {(f.principal.token.id, f.principal.session): f.principal for f in self._followers}
        stay = await run_in_threadpool(
            lambda: {key: self._asking.may_stay(one) for key, one in people.items()}
        )
        for f in list(self._followers):
            if not stay.get((f.principal.token.id, f.principal.session), True):
                f.ended = True
                f.woken.set()

    async def _look(self) -> None:
        waiting = [f for f in self._followers if f.state == "pending"]
        ids = sorted({f.id for f in waiting})
        states = await run_in_threadpool(self._asking.states, ids)
        moved = [id for id in ids if states.get(id) not in (None, "pending")]
        news = {id: await run_in_threadpool(self._asking.read, id) for id in moved}
        for f in waiting:
            if f.id in news:
                f.state, f.told = states[f.id], news[f.id]
                f.woken.set()

    def _drop_absent(self) -> None:
        """Those who left before they read anything."""
        late = time.monotonic() - BEGIN_SECONDS
        self._followers -= {f for f in self._followers if not f.begun and f.admitted_at < late}
