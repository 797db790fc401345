"""Numbers of records in addresses, and lists in pages: newest first."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Path, Query

Number = Annotated[int, Path(ge=1, lt=2**63)]
Before = Annotated[
    int | None,
    Query(ge=1, lt=2**63, description="Only entries below this; `next` of the previous page."),
]
Limit = Annotated[int, Query(ge=1, le=500, description="The maximum number of entries.")]
Item = TypeVar("Item")


def newest_first(found: Sequence[Item], limit: int, number: str) -> tuple[list[Item], int | None]:
    """A page and where the next one begins; `found` is in order and has one entry more than fits
    if there is another page."""
    page = list(reversed(found))[:limit]
    return page, int(getattr(page[-1], number)) if len(found) > limit else None
