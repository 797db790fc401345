"""Jobs in a queue, and a lease that one worker holds and nobody holds by accident."""

import threading
from collections.abc import Callable

import pytest
from store_records import NEW, NOW, OPENING, opened

from unfit.errors import Unavailable
from unfit.store.errors import QueueFull
from unfit.store.jobs import ATTEMPTS, WAITING
from unfit.store.leases import Lease
from unfit.store.records import Applied
from unfit.store.store import Store


def test_a_job_from_asking_to_its_end(store: Store) -> None:
    jobs = store.jobs
    opened(store)
    first = jobs.submit("audit", {"draws": 3}, NOW, "abcd")
    second = jobs.submit("retrain", {}, NOW)
    (job,) = jobs.find(id=first)
    assert (job.kind, job.state, job.options, job.submitted_by) == (
        "audit",
        "pending",
        {"draws": 3},
        "abcd",
    )
    jobs.start(job, NOW)
    jobs.progress(first, "training", 3, 10)
    (job,) = jobs.find(id=first)
    assert (job.state, job.stage, job.done, job.total) == ("running", "training", 3, 10)
    version = store.versions.active()
    assert version is not None
    audit = store.audits.add(version, True, {"verdict": "well"}, NOW)
    jobs.finish(first, NOW, audit_id=audit, version=1)
    jobs.fail(second, "x" * 2000, NOW)
    (done,), (failed,) = jobs.find(id=first), jobs.find(id=second)
    assert (done.state, done.audit_id, done.version, done.stage) == ("done", audit, 1, None)
    assert (failed.state, failed.finished_at, len(failed.error or "")) == ("failed", NOW, 500)
    assert [j.id for j in jobs.find(kind="audit")] == [first]
    assert [j.id for j in jobs.find(before=second, last=5)] == [first]


def test_a_job_that_takes_its_worker_down_is_given_up(store: Store) -> None:
    jobs = store.jobs
    id = jobs.submit("retrain", {}, NOW)
    for _ in range(ATTEMPTS - 1):
        jobs.start(jobs.find(id=id)[0], NOW)
        jobs.resume(NOW)
        assert jobs.find(id=id)[0].state == "pending"
    jobs.start(jobs.find(id=id)[0], NOW)
    jobs.resume(NOW)
    (found,) = jobs.find(id=id)
    assert found.state == "failed"
    assert "3 times" in (found.error or "")


def test_what_a_lost_worker_was_doing_waits_again(store: Store) -> None:
    jobs = store.jobs
    ids = [jobs.submit("audit", {}, NOW) for _ in range(3)]
    jobs.start(jobs.find(id=ids[0])[0], NOW)
    jobs.fail(ids[1], "no", NOW)
    jobs.resume(NOW)
    states = [(j.state, j.started_at, j.stage) for j in jobs.find()]
    assert states == [("pending", None, None), ("failed", None, None), ("pending", None, None)]


def test_so_many_jobs_may_wait(store: Store) -> None:
    jobs = store.jobs
    for _ in range(WAITING):
        jobs.submit("audit", {}, NOW)
    with pytest.raises(QueueFull, match=f"{WAITING} jobs wait"):
        jobs.submit("retrain", {}, NOW)
    jobs.start(jobs.find()[0], NOW)
    jobs.submit("retrain", {}, NOW)


def test_a_model_sees_its_own_jobs_and_lease(store: Store, url: str) -> None:
    other = Store(url, "other", NOW, b"another")
    made = store.jobs.submit("audit", {}, NOW)
    store.lease("a").take((None, 0), NOW)
    assert other.jobs.find(id=made) == []
    assert other.lease("b").read() == (None, 0)
    assert other.lease("b").take((None, 0), NOW)
    other.close()


def test_a_lease_is_taken_kept_and_given_back(store: Store) -> None:
    mine, other = store.lease("mine"), store.lease("other")
    assert mine.read() == (None, 0)
    assert mine.take((None, 0), NOW)
    assert not other.take((None, 0), NOW)
    seen = other.read()
    assert seen == ("mine", 1)
    assert mine.beat()
    assert not other.beat()
    assert not other.take(seen, NOW)  # it has moved since
    other.release()
    assert mine.read() == ("mine", 2)
    mine.release()
    assert other.read() == (None, 2)
    assert other.take((None, 2), NOW)
    assert not mine.beat()


def test_of_those_who_take_a_lease_at_once_one_has_it(
    store: Store, open_store: Callable[[], Store]
) -> None:
    leases = [open_store().lease(f"worker {i}") for i in range(4)]
    for _ in range(5):  # the first time there is not even a row
        seen = leases[0].read()
        together, won = threading.Barrier(4), []

        def take(lease: Lease) -> None:
            together.wait(30)  # noqa: B023
            if lease.take(seen, NOW):  # noqa: B023
                won.append(lease.holder)  # noqa: B023

        threads = [threading.Thread(target=take, args=(lease,)) for lease in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(won) == 1
        assert leases[0].read() == (won[0], seen[1] + 1)


def test_who_has_lost_the_lease_commits_nothing(
    store: Store, open_store: Callable[[], Store]
) -> None:
    slow, fast = store.lease("slow"), open_store().lease("fast")
    assert slow.take(slow.read(), NOW)
    store.require_lease(slow)
    first = store.commit(None, NEW, OPENING, Applied(), NOW)
    assert fast.take(fast.read(), NOW)
    before = (store.versions.active(), store.forgotten.rows(), store.model.read())
    with pytest.raises(Unavailable, match="another worker has taken this model over"):
        store.commit(first, None, None, Applied(rows=[1]), NOW)
    assert (store.versions.active(), store.forgotten.rows(), store.model.read()) == before
    assert not slow.beat()


def test_a_lease_cannot_be_taken_in_the_middle_of_a_commit(
    store: Store, open_store: Callable[[], Store]
) -> None:
    """Between the fence and the end of the transaction nobody comes."""
    slow, fast = store.lease("slow"), open_store().lease("fast")
    assert slow.take(slow.read(), NOW)
    seen, taken = fast.read(), threading.Event()

    def take() -> None:
        assert fast.take(seen, NOW)
        taken.set()

    taking = threading.Thread(target=take)
    with store.database.writing() as connection:
        slow.fence(connection)
        taking.start()
        assert not taken.wait(0.5)
    taking.join(30)
    assert taken.is_set()
