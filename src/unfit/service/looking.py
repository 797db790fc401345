"""What the API and the dashboard both do with requests and people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unfit.data.dataset import Dataset
from unfit.errors import BadInput, Damaged, Unavailable
from unfit.service.parts import Parts
from unfit.store.records import Request

MOST = 10_000  # ids of one request


@dataclass(frozen=True)
class Person:
    """What is known of an id: with how many rows, and in which requests."""

    state: Literal["remembered", "waiting", "forgotten", "unknown"]
    rows: int
    erasures: Sequence[Request]


def submit(
    parts: Parts, subjects: Sequence[object], rows: Sequence[object], key: str | None, by: str
) -> Request:
    """File a request; a worker takes it from there."""
    if len(subjects) + len(rows) > MOST:
        raise BadInput(f"{len(subjects) + len(rows):,} ids are over {MOST:,}; file them in parts")
    made = parts.workspace.submit(
        subjects=subjects, rows=rows, key=key, by=by, limit=parts.config.service.queue
    )
    return parts.store.requests(key=made)[0]


def look_up(parts: Parts, subject: str) -> Person:
    """What the records say comes first: rows leave the disk a moment after they are forgotten."""
    store = parts.store
    if "\0" in subject:  # nobody's: no id holds one, and no database takes it
        return Person("unknown", 0, ())
    erasures = store.requests(about=("subject", subject), last=20, with_items=False)[::-1]
    digest = store.digest("subject", subject)
    if store.known_digests([("subject", digest)]):
        return Person("forgotten", 0, erasures)
    rows = _rows(parts, subject)
    if not rows:
        return Person("unknown", 0, erasures)
    waits = any(request.state == "pending" for request in erasures)
    return Person("waiting" if waits else "remembered", rows, erasures)


def _rows(parts: Parts, subject: str) -> int:
    """How many rows somebody has in the generation in use."""
    for _ in range(10):
        version = parts.store.employed()
        if version is None or version.generation is None:
            return 0
        try:
            dataset = Dataset(parts.workspace.folder / "data" / version.generation)
        except Damaged:  # or replaced by a retraining, since we asked
            if parts.store.employed() == version:
                raise
            continue
        found = dataset.subject_rows(subject)
        return 0 if found is None else int(np.count_nonzero(dataset["live"][found]))
    raise Unavailable("the model changes faster than it can be read")
