"""Requests are filed once, within limits, and cancelled only while they wait."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from store_records import NOW, opened

from unfit.store import schema
from unfit.store.errors import KeyUsed, NotWaiting, QueueFull
from unfit.store.records import Applied
from unfit.store.store import Store


def test_one_more_than_may_wait_is_refused_and_the_same_one_is_not(store: Store) -> None:
    for i in range(3):
        store.requests.submit(f"k{i}", [("row", str(i))], NOW, limit=3)
    with pytest.raises(QueueFull, match="3 requests wait already"):
        store.requests.submit("k3", [("row", "3")], NOW, limit=3)
    assert (
        store.requests.submit("k1", [("row", "1")], NOW, limit=3)
        == store.requests.find(key="k1")[0].id
    )
    with pytest.raises(KeyUsed):
        store.requests.submit("k1", [("row", "7")], NOW, limit=3)
    store.requests.cancel(store.requests.find(key="k0")[0].id, NOW)
    store.requests.submit("k3", [("row", "3")], NOW, limit=3)
    assert store.requests.counts() == {"pending": 3, "applied": 0, "unmatched": 0, "cancelled": 1}


def test_the_limit_holds_for_those_who_file_at_the_same_time(
    store: Store, open_store: Callable[[], Store]
) -> None:
    stores = [store, *(open_store() for _ in range(3))]

    def file(i: int) -> bool:
        try:
            stores[i % 4].requests.submit(f"k{i}", [("row", str(i))], NOW, limit=5)
        except QueueFull:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        accepted = list(pool.map(file, range(16)))
    assert sum(accepted) == 5
    assert store.requests.counts()["pending"] == 5


def test_the_same_request_filed_at_the_same_time_is_one(
    store: Store, open_store: Callable[[], Store]
) -> None:
    stores = [store, *(open_store() for _ in range(3))]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda s: s.requests.submit("k", [("subject", "a")], NOW), stores * 2))
    assert len(set(made)) == 1
    assert len(store.requests.find()) == 1


def test_a_cancelled_request_stays_on_record_and_whom_it_named_does_not(store: Store) -> None:
    opened(store)
    request = store.requests.submit("k", [("subject", "anna"), ("row", "7")], NOW, by="abcd")
    store.requests.cancel(request, NOW)
    (found,) = store.requests.find()
    assert (found.state, found.cancelled_at, found.submitted_by) == ("cancelled", NOW, "abcd")
    assert found.items == []
    with store.database.reading() as connection:
        assert connection.execute(sa.select(schema.items)).all() == []
    assert store.requests.find(about=("subject", "anna")) == []
    assert store.model.read().purge_due  # its bytes are still to go
    assert store.requests.waiting() == (False, True)
    with pytest.raises(NotWaiting, match="is no longer waiting"):
        store.requests.cancel(request, NOW)


def test_what_is_applied_or_another_models_cannot_be_cancelled(store: Store, url: str) -> None:
    opened(store)
    request = store.requests.submit("k", [("subject", "a")], NOW)
    other = Store(url, "other", NOW, b"another")
    with pytest.raises(NotWaiting):
        other.requests.cancel(request, NOW)
    other.close()
    store.commit(store.versions.active(), None, None, Applied(requests=[request]), NOW)
    before = store.requests.find()
    with pytest.raises(NotWaiting):
        store.requests.cancel(request, NOW)
    assert store.requests.find() == before


def test_requests_are_found_by_whom_they_name_also_when_the_name_is_gone(store: Store) -> None:
    opened(store)
    first = store.requests.submit("k", [("subject", "anna")], NOW)
    store.requests.submit("l", [("subject", "bert"), ("row", "anna")], NOW)
    about = ("subject", "anna")
    assert [r.id for r in store.requests.find(about=about)] == [first]
    item = store.requests.find(ids=[first])[0].items[0].id
    version = store.versions.active()
    applied = Applied(requests=[first], outcomes=[(item, "forgotten", 1)])
    store.commit(version, None, None, applied, NOW)
    store.purges.record(version, "c")
    (found,) = store.requests.find(about=about)
    assert [(i.value, i.outcome) for i in found.items] == [(None, "forgotten")]


def test_pages_come_newest_last_and_below_an_id(store: Store) -> None:
    ids = [store.requests.submit(f"k{i}", [("row", str(i))], NOW) for i in range(7)]
    assert [r.id for r in store.requests.find(last=3)] == ids[-3:]
    assert [r.id for r in store.requests.find(last=3, before=ids[4])] == ids[1:4]
    assert store.requests.find(before=ids[0]) == []
