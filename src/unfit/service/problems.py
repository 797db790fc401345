"""Errors as problem+json (RFC 9457): a status, a title and a sentence for the client."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteException

from unfit.errors import BadInput, CannotTrain, Damaged, Unavailable, UnfitError, Untrained
from unfit.service.usecases.errors import NotFinished, NotFound
from unfit.store.errors import KeyUsed, NotWaiting, QueueFull
from unfit.workspace.certificates import HandedOut, NoCertificate, Unsigned

MEDIA = "application/problem+json"


class Problem(HTTPException):
    """What went wrong, for the client."""

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


UNAVAILABLE = "The service is temporarily unavailable. Its log says why."


def for_request(request: Request, error: UnfitError) -> Problem:
    """What the client may know.

    What a database or a disk says names hosts, files and users: it goes to the log, and to clients
    whose token is known. That there is no model yet names none of them.
    """
    problem = from_error(error)
    if problem.status_code >= 500 and not isinstance(error, Untrained):
        request.state.trouble = str(error)
        if getattr(request.state, "principal", None) is None:
            return Problem(problem.status_code, UNAVAILABLE, headers=problem.headers)
    return problem


def from_error(error: UnfitError) -> Problem:
    """The status that goes with an error."""
    detail = sentence(str(error))
    if isinstance(error, QueueFull):
        return Problem(429, detail, headers={"Retry-After": "2"})
    if isinstance(error, NotFound | NoCertificate):
        return Problem(404, detail)
    if isinstance(error, HandedOut):
        return Problem(410, detail)
    if isinstance(error, KeyUsed | NotWaiting | NotFinished | CannotTrain | Unsigned):
        return Problem(409, detail)
    if isinstance(error, BadInput):
        return Problem(422, detail)
    if isinstance(error, Unavailable):
        return Problem(503, detail, headers={"Retry-After": "2"})
    assert isinstance(error, Damaged), error
    return Problem(500, detail)


def sentence(text: str) -> str:
    """Errors are written to follow `error:` on the command line; alone they are sentences.

    A first word that is a name, such as `unfit.toml` or `policy.disparity`, stays as it is.
    """
    first = text.partition(" ")[0].rstrip(",:;")
    if first.isalpha() and first.islower() and first != "unfit":
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def from_validation(error: RequestValidationError) -> Problem:
    fields = [
        {"field": ".".join(str(part) for part in one["loc"]), "message": str(one["msg"])}
        for one in error.errors()
    ]
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return Problem(400, "The body is not valid JSON.", fields=fields)
    first = fields[0] if fields else {"field": "request", "message": "The request is invalid"}
    return Problem(422, f"{first['field']}: {first['message']}.", fields=fields)
