"""What the API and the dashboard both do with requests and people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unfit.data.dataset import Dataset
from unfit.service.parts import Parts
from unfit.store.records import Request


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
    made = parts.workspace.submit(
        subjects=subjects, rows=rows, key=key, by=by, limit=parts.config.service.queue
    )
    return parts.store.requests(key=made)[0]


def look_up(parts: Parts, subject: str) -> Person:
    store = parts.store
    digest = store.digest("subject", subject)
    erasures = store.requests(about=digest, last=20)[::-1]
    version = store.employed()
    rows = 0
    if version is not None and version.generation is not None:
        dataset = Dataset(parts.workspace.folder / "data" / version.generation)
        found = dataset.subject_rows(subject)
        rows = 0 if found is None else int(dataset.live[found].sum())
    if rows:
        waits = any(request.state == "pending" for request in erasures)
        return Person("waiting" if waits else "remembered", rows, erasures)
    gone = ("subject", digest) in store.known_digests([("subject", digest)])
    return Person("forgotten" if gone else "unknown", 0, erasures)
