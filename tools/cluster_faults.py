"""What the engine "dask" survives, as docs/scaling.md states it: workers and schedulers are killed
while rows are trained on, forgotten and trained on again.

    python tools/cluster_study.py make FOLDER --rows 500000
    python tools/cluster_faults.py worker FOLDER        kill -9 of a worker at 20 random moments
    python tools/cluster_faults.py scheduler FOLDER     kill -9 of the scheduler at 5 of them
    python tools/cluster_faults.py partition FOLDER     a worker that nobody hears for a while
    python tools/cluster_faults.py story FOLDER --address tcp://...     what is disturbed, once

Of every moment: whether the story ended by itself, and how far all weights on the way are from
those of one undisturbed process.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
from cluster_study import SETTINGS, cluster, engine, opened, timed
from distributed import Client, LocalCluster

from unfit.engines.base import Engine
from unfit.errors import UnfitError
from unfit.methods import METHODS

TTL, SILENT = 4, 15  # seconds: until a worker is given up, and for which it is not heard
BEGUN = "begun"  # what a story says once it has reached the scheduler
NO_SPILLING = {
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_LOGGING__DISTRIBUTED": "critical",
}


def story(data: Engine) -> np.ndarray:
    """Train, forget twice, train again: all weights on the way."""
    rng, method = np.random.default_rng(1), METHODS["newton"](SETTINGS)
    state = method.prepare(method.train(data, rng), data)
    seen = [state.weights]
    for gone in (np.array([5]), np.arange(100, 1100)):
        state = method.unlearn(state, data, gone, rng)
        data.forget(gone)
        seen.append(state.weights)
    seen.append(METHODS["retrain"](SETTINGS).train(data, rng).weights)
    assert data.n_remaining == len(data) - 1001
    return np.concatenate(seen)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def worker_killed(folder: Path, n: int | None, times: int = 20) -> dict[str, Any]:
    """One of two workers dies at a random moment of every story; before the next, its nanny has
    started another one."""
    files, rng = opened(folder, n), np.random.default_rng(2)
    expected = story(engine(files, None))
    moments: list[float] = []
    worst = 0.0
    with cluster() as running:
        story(engine(files, running.scheduler_address))  # compiles
        length, _ = timed(lambda: story(engine(files, running.scheduler_address)))
        while len(moments) < times:
            running.wait_for_workers(2, timeout=60)
            moment, victim = float(rng.uniform(0, length)), int(rng.integers(2))
            killer = threading.Timer(moment, kill, (running, victim))
            killer.start()
            found = story(engine(files, running.scheduler_address))
            killer.join()
            moments.append(moment)
            worst = max(worst, apart(found, expected))
    return {
        "rows": files.n,
        "kills": len(moments),
        "moments_s": [round(moment, 3) for moment in moments],
        "undisturbed_s": length,
        "worst_distance": worst,
    }


def partitioned(folder: Path, n: int | None, times: int = 3) -> dict[str, Any]:
    """One of two workers is stopped at a random moment of every story, as if the network had split,
    for longer than the scheduler waits (worker-ttl), and goes on afterwards."""
    files, rng, tries = opened(folder, n), np.random.default_rng(5), []
    expected = story(engine(files, None))
    with dask.config.set({"distributed.scheduler.worker-ttl": f"{TTL} s"}), cluster() as running:
        story(engine(files, running.scheduler_address))  # compiles
        length, _ = timed(lambda: story(engine(files, running.scheduler_address)))
        for _ in range(times):
            running.wait_for_workers(2, timeout=60)
            moment, victim = float(rng.uniform(0, length)), int(rng.integers(2))
            pid = list(running.workers.values())[victim].pid
            stop = threading.Timer(moment, send, (pid, signal.SIGSTOP))
            go_on = threading.Timer(moment + SILENT, send, (pid, signal.SIGCONT))
            stop.start()
            go_on.start()
            taken, found = timed(lambda: story(engine(files, running.scheduler_address)))
            go_on.join()
            again = story(engine(files, running.scheduler_address))  # the silent one is heard again
            away = max(apart(found, expected), apart(again, expected))
            tries.append({"moment_s": moment, "took_s": taken, "distance": away})
    return {"rows": files.n, "ttl_s": TTL, "silent_s": SILENT, "story_s": length, "tries": tries}


def send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:  # its nanny has put another one in its place
        return


def kill(running: LocalCluster, which: int) -> None:
    os.kill(list(running.workers.values())[which].pid, signal.SIGKILL)


def scheduler_killed(folder: Path, n: int | None, times: int = 5) -> dict[str, Any]:
    """The scheduler dies at a random moment of a story that another process runs; it and its
    workers are started again, and so is the story."""
    files, rng = opened(folder, n), np.random.default_rng(3)
    expected, port, tries = story(engine(files, None)), free_port(), []
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, __file__, "story", str(folder), "--address", address]
    command += [] if n is None else ["--rows", str(n)]
    with by_command(port):
        length, _ = timed(begun(command).communicate)
    while len(tries) < times:
        moment = float(rng.uniform(0, length))
        with by_command(port) as scheduler:
            disturbed = begun(command)
            time.sleep(moment)
            scheduler.kill()
            out, errors = disturbed.communicate(timeout=120)
        if disturbed.returncode == 0:  # it was done before
            continue
        with by_command(port):
            weights, _ = begun(command).communicate()
        distance = apart(np.array(json.loads(weights)), expected)
        tries.append({"moment_s": moment, "said": errors.strip() or out, "again": distance})
    return {"rows": files.n, "undisturbed_s": length, "tries": tries}


def begun(command: list[str]) -> subprocess.Popen[str]:
    """The process of a story that has reached the scheduler: however long it takes to start, a
    moment counts from here."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != BEGUN:
        raise RuntimeError(f"the story did not begin: {said}{process.communicate()[1]}")
    return process


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def by_command(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler and two workers, each started by its command."""
    address, environment = f"tcp://127.0.0.1:{port}", {**os.environ, **NO_SPILLING}

    def start(name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *words, "--no-dashboard"]
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(started.wait)
        stack.callback(started.kill)
        return started

    with ExitStack() as stack:
        scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", str(port))
        for _ in range(2):
            start("dask_worker", address, "--nthreads", "1", "--memory-limit", "0", "--no-nanny")
        with Client(address, timeout="30s", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        yield scheduler


def told(folder: Path, n: int | None, address: str) -> None:
    """The story as a command: a line when it has reached the scheduler, then its weights, or one
    sentence."""
    try:
        rows = engine(opened(folder, n), address)
        print(BEGUN, flush=True)
        print(json.dumps(story(rows).tolist()))
    except UnfitError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("what", choices=["worker", "scheduler", "partition", "story"])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rows", type=int)
    asked.add_argument("--times", type=int)
    asked.add_argument("--address", default="")
    given = asked.parse_args()
    folder, n = given.folder, given.rows
    if given.what == "story":
        told(folder, n, given.address)
        return
    studies = {
        "worker": lambda: worker_killed(folder, n, given.times or 20),
        "scheduler": lambda: scheduler_killed(folder, n, given.times or 5),
        "partition": lambda: partitioned(folder, n, given.times or 3),
    }
    found = studies[given.what]()
    (folder / f"{given.what}.json").write_text(json.dumps(found))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
