"""A Dask cluster for tests: a scheduler in this process, workers in processes of their own."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from distributed import LocalCluster
from services import until

from unfit.engines import Dask
from unfit.engines.cluster.connection import disconnect_all

CONFIGURATION = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # LocalCluster looks so long after a worker died whether there is one of its name, and gives it
    # up if that one is just being started, because it died as well.
    "distributed.deploy.lost-worker-timeout": "1 hour",
}

ENVIRONMENT = {  # the same, for a worker that is started by its command
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
}


class Running:
    """A started cluster."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder

    @property
    def address(self) -> str:
        return str(self.cluster.scheduler_address)

    def engine(self, **settings: object) -> Dask:
        return Dask(self.address, **settings)

    def pids(self) -> list[int]:
        """Of the workers at work: one that is killed while it starts is not started again."""
        known = set(self.cluster.scheduler.workers)
        nannies = self.cluster.workers.values()
        return [w.pid for w in nannies if w.pid and w.worker_address in known]

    def kill(self, which: int = 0) -> None:
        """kill -9 of a worker, if there is one; its nanny starts another one."""
        pids = self.pids()
        if pids:
            os.kill(pids[which % len(pids)], signal.SIGKILL)


@contextmanager
def local(
    folder: Path, n_workers: int = 2, config: dict[str, object] | None = None, port: int = 0
) -> Iterator[Running]:
    """So many workers of one thread each; what they write goes under the folder."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set({**CONFIGURATION, **(config or {})}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            scheduler_port=port,
            dashboard_address=":0",
            local_directory=str(folder),
            memory_limit=0,
        ) as cluster,
    ):
        try:
            yield Running(cluster, folder)
        finally:
            disconnect_all()


@contextmanager
def scheduler(
    folder: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """The address of a scheduler that is started by its command."""
    about = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    host = options or ("--host", "127.0.0.1")
    started = subprocess.Popen(
        [*command, "--no-dashboard", "--scheduler-file", str(about), *host],
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(about.exists, "the scheduler")
        yield str(until(lambda: json.loads(about.read_text() or "{}"))["address"])
    finally:
        started.kill()
        started.wait()


@contextmanager
def worker(
    running: Running, folder: Path, environment: dict[str, str] | None = None, *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that is started by its command, and that nobody starts again."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", running.address]
    started = subprocess.Popen(
        [*command, "--no-nanny", "--no-dashboard", "--local-directory", str(folder), *options],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),  # to see the functions of a test
            **ENVIRONMENT,
            **(environment or {}),
        },
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
