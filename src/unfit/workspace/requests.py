"""Requests: which people and rows they name, and what becomes of each id. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from unfit.data.dataset import Dataset
from unfit.data.ids import id_text, spellings, trim
from unfit.errors import BadInput, MatchedNobody
from unfit.store.records import IdKind, ItemOutcome, Request
from unfit.store.store import Store

Ids = Sequence[tuple[IdKind, str]]
FEW = 200  # ids of a request that are compared with spellings of the forgotten


@dataclass(frozen=True)
class Selection:
    """Which rows a request names.

    outcomes: for each id, what becomes of it and how many rows it has. ids: those that have rows,
    for the deletion list. digests: of everybody who is forgotten, to be kept. subjects: how many
    ids have rows, those of single rows among them.
    """

    positions: np.ndarray
    outcomes: list[tuple[ItemOutcome, int]]
    ids: list[tuple[IdKind, str]]
    digests: list[tuple[IdKind, str]]

    @property
    def subjects(self) -> int:
        return sum(outcome == "forgotten" for outcome, _ in self.outcomes)


def resolve(ids: Ids, dataset: Dataset, store: Store, live: np.ndarray) -> Selection:
    """Look every id up. An id that is named twice, or was forgotten before, is repeated."""
    taken = np.zeros(dataset.n, np.bool_)
    outcomes: list[tuple[ItemOutcome, int] | None] = []
    found: list[tuple[IdKind, str]] = []
    absent: list[int] = []
    for i, (kind, value) in enumerate(ids):
        positions = _positions(dataset, kind, value, live)
        if positions is None:
            absent.append(i)
            outcomes.append(None)
            continue
        new = positions[~taken[positions]]
        taken[new] = True
        outcomes.append(("forgotten", len(new)) if len(new) else ("repeated", 0))
        if len(new):
            found.append((kind, dataset.spelling(kind, value)))
    before = forgotten_before(store, [ids[i] for i in absent])
    for i in absent:
        outcomes[i] = ("repeated" if ids[i] in before else "unknown", 0)
    positions = np.flatnonzero(taken)
    settled = [o for o in outcomes if o is not None]
    return Selection(positions, settled, found, _digests(positions, found, dataset, store, live))


def forgotten_before(store: Store, ids: Ids) -> set[tuple[IdKind, str]]:
    """Which of these ids, with or without the blanks around them, were forgotten."""
    digests = {
        pair: {(pair[0], store.digest(pair[0], text)) for text in (pair[1], trim(pair[1]))}
        for pair in ids
    }
    known = store.forgotten.known_digests([one for each in digests.values() for one in each])
    return {pair for pair, each in digests.items() if each & known}


def near_spellings(ids: Ids, dataset: Dataset, store: Store) -> dict[str, Sequence[str]]:
    """For ids that matched nobody: close spellings that somebody remembered here has."""
    found: dict[tuple[IdKind, str], list[str]] = {}
    for kind in get_args(IdKind):
        texts = list(dict.fromkeys(value for of, value in ids if of == kind))
        if texts:
            near = dataset.near(kind, texts)
            found |= {(kind, text): each for text, each in zip(texts, near, strict=True) if each}
    offered: Ids = [(kind, text) for (kind, _), each in found.items() for text in each]
    gone = forgotten_before(store, offered)  # their bytes leave a moment later
    left = {pair: [t for t in each if (pair[0], t) not in gone] for pair, each in found.items()}
    return {value: each for (_, value), each in left.items() if each}


def forgotten_spellings(ids: Ids, store: Store) -> dict[str, str]:
    """For ids that matched nobody: a close spelling of somebody who was forgotten before."""
    ways = {pair: [(pair[0], text) for text in spellings(pair[1])] for pair in ids[:FEW]}
    known = forgotten_before(store, [way for each in ways.values() for way in each])
    found = {
        value: [text for kind, text in each if (kind, text) in known]
        for (_, value), each in ways.items()
    }
    return {value: texts[0] for value, texts in found.items() if texts}


def _positions(dataset: Dataset, kind: IdKind, value: str, live: np.ndarray) -> np.ndarray | None:
    """The live rows that an id names; None if there are none."""
    if kind == "subject":
        positions = dataset.subject_rows(value)
    else:
        at = dataset.row(value)
        positions = None if at is None else np.array([at])
    if positions is None:
        return None
    positions = positions[live[positions]]
    return positions if len(positions) else None


def _digests(
    positions: np.ndarray, found: Ids, dataset: Dataset, store: Store, live: np.ndarray
) -> list[tuple[IdKind, str]]:
    """Digests of the ids named, of every row that goes, and of subjects who lose their last row."""
    made: dict[tuple[IdKind, str], None] = {}
    for kind, value in found:
        made[kind, store.digest(kind, value)] = None
    after = live.copy()
    after[positions] = False
    starts, rows = dataset["subject_starts"], dataset["subject_rows"]
    for place in np.unique(dataset["subjects"][positions]):
        text = dataset.subject_ids.text(int(place))
        if text is not None and not after[rows[starts[place] : starts[place + 1]]].any():
            made["subject", store.digest("subject", text)] = None
    for text in row_texts(dataset, positions):
        made["row", store.digest("row", text)] = None
    known = store.forgotten.known_digests(list(made))
    return [key for key in made if key not in known]


def row_texts(dataset: Dataset, positions: np.ndarray) -> list[str]:
    """The row ids of positions, as people name them."""
    if dataset.row_ids is None:
        return [str(number) for number in dataset["numbers"][positions].tolist()]
    places = np.flatnonzero(np.isin(dataset["row_rows"], positions))
    texts = (dataset.row_ids.text(int(place)) for place in places)
    return [text for text in texts if text is not None]


def all_ids(requests: Sequence[Request]) -> tuple[list[int], list[tuple[IdKind, str]]]:
    """Item numbers and ids of pending requests, in order."""
    items = [item for request in requests for item in request.items if item.value is not None]
    return [item.id for item in items], [(item.kind, item.value or "") for item in items]


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


def refuse(ids: Ids, selection: Selection, near: Mapping[str, Sequence[str]]) -> None:
    """Raise if an id would forget nobody: for `strict`."""
    kinds: tuple[tuple[str, str, type[BadInput]], ...] = (
        ("unknown", "matched nobody", MatchedNobody),
        ("repeated", "forgotten already or named twice", BadInput),
    )
    for wanted, said, kind in kinds:
        found = named(ids, selection.outcomes, wanted)
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            hint = meant(near.get(found[0], ()))
            raise kind(f"{found[0]!r}{more}: {said}{hint}; nothing was changed (--strict)")


def meant(spellings: Sequence[str]) -> str:
    """Close spellings, as a question to add to a sentence."""
    return f" (did you mean {' or '.join(map(repr, spellings))}?)" if spellings else ""
