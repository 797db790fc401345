"""JSON bodies in which no key may appear twice, so that nothing in them is silently ignored."""

import json
from typing import Any

from fastapi import Request

from unfit.data.text import shorten
from unfit.service.problems import Problem


class StrictRequest(Request):
    """A request whose JSON has every key once; FastAPI would silently take the last one."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), object_pairs_hook=_once)
        return self._json


def require_single_keys(body: bytes, rows: list[dict[str, Any]]) -> None:
    """Check a body {"rows": [...]} that has already been parsed.

    Every key is followed by a colon: if there are no more colons than keys, no key appeared twice.
    Only other bodies, with colons in strings, are parsed again.
    """
    if body.count(b":") > 1 + sum(map(len, rows)):
        try:
            json.loads(body, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            raise Problem(400, "The body is not valid JSON.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Problem(422, f"The key {shorten(twice)} appears twice in a JSON object; remove one.")
    return made
