"""Erasures: submitted at once, applied by a worker, followed until they are in force."""

from typing import Annotated

from fastapi import Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from unfit.service.api.common import problems, router
from unfit.service.api.schemas import ErasureIn, ErasureOut, ErasuresOut, LookupIn, LookupOut
from unfit.service.auth import allow, principal_of
from unfit.service.context import context_of
from unfit.service.event_streams import streams_of
from unfit.service.paging import Before, Limit, Number, newest_first
from unfit.service.usecases import erasures, lookup
from unfit.service.usecases.erasures import Erasure
from unfit.store.records import RequestState

routes = router("erasures")
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Sending the same key with the same body again is the same request. "
        "Use a random key; it is stored.",
    ),
]


@routes.post(
    "/erasures", status_code=202, summary="Submit an erasure", responses=problems(409, 413)
)
@allow("erase")
async def submit(
    request: Request, response: Response, body: ErasureIn, idempotency_key: Key = None
) -> ErasureOut:
    """Answered at once; the worker applies all pending erasures together. Ids that match nobody, or
    that were forgotten before, are not an error: the outcome of each id is reported, and `near`
    lists similar spellings that exist for ids that match nobody."""
    context, by = context_of(request), principal_of(request).token.public

    def work() -> ErasureOut:
        made = erasures.submit(context, body.subjects, body.rows, key=idempotency_key, by=by)
        near = lookup.find_near_spellings(context, body.subjects, body.rows)
        return ErasureOut.of(made, with_items=True, near=near)

    answer = await run_in_threadpool(work)
    response.headers["Location"] = f"/v1/erasures/{answer.id}"
    return answer


@routes.get("/erasures", summary="List erasures", responses=problems())
@allow("erase", "audit", "operate")
def list_erasures(
    request: Request,
    state: RequestState | None = None,
    limit: Limit = 50,
    before: Before = None,
) -> ErasuresOut:
    """Newest first."""
    found = context_of(request).store.requests.find(
        state=state, before=before, last=limit + 1, with_items=False
    )
    items, more = newest_first(found, limit, "id")
    return ErasuresOut(items=[ErasureOut.of(r) for r in items], next=more)


@routes.get("/erasures/{id}", summary="Read an erasure", responses=problems(404))
@allow("erase", "audit", "operate")
def read(request: Request, id: Number) -> ErasureOut:
    """With the outcome of each id, and the decision it led to."""
    return _with_items(erasures.read(context_of(request), id, with_items=True))


@routes.delete("/erasures/{id}", summary="Cancel an erasure", responses=problems(404, 409))
@allow("erase")
def cancel(request: Request, id: Number) -> ErasureOut:
    """Only possible while it is pending."""
    context = context_of(request)
    erasures.cancel(context, id)
    return _with_items(erasures.read(context, id, with_items=True))


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
    first = await run_in_threadpool(erasures.read, context_of(request), id)
    return streams_of(request).respond(request, first, _encode)


@routes.post("/subjects/lookup", summary="Look up a person", responses=problems())
@allow("erase")
def look_up(request: Request, body: LookupIn) -> LookupOut:
    """Whether the model remembers them, the erasures that named them and, for an unknown id,
    similar spellings that exist."""
    return LookupOut.of(lookup.look_up(context_of(request), str(body.subject)))


def _with_items(erasure: Erasure) -> ErasureOut:
    return ErasureOut.of(erasure.request, erasure.decision, with_items=True)


def _encode(erasure: Erasure) -> str:
    return ErasureOut.of(erasure.request, erasure.decision).model_dump_json()
