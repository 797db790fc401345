"""JSON bodies, read so that nothing in them is passed over: no key may be there twice."""

import json
from typing import Any

from fastapi import Request

from unfit.data.text import shorten
from unfit.service.problems import Problem


class StrictRequest(Request):
    """A request whose JSON has every key once; FastAPI would take the last one in silence."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), object_pairs_hook=_once)
        return self._json


def require_single_keys(body: bytes, rows: list[dict[str, Any]]) -> None:
    """Of a body {"rows": [...]} that was read already.

    Every key has a colon: where there are no more colons than keys, no key was there twice. Only
    other bodies, with colons in texts, are read again.
    """
    if body.count(b":") > 1 + sum(map(len, rows)):
        try:
            json.loads(body, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            raise Problem(400, "the body is not JSON") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Problem(422, f"the body has the key {shorten(twice)} twice; each may be there once")
    return made
