"""Records that the tests of the store write."""

from datetime import UTC, datetime

from unfit.store.records import Applied, Decision, NewVersion
from unfit.store.store import Store

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NEW = NewVersion(
    kind="trained",
    method="fisher",
    generation="rows-1",
    model_sha="m",
    card_sha="c",
    rows=10,
    subjects=5,
    deleted=0,
    accuracy=0.9,
    seconds=1.0,
    baseline={"a": 1},
)
OPENING = Decision(
    version=1, at=NOW, action="open", reason="first", inputs={}, estimate=0.0, threshold=1.0
)


def opened(store: Store) -> None:
    store.commit(None, NEW, OPENING, Applied(), NOW)
