"""What the resources share: routers, and the errors in the schema."""

from typing import Any

from fastapi import APIRouter

from unfit.service.auth import GuardedRoute

MEANINGS = {
    400: "The request cannot be parsed.",
    401: "The token is missing or unknown.",
    403: "The token lacks the required role.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The body arrived too slowly.",
    409: "Not possible in the present state.",
    410: "It was handed out before, or its time is over.",
    413: "The body is too large.",
    415: "Unsupported media type.",
    422: "The request is invalid; the detail says why.",
    429: "Too many requests; see Retry-After.",
    503: "Temporarily unavailable; see Retry-After.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
    for status, meaning in MEANINGS.items()
}


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route may answer with, in addition to those that any route may."""
    return {status: PROBLEMS[status] for status in (400, 401, 403, 405, 422, 429, 503, *more)}


def router(tag: str, route_class: type[GuardedRoute] = GuardedRoute) -> APIRouter:
    return APIRouter(prefix="/v1", route_class=route_class, tags=[tag])
