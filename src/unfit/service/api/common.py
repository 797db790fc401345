"""What the resources share: the service's context, paging, errors in the schema."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request

from unfit.service.api import schemas
from unfit.service.auth import GuardedRoute
from unfit.service.context import ServiceContext

Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Before = Annotated[
    int | None, Query(ge=1, lt=2**63, description="Those below this; `next` of the page before.")
]
Number = Annotated[int, Path(ge=1, lt=2**63)]
Item = TypeVar("Item")

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": said,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
    for status, said in {
        400: "Not to be read.",
        401: "No token, or one that is not known.",
        403: "A token without the role.",
        404: "Not there.",
        405: "Not that way.",
        408: "Too slow.",
        409: "Not in this state.",
        413: "Too large.",
        415: "Of a kind that is not taken.",
        422: "Not to be used; the detail says why.",
        429: "Too much at once; see Retry-After.",
        503: "Not now; see Retry-After.",
    }.items()
}


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route may answer with, beside those that any may."""
    return {status: PROBLEMS[status] for status in (400, 401, 403, 405, 422, 429, 503, *more)}


def router(tag: str, route_class: type[GuardedRoute] = GuardedRoute) -> APIRouter:
    return APIRouter(prefix="/v1", route_class=route_class, tags=[tag])


def context_of(request: Request) -> ServiceContext:
    found = request.app.state.context
    assert isinstance(found, ServiceContext)
    return found


def page(found: Sequence[Item], limit: int, number: str) -> tuple[list[Item], int | None]:
    """The newest first, and where the next page begins; `found` holds one more if there is one."""
    newest = list(reversed(found))
    more = len(newest) > limit
    newest = newest[:limit]
    return newest, int(getattr(newest[-1], number)) if more else None


__all__ = ["Before", "Limit", "Number", "context_of", "page", "problems", "router", "schemas"]
