"""Erasures: filed at once, applied by a worker, followed until they are in force."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from unfit.service.api.common import Before, Limit, Number, context_of, page, problems, router
from unfit.service.api.schemas import ErasureIn, ErasureOut, ErasuresOut, LookupIn, LookupOut
from unfit.service.auth import Principal, allow, principal_of
from unfit.service.context import ServiceContext
from unfit.service.event_streams import EventQueries, EventStreams
from unfit.service.problems import Problem
from unfit.service.usecases import erasures as usecase
from unfit.store.records import RequestState

KEYS = r"^[\x21-\x7e]+$"

routes = router("erasures")
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=KEYS,
        description="The same key with the same body is the same request, however often it is sent."
        " Use a random one; it is kept.",
    ),
]


@routes.post("/erasures", status_code=202, summary="File an erasure", responses=problems(409, 413))
@allow("erase")
async def file(
    request: Request, response: Response, body: ErasureIn, idempotency_key: Key = None
) -> ErasureOut:
    """Answered at once; the worker applies all that wait together. Ids that match nobody, or that
    were forgotten before, are not an error: the outcome of each is told, and `near` names spellings
    close to the former that do exist."""
    context = context_of(request)
    made = await run_in_threadpool(
        usecase.submit,
        context,
        body.subjects,
        body.rows,
        idempotency_key,
        principal_of(request).token.public,
    )
    near = await run_in_threadpool(usecase.near, context, body.subjects, body.rows)
    response.headers["Location"] = f"/v1/erasures/{made.id}"
    return ErasureOut.of(made, with_items=True, near=near)


@routes.get("/erasures", summary="List erasures", responses=problems())
@allow("erase", "audit", "operate")
def list_erasures(
    request: Request,
    state: RequestState | None = None,
    limit: Limit = 50,
    before: Before = None,
) -> ErasuresOut:
    """The newest first."""
    found = context_of(request).store.requests.find(
        state=state, before=before, last=limit + 1, with_items=False
    )
    items, more = page(found, limit, "id")
    return ErasuresOut(items=[ErasureOut.of(r) for r in items], next=more)


@routes.get("/erasures/{id}", summary="Read an erasure", responses=problems(404))
@allow("erase", "audit", "operate")
def read(request: Request, id: Number) -> ErasureOut:
    """With what became of each id, and the decision it led to."""
    return _read(context_of(request), id)


@routes.delete("/erasures/{id}", summary="Cancel an erasure", responses=problems(404, 409))
@allow("erase")
def cancel(request: Request, id: Number) -> ErasureOut:
    """Only while it waits."""
    context = context_of(request)
    _read(context, id)
    context.store.requests.cancel(id, context.clock())
    return _read(context, id)


@routes.get(
    "/erasures/{id}/events",
    summary="Follow an erasure",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events `state`, each with the erasure as JSON, until it is "
            "settled.",
            "content": {"text/event-stream": {}},
        },
        **problems(404),
    },
)
@allow("erase", "audit", "operate")
async def events(request: Request, id: Number) -> StreamingResponse:
    """Server-sent events."""
    context = context_of(request)
    first = await run_in_threadpool(_read, context, id, False)
    return follow(request, id, first)


@routes.post("/subjects/lookup", summary="Look a person up", responses=problems())
@allow("erase")
async def lookup(request: Request, body: LookupIn) -> LookupOut:
    """Whether the model remembers them, the erasures that named them, and for an id that nobody
    has, near spellings that somebody has."""
    found = await run_in_threadpool(usecase.look_up, context_of(request), str(body.subject))
    return LookupOut(
        purged=found.purged,
        kept_for_audit_until=found.kept_until,
        state=found.state,
        rows=found.rows,
        near=list(found.near),
        erasures=[ErasureOut.of(r) for r in found.erasures],
    )


def _read(context: ServiceContext, id: int, with_items: bool = True) -> ErasureOut:
    found = context.store.requests.find(ids=[id], with_items=with_items)
    if not found:
        raise Problem(404, f"there is no erasure {id}")
    return ErasureOut.of(found[0], context.store.decisions.on(found[0]), with_items=with_items)


def event_streams(context: ServiceContext) -> EventStreams[ErasureOut]:
    """All who follow erasures in this process."""

    def states(ids: Sequence[int]) -> dict[int, str]:
        return {r.id: r.state for r in context.store.requests.find(ids=list(ids), with_items=False)}

    def may_stay(principal: Principal) -> bool:
        return context.access.is_valid(principal.token, principal.session, context.clock())

    return EventStreams(
        EventQueries(states=states, read=lambda id: _read(context, id, False), may_stay=may_stay)
    )


def follow(request: Request, id: int, first: ErasureOut) -> StreamingResponse:
    """The states of an erasure as they come, until it is settled."""
    streams: EventStreams[ErasureOut] = request.app.state.event_streams
    follower = streams.admit(id, principal_of(request), first.state)

    async def states() -> AsyncIterator[bytes]:
        yield _event(first)
        async for found in streams.changes(follower):
            yield b": still waiting\n\n" if found is None else _event(found)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(states(), media_type="text/event-stream", headers=headers)


def _event(erasure: ErasureOut) -> bytes:
    text = json.dumps(erasure.model_dump(mode="json"))
    return f"event: state\nid: {erasure.state}\ndata: {text}\n\n".encode()
