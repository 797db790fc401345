"""The worker: one at a time, batches, jobs beside erasures, and what happens when it is lost."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from services import PATIENCE, Working, edit, start, until, working
from workspaces import Kept, make

import people
import servers
from tiers import mostly_slow
from unfit import points
from unfit.clock import now
from unfit.holder import Holder, here, started_at
from unfit.service import worker as worker_module
from unfit.store.records import Job
from unfit.workspace import Workspace, purge_schedule

POINTS = ["forget.unlearned", "forget.listed", "forget.committed"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that is lost sooner."""
    monkeypatch.setattr(worker_module, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(worker_module, "BEAT_SECONDS", 0.1)


def applied(ws: Workspace, n: int) -> None:
    until(lambda: ws.store.requests.counts()["applied"] == n, f"{n} erasures")


def job_ended(ws: Workspace, id: int) -> Job:
    def found() -> Job | None:
        (job,) = ws.store.jobs.find(id=id)
        return job if job.state in ("done", "failed") else None

    return until(found, "the end of the job")


def child_of(at_work: Working) -> subprocess.Popen[bytes]:
    """The process of the job it does, once it is there."""
    return until(lambda: at_work.worker._child, "a job's process")[1].process


def remembered(ws: Workspace, subject: str) -> bool:
    with ws.session() as session:
        return session.dataset().subject_rows(subject) is not None


def test_requests_that_wait_become_one_version(kept: Kept) -> None:
    with kept.open() as ws:
        for i in range(12):
            ws.submit(subjects=[f"p{i:04d}"], key=f"k{i}")
        with working(kept.folder) as at_work:
            applied(ws, 12)
        assert [v.number for v in ws.store.versions.find()] == [1, 2]
        assert {r.version for r in ws.store.requests.find()} == {2}
        (line,) = until(lambda: at_work.events("applied"), "the line")
        assert (line["requests"], line["version"]) == (12, 2)
        assert not any(remembered(ws, f"p{i:04d}") for i in range(12))


def test_after_a_commit_and_a_quiet_moment_statistics_are_kept(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "QUIET_SECONDS", 0.1)
    with kept.open() as ws, working(kept.folder) as at_work:
        ws.submit(subjects=["p0003", "p0017", "p0020"])
        applied(ws, 1)
        until(lambda: ws.store.versions.active().statistics_sha, "statistics")  # type: ignore[union-attr]
        version = ws.store.versions.active()
        assert version is not None
        assert version.number == 2
        session = at_work.worker._workspace._session
        assert session.model is not None
        assert session.model.version_id == version.id


def test_a_cancelled_request_is_purged_though_nothing_is_to_be_applied(kept: Kept) -> None:
    with kept.open() as ws:
        ws.submit(subjects=["Annabella-4711"], key="k")
        ws.store.requests.cancel(ws.store.requests.find()[0].id, now())
        assert ws.store.model.read().purge_due
        with working(kept.folder):
            until(lambda: not ws.store.model.read().purge_due, "the purge")
        assert [v.number for v in ws.store.versions.find()] == [1]
        if ws.store.database.sqlite:
            for path in kept.folder.glob("unfit.db*"):
                assert b"Annabella-4711" not in path.read_bytes()


def test_one_of_two_workers_works_and_the_other_takes_over_at_once_when_it_stops(
    kept: Kept,
) -> None:
    with kept.open() as ws:
        with working(kept.folder) as first:
            until(lambda: first.events("lease-taken"), "the lease")
            with working(kept.folder) as second:
                for i in range(3):
                    ws.submit(subjects=[f"p{i:04d}"])
                    applied(ws, i + 1)
                assert second.written.getvalue() == ""
                first.stop.set()
                until(lambda: second.events("lease-taken"), "the lease")
                ws.submit(subjects=["p0017"])
                applied(ws, 4)
                assert not second.events("lease-taken-over")
        assert ws.store.lease("").read()[0] is None  # given back


@pytest.fixture
def on_postgresql(
    server: servers.Server, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Kept:
    return make(tmp_path / "w", server)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("point", mostly_slow(POINTS, ["forget.committed"]))
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_done_twice(
    on_postgresql: Kept, point: str
) -> None:
    kept = on_postgresql
    with kept.open() as ws:
        for i in range(5):
            ws.submit(subjects=[f"p{i:04d}"], key=f"k{i}")
        dying = start(kept.folder, point, signal.SIGKILL)
        until(lambda: ws.store.lease("").read()[0], "the lease")
        with working(kept.folder) as second:
            assert dying.wait(60) == -signal.SIGKILL
            until(lambda: second.events("lease-taken-over"), "the take-over")
            applied(ws, 5)
            ws.submit(subjects=["p0017"])
            applied(ws, 6)
        rows = [row for row, _ in ws.store.forgotten.rows()]
        assert len(rows) == len(set(rows))
        with ws.session() as session:
            dataset = session.dataset()
            assert dataset.n - int(dataset.live.sum()) == len(rows)
        lines = ws.list_path.read_text().count("p0017")
        assert lines == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_a_worker_that_slept_through_its_lease_commits_nothing(
    on_postgresql: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of an erasure, taken over, and woken up again."""
    kept = on_postgresql
    with kept.open() as ws:
        # Awake again, it waits long before it takes a lease over: a busy machine may keep the
        # second worker from moving for a while.
        sleeping = start(kept.folder, elsewhere=True, lease=PATIENCE)
        try:
            holder = until(lambda: ws.store.lease("").read()[0], "the lease")
            os.kill(sleeping.pid, signal.SIGSTOP)
            with working(kept.folder) as second:
                until(lambda: second.events("lease-taken-over"), "the take-over")
                os.kill(sleeping.pid, signal.SIGCONT)
                ws.submit(subjects=["p0003", "p0017"])
                applied(ws, 1)
                assert ws.store.lease("").read()[0] != holder
                assert ws.store.lease("").read()[0] == second.worker._holder
                assert sleeping.poll() is None  # it waits for its turn
            mine = f":{sleeping.pid}:"
            until(lambda: mine in (ws.store.lease("").read()[0] or ""), "its turn")
            ws.submit(subjects=["p0020"])
            applied(ws, 2)
        finally:
            os.kill(sleeping.pid, signal.SIGCONT)
            sleeping.terminate()
            sleeping.wait(60)
        assert [v.number for v in ws.store.versions.find()] == [1, 2, 3]


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_who_loses_the_lease_leaves_its_job_to_the_next(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.open() as ws:
        id = ws.store.jobs.submit("audit", {}, now())
        with working(kept.folder) as first:
            child = child_of(first)
            os.kill(child.pid, signal.SIGSTOP)
            thief = ws.store.lease("thief")
            assert until(lambda: thief.take(thief.read(), now()), "the lease")
            until(lambda: first.events("lease-lost"), "the loss")
            until(lambda: first.worker._child is None, "the end of its job")
            assert child.returncode == -signal.SIGKILL
            assert ws.store.jobs.find(id=id)[0].state == "running"
            thief.release()
            assert job_ended(ws, id).state == "done"  # by whoever comes next
        assert len(ws.store.audits.find()) == 1


def test_erasures_go_on_during_an_audit(kept: Kept) -> None:
    with kept.open() as ws, working(kept.folder) as at_work:
        id = ws.store.jobs.submit("audit", {"draws": 3}, now())
        child = child_of(at_work)
        until(lambda: ws.store.jobs.find(id=id)[0].stage != "starting", "the audit's work")
        os.kill(child.pid, signal.SIGSTOP)  # for as long as it takes
        ws.submit(subjects=["p0003", "p0017", "p0020"])
        applied(ws, 1)
        os.kill(child.pid, signal.SIGCONT)
        job = job_ended(ws, id)
        assert (job.state, job.version) == ("done", 1)  # of the model it looked at
        assert [v.number for v in ws.store.versions.find()] == [1, 2]


@pytest.mark.usefixtures("quick")
@pytest.mark.slow
def test_erasures_wait_for_a_retraining_and_are_applied_to_what_it_made(kept: Kept) -> None:
    with kept.open() as ws, working(kept.folder) as at_work:
        id = ws.store.jobs.submit("retrain", {}, now())
        child = child_of(at_work)
        os.kill(child.pid, signal.SIGSTOP)
        ws.submit(subjects=["p0003", "p0017", "p0020"])
        rounds = ws.store.lease("").read()[1] + 2
        until(lambda: ws.store.lease("").read()[1] > rounds, "two beats of the worker")
        assert ws.store.requests.counts()["pending"] == 1
        os.kill(child.pid, signal.SIGCONT)
        assert job_ended(ws, id).version == 2
        applied(ws, 1)
        assert [(v.number, v.kind) for v in ws.store.versions.find()][1:] == [
            (2, "retrained"),
            (3, "updated"),
        ]
        assert ws.store.versions.find()[1].rows > ws.store.versions.find()[2].rows


@pytest.mark.slow
def test_a_job_whose_process_dies_has_failed_and_says_so(kept: Kept) -> None:
    with kept.open() as ws, working(kept.folder) as at_work:
        jobs = ws.store.jobs
        id = jobs.submit("audit", {}, now())
        child_of(at_work).kill()
        job = job_ended(ws, id)
        assert (job.state, job.error) == ("failed", "the process of the job ended with status -9")
        assert until(lambda: at_work.events("job-ended"), "the line")[0]["state"] == "failed"
        again = jobs.submit("audit", {}, now())
        assert job_ended(ws, again).state == "done"


def test_a_job_that_cannot_be_done_says_why(kept: Kept) -> None:
    edit(kept, ('[columns."age"]', '[columns."years"]'))
    with kept.open() as ws, working(kept.folder):
        job = job_ended(ws, ws.store.jobs.submit("retrain", {}, now()))
        assert job.state == "failed"
        assert "columns differ" in (job.error or "")
        assert [v.number for v in ws.store.versions.find()] == [1]


@pytest.mark.slow
def test_a_worker_that_comes_back_repeats_what_was_running(kept: Kept) -> None:
    with kept.open() as ws:
        id = ws.store.jobs.submit("audit", {}, now())
        with working(kept.folder) as first:
            child = child_of(first)
        assert child.returncode == -signal.SIGKILL  # it ended with its worker
        assert ws.store.jobs.find(id=id)[0].state == "running"
        with working(kept.folder):
            assert job_ended(ws, id).state == "done"
        assert len(ws.store.audits.find()) == 1


def test_what_fails_is_said_and_tried_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    from unfit.errors import Unavailable

    failed = threading.Event()

    def fail_once(name: str) -> None:
        if name == "forget.unlearned" and not failed.is_set():
            failed.set()
            raise Unavailable("the disk is full")

    monkeypatch.setattr(points, "observer", fail_once)
    with kept.open() as ws, working(kept.folder) as at_work:
        ws.submit(subjects=["p0003", "p0017", "p0020"])
        applied(ws, 1)
        assert [e["error"] for e in at_work.events("apply-failed")] == ["the disk is full"]


def test_a_model_that_is_withdrawn_is_served_as_withdrawn(database: Any, tmp_path: Path) -> None:
    """Everybody of a class asks to be forgotten."""
    kept = make(tmp_path / "w", database, table=people.people(n=120, subjects=60))
    table = people.people(n=120, subjects=60).to_pandas()
    with kept.open() as ws, working(kept.folder):
        ws.submit(subjects=sorted(set(table.loc[table["label"] == "yes", "person"])))
        applied(ws, 1)
        version = ws.store.versions.active()
        assert version is not None
        assert version.kind == "withdrawn"
        ws.submit(subjects=sorted(set(table["person"])))
        applied(ws, 2)


def test_a_holder_that_died_here_is_not_waited_for() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    place, mine = here(), started_at(os.getpid())
    assert worker_module.is_dead(f"{place}:{ended.pid}:7:x")
    assert not worker_module.is_dead(f"{place}:{os.getpid()}:{mine}:x")
    assert worker_module.is_dead(f"{place}:{os.getpid()}:{mine - 1}:x")  # given again
    assert not worker_module.is_dead(f"elsewhere/1:{ended.pid}:7:x")
    for odd in (None, "", "x", f"{place}:y:z", f"{place}:y:7:z"):
        assert not worker_module.is_dead(odd)


def test_a_holder_whose_start_could_not_be_read_is_known_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unfit.holder._starts", {})
    with monkeypatch.context() as without_files:
        without_files.setattr("unfit.holder._stat", lambda pid: None)
        assert Holder.me("unfit worker").started == 0
    assert Holder.me("unfit worker").started > 0
    assert Holder.me("unfit worker").within_reach


def test_what_many_erasures_leave_behind_is_purged_together(kept: Kept) -> None:
    """In force with their commits; their bytes gone a moment later, and found nowhere."""
    with kept.open() as ws:
        ws.defer_purge()
        for i in (3, 4, 5):
            ws.forget(subjects=[f"p{i:04d}"])
            assert ws.store.model.read().purge_due
        if kept.database is None:
            assert b"p0003" in (kept.folder / "unfit.db").read_bytes() + _log(kept)
        assert ws.purge()
        assert not ws.store.model.read().purge_due
        for i in (3, 4, 5):
            for path in kept.folder.rglob("*"):
                if path.is_file():
                    assert f"p{i:04d}".encode() not in path.read_bytes(), path
        ws.forget(subjects=["p0006"])
        assert ws.store.model.read().purge_due  # the next ones are left to `purge` as well
    with kept.open() as ws:  # killed before it purged: the next one does
        ws.apply()
        assert not ws.store.model.read().purge_due
        assert ws.audit(random_state=0).audit.n_deleted > 0


def test_a_worker_purges_once_for_many_batches(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch after batch is applied between two purges, not only up to the first of them."""
    reached: list[str] = []
    monkeypatch.setattr(points, "observer", reached.append)
    monkeypatch.setattr(purge_schedule, "PURGE_SECONDS", 3600.0)
    with kept.open() as ws, working(kept.folder) as at_work:
        for i in range(6):
            ws.submit(subjects=[f"p{i:04d}"])
            applied(ws, i + 1)
            if i == 0:
                until(lambda: reached.count("purge.done"), "the first purge")
        assert reached.count("purge.start") == 1
        assert ws.store.model.read().purge_due
        at_work.worker._workspace.schedule.next_purge = 0.0
        until(lambda: not ws.store.model.read().purge_due, "the next purge")
        assert reached.count("purge.start") == 2


def test_a_worker_that_ends_leaves_no_bytes_behind(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It purges once in a while; when it is told to stop, at once."""
    monkeypatch.setattr(purge_schedule, "PURGE_SECONDS", 3600.0)
    with kept.open() as ws:
        with working(kept.folder) as at_work:
            at_work.worker._workspace.schedule.next_purge = float("inf")
            ws.submit(subjects=["p0003"])
            applied(ws, 1)
            assert ws.store.model.read().purge_due
        assert not ws.store.model.read().purge_due


def test_another_process_finds_the_bytes_gone_that_a_worker_has_left(kept: Kept) -> None:
    with kept.open() as lazy, kept.open() as other:
        lazy.defer_purge()
        lazy.forget(subjects=["p0003"])
        other.forget(subjects=["p0004"])
        assert not other.store.model.read().purge_due
        lazy.forget(subjects=["p0005"])
        assert lazy.purge()
        assert lazy.store.requests.counts()["applied"] == 3
        assert remembered(lazy, "p0006")
        assert not any(remembered(lazy, f"p{i:04d}") for i in (3, 4, 5))


def _log(kept: Kept) -> bytes:
    log = kept.folder / "unfit.db-wal"
    return log.read_bytes() if log.exists() else b""
