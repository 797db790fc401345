"""Erasures: submitted here, applied by a worker."""

from collections.abc import Sequence
from dataclasses import dataclass

from unfit.errors import BadInput
from unfit.service.context import ServiceContext
from unfit.service.usecases.errors import NotFound
from unfit.store.records import Decision, Request

MAX_IDS = 10_000  # in one request


@dataclass(frozen=True)
class Erasure:
    """A request to forget, with the decision it led to."""

    request: Request
    decision: Decision | None = None


def submit(
    context: ServiceContext,
    subjects: Sequence[object],
    rows: Sequence[object],
    *,
    key: str | None,
    by: str,
) -> Request:
    """Store the request; a worker applies it."""
    count = len(subjects) + len(rows)
    if count > MAX_IDS:
        raise BadInput(
            f"the request names {count:,} ids; the limit is {MAX_IDS:,}, so split it into parts"
        )
    made = context.workspace.submit(
        subjects=subjects, rows=rows, key=key, by=by, limit=context.config.service.queue
    )
    return context.store.requests.find(key=made)[0]


def find(context: ServiceContext, id: int, *, with_items: bool = False) -> Request:
    found = context.store.requests.find(ids=[id], with_items=with_items)
    if not found:
        raise NotFound(f"there is no erasure {id}")
    return found[0]


def read(context: ServiceContext, id: int, *, with_items: bool = False) -> Erasure:
    request = find(context, id, with_items=with_items)
    return Erasure(request, context.store.decisions.on(request))


def cancel(context: ServiceContext, id: int) -> None:
    """Only possible while it is pending."""
    find(context, id)
    context.store.requests.cancel(id, context.clock())
