"""Erasures followed over server-sent events: one query at a time serves all streams of a process.

A stream ends when its erasure is settled, after FOLLOW_SECONDS, and when its token is revoked or
its session ends. The number of streams is limited per token and per process.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from unfit.errors import UnfitError
from unfit.service.auth import Principal, principal_of
from unfit.service.context import ServiceContext
from unfit.service.problems import Problem
from unfit.service.usecases import erasures
from unfit.service.usecases.erasures import Erasure

MAX_STREAMS = 200  # per process
MAX_STREAMS_PER_TOKEN = 20
FOLLOW_SECONDS = 600.0
POLL_SECONDS = 0.2
POLLS_PER_TOKEN_CHECK = 5  # one second
KEEP_ALIVE_SECONDS = 10.0  # between comments on a stream where nothing happens
BEGIN_SECONDS = 10.0  # for an admitted subscriber to start reading


@dataclass(eq=False, kw_only=True)
class Subscriber:
    id: int  # of the erasure
    principal: Principal
    state: str
    admitted_at: float
    begun: bool = False
    ended: bool = False
    news: Erasure | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class EventStreams:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._subscribers: set[Subscriber] = set()
        self._polling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._subscribers)

    def respond(
        self, request: Request, first: Erasure, encode: Callable[[Erasure], str]
    ) -> StreamingResponse:
        """The states of an erasure, each as one event, until it is settled."""
        subscriber = self._admit(first, principal_of(request))

        def event(erasure: Erasure) -> bytes:
            state = erasure.request.state
            return f"event: state\nid: {state}\ndata: {encode(erasure)}\n\n".encode()

        async def events() -> AsyncIterator[bytes]:
            yield event(first)
            async for erasure in self._changes(subscriber):
                yield b": still waiting\n\n" if erasure is None else event(erasure)

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    def _admit(self, erasure: Erasure, principal: Principal) -> Subscriber:
        self._drop_absent()
        own = sum(s.principal.token.id == principal.token.id for s in self._subscribers)
        if own >= MAX_STREAMS_PER_TOKEN:
            raise Problem(
                429,
                f"This token already follows {own} erasures. Close a stream, or read the state of "
                "the erasure instead.",
                headers={"Retry-After": "5"},
            )
        if len(self._subscribers) >= MAX_STREAMS:
            raise Problem(
                429,
                "Too many erasures are being followed. Try again later, or read the state of the "
                "erasure instead.",
                headers={"Retry-After": "5"},
            )
        made = Subscriber(
            id=erasure.request.id,
            principal=principal,
            state=erasure.request.state,
            admitted_at=time.monotonic(),
        )
        self._subscribers.add(made)
        return made

    async def _changes(self, subscriber: Subscriber) -> AsyncIterator[Erasure | None]:
        """New states as they come, None now and then while there are none; then the end."""
        subscriber.begun = True
        try:
            until = time.monotonic() + FOLLOW_SECONDS
            while (
                subscriber.state == "pending" and not subscriber.ended and time.monotonic() < until
            ):
                if self._polling is None or self._polling.done():
                    self._polling = asyncio.create_task(self._poll())
                with suppress(TimeoutError):
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await subscriber.woken.wait()
                subscriber.woken.clear()
                news, subscriber.news = subscriber.news, None
                if not subscriber.ended:
                    yield news
        finally:
            self._subscribers.discard(subscriber)

    async def _poll(self) -> None:
        """As long as there is a subscriber."""
        for turn in itertools.count(1):
            await asyncio.sleep(POLL_SECONDS)
            self._drop_absent()
            if not self._subscribers:
                return
            with suppress(UnfitError):  # the database may come back
                await self._publish()
                if turn % POLLS_PER_TOKEN_CHECK == 0:
                    await self._end_revoked()

    async def _publish(self) -> None:
        waiting = [s for s in self._subscribers if s.state == "pending"]
        ids = sorted({s.id for s in waiting})
        states = await run_in_threadpool(self._read_states, ids)
        settled = [id for id in ids if states.get(id) not in (None, "pending")]
        news = {id: await run_in_threadpool(erasures.read, self._context, id) for id in settled}
        for subscriber in waiting:
            if subscriber.id in news:
                subscriber.state, subscriber.news = states[subscriber.id], news[subscriber.id]
                subscriber.woken.set()

    def _read_states(self, ids: Sequence[int]) -> Mapping[int, str]:
        found = self._context.store.requests.find(ids=list(ids), with_items=False)
        return {request.id: request.state for request in found}

    async def _end_revoked(self) -> None:
        principals = {_identity(s.principal): s.principal for s in self._subscribers}
        valid = await run_in_threadpool(
            lambda: {key: self._is_valid(principal) for key, principal in principals.items()}
        )
        for subscriber in list(self._subscribers):
            if not valid.get(_identity(subscriber.principal), True):
                subscriber.ended = True
                subscriber.woken.set()

    def _is_valid(self, principal: Principal) -> bool:
        context = self._context
        return context.tokens.is_valid(principal.token, principal.session, context.clock())

    def _drop_absent(self) -> None:
        """Forget subscribers who left before they read anything."""
        late = time.monotonic() - BEGIN_SECONDS
        self._subscribers -= {s for s in self._subscribers if not s.begun and s.admitted_at < late}


def _identity(principal: Principal) -> tuple[int, str | None]:
    return principal.token.id, principal.session


def streams_of(request: Request) -> EventStreams:
    found = request.app.state.event_streams
    assert isinstance(found, EventStreams)
    return found
