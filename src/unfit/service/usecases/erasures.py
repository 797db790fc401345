"""What the API and the dashboard both do with requests and people."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

import numpy as np

from unfit.data.dataset import Dataset
from unfit.errors import BadInput, Damaged, Unavailable
from unfit.service.api.schemas import NearOut
from unfit.service.context import ServiceContext
from unfit.store.records import Request
from unfit.store.store import Store
from unfit.workspace.requests import (
    Ids,
    forgotten_before,
    forgotten_spellings,
    ids_of,
    near_spellings,
)

MOST = 10_000  # ids of one request
Found = TypeVar("Found")


@dataclass(frozen=True)
class Person:
    """What is known of an id: with how many rows, and in which requests."""

    state: Literal["remembered", "waiting", "forgotten", "unknown"]
    rows: int
    erasures: Sequence[Request]
    near: Sequence[str] = ()  # of an unknown id: near spellings that do exist
    purged: bool | None = None  # of who is forgotten: whether no byte of theirs is left
    kept_until: datetime | None = None  # deleted rows that may be theirs are kept for audits


def submit(
    context: ServiceContext,
    subjects: Sequence[object],
    rows: Sequence[object],
    key: str | None,
    by: str,
) -> Request:
    """File a request; a worker takes it from there."""
    if len(subjects) + len(rows) > MOST:
        raise BadInput(f"{len(subjects) + len(rows):,} ids are over {MOST:,}; file them in context")
    made = context.workspace.submit(
        subjects=subjects, rows=rows, key=key, by=by, limit=context.config.service.queue
    )
    return context.store.requests.find(key=made)[0]


def near(
    context: ServiceContext, subjects: Sequence[object], rows: Sequence[object]
) -> list[NearOut]:
    """Of the ids of a request those that match nobody just now and have near spellings here.

    Nothing of it is kept: it is for who asks, who knows the ids.
    """
    ids = ids_of(subjects, rows)

    def look(dataset: Dataset) -> list[NearOut]:
        absent: Ids = [pair for pair in ids if not _remembered(dataset, *pair)]
        gone = forgotten_before(context.store, absent) if absent else set()
        absent = [pair for pair in absent if pair not in gone]
        found = near_spellings(absent, dataset, context.store) if absent else {}
        before = forgotten_spellings(absent, context.store) if absent else {}
        return [
            NearOut(
                kind=kind,
                asked=text,
                spellings=list(found.get(text, ())),
                forgotten_as=before.get(text),
            )
            for kind, text in dict.fromkeys(absent)
            if text in found or text in before
        ]

    return _looking(context, look) or []


def _remembered(dataset: Dataset, kind: str, text: str) -> bool:
    rows = dataset.subject_rows(text) if kind == "subject" else dataset.row(text)
    return rows is not None and (kind == "row" or bool(np.size(rows)))


def look_up(context: ServiceContext, subject: str) -> Person:
    """What the records say comes first: rows leave the disk a moment after they are forgotten."""
    store = context.store
    if "\0" in subject or not subject.strip():  # nobody's: no id is so, and no database takes it
        return Person("unknown", 0, ())
    erasures = store.requests.find(about=("subject", subject), last=20, with_items=False)[::-1]
    if forgotten_before(store, [("subject", subject)]):
        return _forgotten(store, erasures)
    rows = _looking(context, lambda dataset: _rows(dataset, subject))
    if not rows:
        spellings = [text for one in near(context, [subject], []) for text in one.spellings]
        return Person("unknown", 0, erasures, spellings)
    waits = any(request.state == "pending" for request in erasures)
    return Person("waiting" if waits else "remembered", rows, erasures)


def _forgotten(store: Store, erasures: Sequence[Request]) -> Person:
    applied = [r for r in erasures if r.state == "applied" and r.tally.forgotten]
    kept = [r.kept_until for r in applied]
    if applied:
        erased = all(r.erased for r in applied)
        kept.append(
            store.versions.rows_retained_until()
        )  # whose rows they were is not known any more
    else:  # row by row, or a backup's erasure: any that are kept may be theirs
        erased = not store.model.read().purge_due
        kept += [v.retained_until for v in store.versions.retained()]
    until = max((moment for moment in kept if moment is not None), default=None)
    return Person("forgotten", 0, erasures, purged=erased and until is None, kept_until=until)


def _rows(dataset: Dataset, subject: str) -> int:
    found = dataset.subject_rows(subject)
    return 0 if found is None else int(np.count_nonzero(dataset["live"][found]))


def _looking(context: ServiceContext, look: Callable[[Dataset], Found]) -> Found | None:
    """A look at the rows of the generation in use; None without one."""
    for _ in range(10):
        version = context.store.versions.active()
        if version is None or version.generation is None:
            return None
        try:
            dataset = Dataset(context.workspace.layout.generation(version.generation))
        except Damaged:  # or replaced by a retraining, since we asked
            if context.store.versions.active() == version:
                raise
            continue
        return look(dataset)
    raise Unavailable("the model changes faster than it can be read")
