"""Whom a request names, as people give it: ids and keys as checked text."""

from collections.abc import Iterable, Sequence

from unfit.errors import BadInput
from unfit.store.records import IdKind
from unfit.workspace.forgetting import Ids, Resolved


def ids_of(subjects: Iterable[object], rows: Iterable[object]) -> list[tuple[IdKind, str]]:
    """All ids of a request, checked, in one order."""
    for given, what in ((subjects, "subjects"), (rows, "rows")):
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise BadInput(f"{what} must be a list of ids, not {given!r}")
    ids: list[tuple[IdKind, str]] = [("subject", _id(value, "subject")) for value in subjects]
    ids += [("row", _id(value, "row")) for value in rows]
    if not ids:
        raise BadInput("the request names nobody; give subjects or rows")
    return sorted(ids)  # the same request in whatever order


def _id(value: object, what: str) -> str:
    if value is None or isinstance(value, bool | bytes):
        raise BadInput(f"{value!r} is no {what} id; ids are texts or numbers")
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return text_of(text, f"a {what} id")


def text_of(text: str, what: str) -> str:
    if not text or "\0" in text:
        raise BadInput(f"{what} is empty or holds a zero byte")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} is not text in UTF-8") from None
    return text


def named(ids: Ids, outcomes: Sequence[tuple[str, int]], wanted: str) -> tuple[str, ...]:
    pairs = zip(ids, outcomes, strict=True)
    return tuple(value for (_, value), (outcome, _) in pairs if outcome == wanted)


def refuse(ids: Ids, resolved: Resolved) -> None:
    for wanted, said in (("unknown", "unknown"), ("repeated", "forgotten already or named twice")):
        found = named(ids, resolved.outcomes, wanted)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise BadInput(f"{found[0]!r}{more}: {said}; nothing was changed (--strict)")
