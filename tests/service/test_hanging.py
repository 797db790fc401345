"""A process that is stopped while it writes keeps nobody waiting, and changes nothing on waking.

Stopped, not killed: the system frees nothing for it. Where it can be ended it is; where it cannot,
as on another machine, the others go on without it.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from services import lives, start, until, working
from workspaces import Kept, make, signature

import servers
from unfit import holder
from unfit.clock import now
from unfit.service import child_process, heartbeat, server, supervisor
from unfit.service import worker as worker_module
from unfit.workspace import Workspace, lock

POINTS = [
    "forget.unlearned",
    "forget.listed",
    "forget.committed",
    "purge.card-rewritten",
    "retrain.dataset-written",
    "prepare.written",
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for who stands still."""
    monkeypatch.setattr(worker_module, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(worker_module, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(worker_module, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(heartbeat, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(lock, "STILL_SECONDS", 0.6)
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.1)


@pytest.fixture(scope="module")
def on_postgresql(server: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return make(tmp_path_factory.mktemp("postgresql") / "w", server)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        with suppress(OSError):
            process.kill()
        process.wait(60)


def stopped(process: subprocess.Popen[bytes]) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    return False


def content(folder: Path) -> dict[str, bytes]:
    """Every file but those of the database and the lock."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.startswith(("unfit.db", "unfit.lock"))
    }


def always_retrain(kept: Kept) -> None:
    toml = kept.folder / "unfit.toml"
    old, new = 'retrain_when = ["disparity"]', 'retrain_when = ["always"]'
    toml.write_text(toml.read_text().replace(old, new))


def settled(ws: Workspace, n: int) -> None:
    """Applied, purged and prepared: nothing is left to be done."""
    until(lambda: ws.store.requests.counts()["applied"] == n, "the erasure")
    until(lambda: not ws.store.model.read().purge_due, "the purge")
    until(lambda: ws.store.versions.active().statistics_sha, "statistics")  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_stopped_on_another_machine_is_taken_over_and_changes_nothing_when_it_wakes(
    on_postgresql: Kept, point: str, tmp_path: Path
) -> None:
    kept = on_postgresql.copy(tmp_path / "own")
    if point.startswith("retrain"):
        always_retrain(kept)
    log = tmp_path / "log"
    with (
        kept.open() as ws,
        ended(start(kept.folder, point, signal.SIGSTOP, elsewhere=True, log=log)) as stuck,
    ):
        ws.submit(subjects=["p0003", "p0017"], key="first")
        until(lambda: stopped(stuck), point)
        ws.submit(subjects=["p0020"], key="second")
        with working(kept.folder) as standby:
            settled(ws, 2)
            assert standby.events("lease-taken-over")
            until(lambda: standby.worker._quiet_since == 0.0, "peace")
            before = signature(ws), content(kept.folder), ws.store.versions.find()
            os.kill(stuck.pid, signal.SIGCONT)
            until(lambda: "standing-by" in log.read_text(), "what it makes of it")
            assert (signature(ws), content(kept.folder), ws.store.versions.find()) == before
            assert lives(stuck.pid)
    with kept.open() as ws:  # and all fits together
        assert ws.audit(random_state=0).audit.n_deleted > 0


@pytest.mark.slow
@pytest.mark.parametrize("point", ["forget.unlearned", "forget.listed", "purge.rows-erased"])
def test_a_worker_stopped_beside_another_is_ended(kept: Kept, point: str, tmp_path: Path) -> None:
    """Within a transaction of SQLite nothing else would help: no lease could be taken."""
    with kept.open() as ws, ended(start(kept.folder, point, signal.SIGSTOP)) as stuck:
        ws.submit(subjects=["p0003", "p0017"], key="first")
        until(lambda: stopped(stuck), point)
        with working(kept.folder) as standby:
            until(lambda: standby.events("hung-worker-ended"), "its end")
            until(lambda: ws.store.requests.counts()["applied"] == 1, "the erasure")
            assert stuck.wait(60) == -signal.SIGKILL
            ws.submit(subjects=["p0020"], key="second")
            settled(ws, 2)


@pytest.mark.slow
def test_a_service_ends_a_worker_that_hangs_and_starts_another(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "HUNG_SECONDS", 2.5)
    monkeypatch.setattr(child_process, "START_SECONDS", 20.0)
    stop = threading.Event()
    with kept.open() as ws, server.listen("127.0.0.1", 0) as listening:
        family = supervisor.Supervisor(kept.folder, listening, 0, 1)
        thread = threading.Thread(target=family.run, args=(stop,), daemon=True)
        thread.start()
        try:
            first = until(lambda: ws.store.lease("").read()[0], "the lease")
            pid = int(first.rsplit(":", 3)[1])
            watch = heartbeat.Heartbeat(ws.store)
            assert watch.is_alive()
            os.kill(pid, signal.SIGSTOP)
            until(lambda: not watch.is_alive(), "the news")
            ws.submit(subjects=["p0003"])
            until(lambda: ws.store.requests.counts()["applied"] == 1, "the erasure")
            assert not lives(pid)
            until(watch.is_alive, "better news")
        finally:
            stop.set()
            thread.join(60)


@pytest.mark.slow
def test_a_command_that_is_stopped_keeps_nobody_waiting_and_answers_when_it_goes_on(
    kept: Kept, tmp_path: Path
) -> None:
    program = (
        "import os, signal, sys; from unfit import points, Workspace\n"
        "from unfit.workspace import lock; lock.BEAT_SECONDS = 0.1\n"
        "def observe(name):\n"
        "    if name == 'forget.unlearned':\n"
        "        points.observer = None\n"
        "        os.kill(os.getpid(), signal.SIGSTOP)\n"
        "points.observer = observe\n"
        "with Workspace(sys.argv[1]) as ws:\n"
        "    made = ws.forget(subjects=['p0003', 'p0017'], key='typed')\n"
        "    print(made.subjects, made.replayed)\n"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", program, str(kept.folder)], stdout=subprocess.PIPE, text=True
    )
    with kept.open() as ws, ended(command):  # type: ignore[arg-type]
        until(lambda: stopped(command), "its stop")  # type: ignore[arg-type]
        with working(kept.folder):
            settled(ws, 1)  # filed by the command, applied by the worker
            ws.submit(subjects=["p0020"], key="second")
            settled(ws, 2)
            before = signature(ws), ws.store.versions.find()
            os.kill(command.pid, signal.SIGCONT)
            said, _ = command.communicate(timeout=60)
            assert said.split() == ["2", "True"]
            assert (signature(ws), ws.store.versions.find()) == before
        assert (kept.folder / "unfit.lock-1").exists()


def test_a_job_that_hangs_is_ended_and_erasures_go_on(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "HUNG_SECONDS", 1.5)
    monkeypatch.setattr(child_process, "START_SECONDS", 1.5)
    with kept.open() as ws, working(kept.folder) as at_work:
        id = ws.store.jobs.submit("retrain", {}, now())
        child = until(lambda: at_work.worker._child, "a job's process")[1]
        os.kill(child.process.pid, signal.SIGSTOP)
        ws.submit(subjects=["p0003"])
        until(lambda: ws.store.requests.counts()["applied"] == 1, "the erasure")
        assert at_work.events("job-hangs")
        assert ws.store.jobs.find(id=id)[0].state == "failed"


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_not_said_to_be_there_however_seldom_one_asks(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.open() as ws, ended(start(kept.folder)) as far:
        watch = heartbeat.Heartbeat(ws.store)
        until(watch.is_alive, "a worker")
        os.kill(far.pid, signal.SIGSTOP)
        until(lambda: stopped(far), "its stop")
        assert not watch.is_alive()  # asked once, whatever its last beat was
        os.kill(far.pid, signal.SIGCONT)
        until(watch.is_alive, "its beat")
        monkeypatch.setattr(holder, "here", lambda: "another machine/1")
        os.kill(far.pid, signal.SIGSTOP)
        until(lambda: not watch.is_alive(), "the news")


def test_who_waits_is_told_for_whom(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lock, "TELL_SECONDS", 0.1)
    with kept.open() as one, kept.open() as other:
        with one._session.lock.held():
            waiting = threading.Thread(target=other.apply)
            waiting.start()
            until(lambda: "held by process" in caplog.text, "the message")
        waiting.join(60)
        assert f"process {os.getpid()} " in caplog.text
        assert ", since 20" in caplog.text
        assert other.store.model.term() == 0  # it beats: nobody takes the lock from it


def test_a_child_that_fails_at_once_keeps_no_other_from_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {"api": "raise SystemExit(3)", "worker": "import sys; sys.stdin.read()"}
    started: list[tuple[str, int]] = []

    def begin(_: supervisor.Supervisor, kind: str) -> child_process.Child:
        made = child_process.Child([sys.executable, "-c", programs[kind]])
        started.append((kind, made.process.pid))
        return made

    monkeypatch.setattr(supervisor.Supervisor, "_start", begin)
    stop = threading.Event()
    with server.listen("127.0.0.1", 0) as listening:
        family = supervisor.Supervisor(tmp_path, listening, 1, 1)
        family._slots[0].pause = 60.0  # it has failed many times
        thread = threading.Thread(target=family.run, args=(stop,), daemon=True)
        thread.start()
        try:
            until(lambda: family._slots[0].start_at > 0, "its pause")
            os.kill(dict(started)["worker"], signal.SIGKILL)
            until(lambda: [k for k, _ in started].count("worker") == 2, "another worker")
            assert [k for k, _ in started].count("api") == 1
        finally:
            stop.set()
            thread.join(60)
