"""Errors as problem+json (RFC 9457): a status, a title, a sentence for the one who asked."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteException

from unfit.errors import BadInput, CannotTrain, Damaged, Unavailable, UnfitError, Untrained
from unfit.store.errors import KeyUsed, NotWaiting, QueueFull

MEDIA = "application/problem+json"


class Problem(HTTPException):
    """What went wrong, for the one who asked."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        fields: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.fields = fields


def render(problem: StarletteException) -> Response:
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "detail": str(problem.detail),
    }
    fields = getattr(problem, "fields", ())
    if fields:
        content["errors"] = list(fields)
    return JSONResponse(content, problem.status_code, problem.headers, media_type=MEDIA)


NOT_NOW = "The service cannot answer now; its log says why."


def for_request(request: Request, error: UnfitError) -> Problem:
    """A sentence for whoever asked. What a database or a disk says goes to the log, and to those
    whose token is known; it names hosts, files and users. That there is no model yet names none."""
    problem = from_error(error)
    if problem.status_code >= 500 and not isinstance(error, Untrained):
        request.state.trouble = str(error)
        if getattr(request.state, "principal", None) is None:
            return Problem(problem.status_code, NOT_NOW, headers=problem.headers)
    return problem


def from_error(error: UnfitError) -> Problem:
    """The status a sentence of ours goes with."""
    if isinstance(error, QueueFull):
        return Problem(429, str(error), headers={"Retry-After": "2"})
    if isinstance(error, KeyUsed | NotWaiting | CannotTrain):
        return Problem(409, str(error))
    if isinstance(error, BadInput):
        return Problem(422, str(error))
    if isinstance(error, Unavailable):
        return Problem(503, str(error), headers={"Retry-After": "2"})
    assert isinstance(error, Damaged), error
    return Problem(500, str(error))


def from_validation(error: RequestValidationError) -> Problem:
    fields = [
        {"field": ".".join(str(part) for part in one["loc"]), "message": str(one["msg"])}
        for one in error.errors()
    ]
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return Problem(400, "the body is not JSON", fields=fields)
    first = fields[0] if fields else {"field": "the request", "message": "cannot be used"}
    return Problem(422, f"{first['field']}: {first['message']}", fields=fields)
