"""What is known of a person, and spellings close to an id that matches nobody."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

import numpy as np

from unfit.data.dataset import Dataset
from unfit.errors import Damaged, Unavailable
from unfit.service.context import ServiceContext
from unfit.store.records import IdKind, Request
from unfit.store.store import Store
from unfit.workspace.requests import (
    Ids,
    forgotten_before,
    forgotten_spellings,
    ids_of,
    near_spellings,
)

TRIES = 10  # a retraining may replace the rows while they are opened
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Person:
    """What is known of an id: how many rows it has, and which erasures named it."""

    state: Literal["remembered", "waiting", "forgotten", "unknown"]
    rows: int = 0
    erasures: Sequence[Request] = ()
    near: Sequence[str] = ()  # for an unknown id: similar spellings that exist
    purged: bool | None = None  # for a forgotten person: whether none of their bytes are left
    kept_until: datetime | None = None  # deleted rows that may be theirs are kept for audits


@dataclass(frozen=True, kw_only=True)
class NearSpellings:
    """An id that matches nobody, and similar spellings that exist or were forgotten before."""

    kind: IdKind
    asked: str
    spellings: Sequence[str]
    forgotten_as: str | None


def find_near_spellings(
    context: ServiceContext, subjects: Sequence[object], rows: Sequence[object]
) -> list[NearSpellings]:
    """For those ids of a request that currently match nobody.

    Nothing of this is stored: it is for the caller, who knows the ids.
    """
    ids = ids_of(subjects, rows)

    def search(dataset: Dataset) -> list[NearSpellings]:
        absent: Ids = [pair for pair in ids if not _is_remembered(dataset, *pair)]
        gone = forgotten_before(context.store, absent) if absent else set()
        absent = [pair for pair in absent if pair not in gone]
        found = near_spellings(absent, dataset, context.store) if absent else {}
        before = forgotten_spellings(absent, context.store) if absent else {}
        return [
            NearSpellings(
                kind=kind,
                asked=text,
                spellings=tuple(found.get(text, ())),
                forgotten_as=before.get(text),
            )
            for kind, text in dict.fromkeys(absent)
            if text in found or text in before
        ]

    return _with_dataset(context, search) or []


def look_up(context: ServiceContext, subject: str) -> Person:
    """The records are asked first: rows leave the disk a moment after they are forgotten."""
    store = context.store
    if "\0" in subject or not subject.strip():  # no id looks like this, and no database takes it
        return Person(state="unknown")
    erasures = store.requests.find(about=("subject", subject), last=20, with_items=False)[::-1]
    if forgotten_before(store, [("subject", subject)]):
        return _forgotten(store, erasures)
    rows = _with_dataset(context, lambda dataset: _count_rows(dataset, subject))
    if not rows:
        found = find_near_spellings(context, [subject], [])
        near = [text for one in found for text in one.spellings]
        return Person(state="unknown", erasures=erasures, near=near)
    waits = any(request.state == "pending" for request in erasures)
    return Person(state="waiting" if waits else "remembered", rows=rows, erasures=erasures)


def _forgotten(store: Store, erasures: Sequence[Request]) -> Person:
    applied = [r for r in erasures if r.state == "applied" and r.tally.forgotten]
    kept = [r.kept_until for r in applied]
    if applied:
        erased = all(r.erased for r in applied)
        # single rows that are kept may be theirs: it is no longer known whose they were
        kept.append(store.versions.rows_retained_until())
    else:  # forgotten row by row, or by an erasure of a backup: any row that is kept may be theirs
        erased = not store.model.read().purge_due
        kept += [v.retained_until for v in store.versions.retained()]
    until = max((moment for moment in kept if moment is not None), default=None)
    purged = erased and until is None
    return Person(state="forgotten", erasures=erasures, purged=purged, kept_until=until)


def _is_remembered(dataset: Dataset, kind: str, text: str) -> bool:
    rows = dataset.subject_rows(text) if kind == "subject" else dataset.row(text)
    return rows is not None and (kind == "row" or bool(np.size(rows)))


def _count_rows(dataset: Dataset, subject: str) -> int:
    found = dataset.subject_rows(subject)
    return 0 if found is None else int(np.count_nonzero(dataset["live"][found]))


def _with_dataset(context: ServiceContext, search: Callable[[Dataset], Found]) -> Found | None:
    """Search the rows of the active version; None if it has none."""
    for _ in range(TRIES):
        version = context.store.versions.active()
        if version is None or version.generation is None:
            return None
        try:
            dataset = Dataset(context.workspace.layout.generation(version.generation))
        except Damaged:  # or a retraining has replaced it since we asked
            if context.store.versions.active() == version:
                raise
            continue
        return search(dataset)
    raise Unavailable("the model changes faster than it can be read; try again")
