"""A version's seconds: from the work being taken up to the commit, by phase; the purge and the
kernels apart."""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from workspaces import make

from unfit import points
from unfit.core.kernels import kernels_loaded
from unfit.core.objective import Rows
from unfit.engines.cpu import CpuEngine
from unfit.methods import METHODS, Settings
from unfit.methods.onestep import OneStep
from unfit.stopwatch import Stopwatch
from unfit.store.records import Times
from unfit.workspace import Workspace, erasure, retraining, training
from unfit.workspace.model import load_kernels


def untrained(folder: Path) -> Workspace:
    return make(folder / "made", None, trained=False).open()


class Clock:
    """Time passes only where it is told to."""

    def __init__(self, passes: dict[str, float]) -> None:
        self.at, self._passes = 0.0, passes

    def __call__(self) -> float:
        return self.at

    def reached(self, point: str) -> None:
        self.at += self._passes.get(point, 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(
        {
            "forget.submitted": 1000,
            "forget.taken": 1,
            "forget.unlearned": 20,
            "forget.artifacts-written": 300,
            "forget.listed": 4000,
            "purge.start": 1e6,
            "train.rows-spooled": 7,
            "train.committed": 1e6,
            "retrain.trained": 9,
        }
    )
    monkeypatch.setattr(points, "observer", made.reached)
    for module in (erasure, training, retraining):
        monkeypatch.setattr(module, "Stopwatch", partial(Stopwatch, made))
    return made


def test_seconds_start_with_the_request_taken_and_end_with_the_commit(
    tmp_path: Path, clock: Clock
) -> None:
    with untrained(tmp_path) as ws:
        assert ws.train().seconds == 7
        answer = ws.forget(subjects=["p0003"])
        assert answer.action == "update"
        assert answer.seconds == 1 + 20 + 300 + 4000
        retrained = ws.retrain()
        assert retrained.seconds == 9
        first, updated, last = ws.store.versions.find()
    assert [first.seconds, updated.seconds, last.seconds] == [7, 4321, 9]
    assert updated.times is not None
    assert updated.times.phases["commit"] == 4000  # the deletion list is written within it
    assert updated.times.purge is not None
    assert updated.times.purge == answer.purge_seconds


def test_phases_are_those_of_the_work_and_lie_within_the_seconds(tmp_path: Path) -> None:
    with untrained(tmp_path) as ws:
        started = time.perf_counter()
        trained = ws.train()
        ws.forget(subjects=["p0003"])
        ws.retrain()
        took = time.perf_counter() - started
        versions = ws.store.versions.find()
    expected = [
        {"read", "encode", "train", "evaluate", "rehearse", "write", "commit"},
        {"open", "resolve", "unlearn", "evaluate", "write", "commit"},
        {"encode", "train", "evaluate", "rehearse", "write", "commit"},
    ]
    whole = 0.0
    for version, phases in zip(versions, expected, strict=True):
        times = version.times
        assert times is not None
        assert set(times.phases) == phases
        assert min(times.phases.values()) >= 0
        assert 0 < sum(times.phases.values()) <= version.seconds
        assert not times.cold
        assert times.purge is not None
        whole += version.seconds + times.purge + times.kernels
    assert whole <= took
    assert trained.seconds == versions[0].seconds


def test_what_was_purged_later_is_written_down_later(tmp_path: Path) -> None:
    with untrained(tmp_path) as ws:
        ws.train()
        ws.defer_purge()
        for who in ("p0003", "p0005"):
            ws.submit(subjects=[who])
            ws.apply()
        before = ws.store.versions.find()[1:]
        assert [v.times.purge for v in before if v.times] == [None, None]
        assert ws.purge()
        after = ws.store.versions.find()[1:]
    assert len({v.times.purge for v in after if v.times}) == 1  # one purge for both
    for was, now in zip(before, after, strict=True):
        assert was.times is not None
        assert now.times is not None
        assert "commit" not in was.times.phases  # the transaction cannot know its own end
        assert now.times.phases["commit"] > 0
        assert now.seconds > was.seconds


def test_phases_within_phases_and_kernels_apart() -> None:
    clock = Clock({"a": 1, "b": 10, "c": 100, "d": 1000})
    watch = Stopwatch(clock)
    clock.reached("a")
    with watch.phase("outer"):
        clock.reached("b")
        with watch.phase("inner"):
            clock.reached("c")
            with watch.loading_kernels():
                clock.reached("d")
        clock.reached("b")
    clock.reached("a")
    watch.stop()
    clock.reached("d")
    assert watch.seconds == 122
    assert watch.times() == Times(phases={"inner": 100, "outer": 20}, cold=False, kernels=1000)


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].replays])
def test_rows_read_are_counted(method: str) -> None:
    """Against a count of what the sums themselves were handed."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((500, 6)) / 5).astype(np.float32)
    data = CpuEngine(Rows(X, (X[:, 0] > 0).astype(np.int32), True), 2)
    way = METHODS[method](Settings(), refine=True)
    state = way.prepare(way.train(data, rng), data)
    data.rows_read = 0
    way.unlearn(state, data, np.arange(10), rng)
    passes = data.rows_read / 490
    assert passes >= 2  # a gradient and a product at least: the rows that stay are read
    plain = METHODS[method](Settings())
    state = plain.prepare(plain.train(data, rng), data)
    data.rows_read = 0
    plain.unlearn(state, data, np.arange(10), rng)
    one_step = issubclass(METHODS[method], OneStep)
    assert (data.rows_read == 0) == one_step  # for one step, kept sums need no row


def test_an_erasure_of_a_workspace_says_how_many_rows_it_read(tmp_path: Path) -> None:
    with untrained(tmp_path) as ws:
        ws.train()
        ws.forget(subjects=["p0003"])
        version = ws.store.versions.find()[-1]
    assert version.times is not None
    assert version.times.steps == 1
    assert version.times.rows_read is not None
    assert version.times.rows_read >= 2 * version.rows


def test_kernels_are_ready_after_a_warm_up() -> None:
    X = np.zeros((5, 3), np.float32)
    data = CpuEngine(Rows(X, np.array([0, 1, 0, 1, 1], np.int32), True), 2)
    method = METHODS["fisher"](Settings(), refine=True)
    load_kernels(method, data)
    ready = kernels_loaded()
    rng = np.random.default_rng(0)
    state = method.prepare(method.train(data, rng), data)
    method.unlearn(state, data, np.array([0]), rng)
    assert kernels_loaded() == ready


@pytest.mark.slow
def test_a_first_training_is_not_recorded_with_its_compilation(tmp_path: Path) -> None:
    """In a process of its own, whose kernels come from the cache or the compiler."""
    with untrained(tmp_path) as ws:
        folder = ws.folder
    command = [sys.executable, "-m", "unfit.cli"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "train", "--json", "-w", str(folder)], capture_output=True, text=True, check=True
    )
    took = time.perf_counter() - started
    said = json.loads(done.stdout)
    with Workspace(folder) as ws:
        (version,) = ws.store.versions.find()
    assert version.times is not None
    assert not version.times.cold
    assert version.times.kernels > 0
    assert said["kernels"] == version.times.kernels
    assert said["seconds"] == version.seconds
    whole = version.seconds + version.times.kernels
    assert whole <= said["command_seconds"] <= took + 0.02  # the system counts in hundredths
