"""Requests are filed once, within limits, and cancelled only while they wait."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from store_records import NOW, opened

from unfit.store import schema
from unfit.store.filing import KeyUsed, NotWaiting, QueueFull
from unfit.store.records import Applied
from unfit.store.repository import Store


def test_one_more_than_may_wait_is_refused_and_the_same_one_is_not(store: Store) -> None:
    for i in range(3):
        store.submit(f"k{i}", [("row", str(i))], NOW, limit=3)
    with pytest.raises(QueueFull, match="3 requests wait already"):
        store.submit("k3", [("row", "3")], NOW, limit=3)
    assert store.submit("k1", [("row", "1")], NOW, limit=3) == store.requests(key="k1")[0].id
    with pytest.raises(KeyUsed):
        store.submit("k1", [("row", "7")], NOW, limit=3)
    store.cancel(store.requests(key="k0")[0].id, NOW)
    store.submit("k3", [("row", "3")], NOW, limit=3)
    assert store.request_counts() == {"pending": 3, "applied": 0, "unmatched": 0, "cancelled": 1}


def test_the_limit_holds_for_those_who_file_at_the_same_time(
    store: Store, open_store: Callable[[], Store]
) -> None:
    stores = [store, *(open_store() for _ in range(3))]

    def file(i: int) -> bool:
        try:
            stores[i % 4].submit(f"k{i}", [("row", str(i))], NOW, limit=5)
        except QueueFull:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        accepted = list(pool.map(file, range(16)))
    assert sum(accepted) == 5
    assert store.request_counts()["pending"] == 5


def test_the_same_request_filed_at_the_same_time_is_one(
    store: Store, open_store: Callable[[], Store]
) -> None:
    stores = [store, *(open_store() for _ in range(3))]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda s: s.submit("k", [("subject", "a")], NOW), stores * 2))
    assert len(set(made)) == 1
    assert len(store.requests()) == 1


def test_a_cancelled_request_stays_on_record_and_whom_it_named_does_not(store: Store) -> None:
    opened(store)
    request = store.submit("k", [("subject", "anna"), ("row", "7")], NOW, by="abcd")
    store.cancel(request, NOW)
    (found,) = store.requests()
    assert (found.state, found.cancelled_at, found.submitted_by) == ("cancelled", NOW, "abcd")
    assert found.items == []
    with store.reading() as connection:
        assert connection.execute(sa.select(schema.items)).all() == []
    assert store.requests(about=("subject", "anna")) == []
    assert store.model().purge_due  # its bytes are still to go
    assert store.waiting() == (False, True)
    with pytest.raises(NotWaiting, match="does not wait any more"):
        store.cancel(request, NOW)


def test_what_is_applied_or_another_models_cannot_be_cancelled(store: Store, url: str) -> None:
    opened(store)
    request = store.submit("k", [("subject", "a")], NOW)
    other = Store(url, "other", NOW, b"another")
    with pytest.raises(NotWaiting):
        other.cancel(request, NOW)
    other.close()
    store.commit(store.employed(), None, None, Applied(requests=[request]), NOW)
    before = store.requests()
    with pytest.raises(NotWaiting):
        store.cancel(request, NOW)
    assert store.requests() == before


def test_requests_are_found_by_whom_they_name_also_when_the_name_is_gone(store: Store) -> None:
    opened(store)
    first = store.submit("k", [("subject", "anna")], NOW)
    store.submit("l", [("subject", "bert"), ("row", "anna")], NOW)
    about = ("subject", "anna")
    assert [r.id for r in store.requests(about=about)] == [first]
    item = store.requests(ids=[first])[0].items[0].id
    version = store.employed()
    applied = Applied(requests=[first], outcomes=[(item, "forgotten", 1)])
    store.commit(version, None, None, applied, NOW)
    store.record_purge(version, "c")
    (found,) = store.requests(about=about)
    assert [(i.value, i.outcome) for i in found.items] == [(None, "forgotten")]


def test_pages_come_newest_last_and_below_an_id(store: Store) -> None:
    ids = [store.submit(f"k{i}", [("row", str(i))], NOW) for i in range(7)]
    assert [r.id for r in store.requests(last=3)] == ids[-3:]
    assert [r.id for r in store.requests(last=3, before=ids[4])] == ids[1:4]
    assert store.requests(before=ids[0]) == []
