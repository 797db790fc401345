"""Whom a request names, as people give it: ids and keys as checked text."""

from collections.abc import Iterable, Mapping, Sequence

from unfit.data.ids import id_text
from unfit.errors import BadInput, MatchedNobody
from unfit.store.records import IdKind
from unfit.workspace.forgetting import Ids, Resolved


def ids_of(subjects: Iterable[object], rows: Iterable[object]) -> list[tuple[IdKind, str]]:
    """All ids of a request, checked, in one order."""
    for given, what in ((subjects, "subjects"), (rows, "rows")):
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise BadInput(f"{what} must be a list of ids, not {given!r}")
    ids: list[tuple[IdKind, str]] = [
        ("subject", id_text(value, "subject id")) for value in subjects
    ]
    ids += [("row", id_text(value, "row id")) for value in rows]
    if not ids:
        raise BadInput("the request names nobody; give subjects or rows")
    return sorted(ids)  # the same request in whatever order


def named(ids: Ids, outcomes: Sequence[tuple[str, int]], wanted: str) -> tuple[str, ...]:
    pairs = zip(ids, outcomes, strict=True)
    return tuple(value for (_, value), (outcome, _) in pairs if outcome == wanted)


def refuse(ids: Ids, resolved: Resolved, near: Mapping[str, Sequence[str]]) -> None:
    """What `strict` makes of ids that forget nobody."""
    kinds: tuple[tuple[str, str, type[BadInput]], ...] = (
        ("unknown", "matched nobody", MatchedNobody),
        ("repeated", "forgotten already or named twice", BadInput),
    )
    for wanted, said, kind in kinds:
        found = named(ids, resolved.outcomes, wanted)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            hint = meant(near.get(found[0], ()))
            raise kind(f"{found[0]!r}{more}: {said}{hint}; nothing was changed (--strict)")


def meant(spellings: Sequence[str]) -> str:
    """Near spellings, as a question to add to a sentence."""
    return f" (did you mean {' or '.join(map(repr, spellings))}?)" if spellings else ""
