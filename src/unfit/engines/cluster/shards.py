"""The rows of an engine as the cluster has them: mapped shard by shard, in one epoch at a time.

May know Dask.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, Future

from unfit.engines.cluster import tasks
from unfit.engines.cluster.connection import Cluster
from unfit.engines.cluster.tasks import LeftOut, Shard
from unfit.row_files import RowFiles

SHARDS_PER_THREAD = 3
_LEAST = 1024  # rows of a shard, where that is for us to say
_IN_TURN = 64  # shards that are mapped one after another; chance spreads more of them well enough


class Shards:
    """The rows of an engine and of those that share them, as the cluster has them.

    gone: rows that the deletion list names, whom no task may count. epoch: how often it has grown;
    what was mapped in another epoch is not used any more.
    """

    def __init__(self, cluster: Cluster, files: RowFiles, template: Shard) -> None:
        self.cluster, self.files = cluster, files
        self.gone = np.zeros(files.n, np.bool_)
        self._here = np.ones(files.n, np.bool_)  # all others
        self.epoch = 0
        self._template = template
        self._ranges: list[tuple[int, int]] | None = None
        self._mapped: tuple[tuple[int, int], list[Future]] | None = None

    def leave(self, rows: np.ndarray) -> None:
        """Rows are on the deletion list, or were zeroed in the files: shards are mapped anew."""
        self.gone[rows] = True
        self._here[rows] = False
        self.epoch += 1
        self._mapped = None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        if self._ranges is None:
            n, wanted = self.files.n, self.cluster.settings.shards
            if wanted is None:
                threads = sum(self.cluster.workers().values())
                wanted = min(SHARDS_PER_THREAD * max(1, threads), max(1, n // _LEAST))
            cuts = [n * i // min(wanted, n) for i in range(min(wanted, n) + 1)]
            self._ranges = list(pairwise(cuts))
        return self._ranges

    def mapped(self) -> list[Future]:
        """Every shard, mapped by some worker.

        A pass is as slow as the worker with the most of them.
        """
        client, ranges = self.cluster.client(), self.ranges
        known = self.cluster.connections, self.epoch
        if self._mapped is None or self._mapped[0] != known:
            numbers = range(len(ranges))
            if len(ranges) <= _IN_TURN:
                self._mapped = known, self._loaded_in_turn(client)
            else:
                self._mapped = known, [self._load(client, number) for number in numbers]
        return self._mapped[1]

    def _loaded_in_turn(self, client: Client) -> list[Future]:
        """One after another: among idle workers the scheduler goes round, more or less."""
        made: list[Future] = []
        for number in range(len(self.ranges)):
            made.append(self._load(client, number))
            self.cluster.wait(made[-1:])
        return made

    def _load(self, client: Client, number: int) -> Future:
        """No worker is named: a task that prefers one that has died is never run."""
        start, stop = self.ranges[number]
        shard = replace(self._template, number=number, start=start, stop=stop)
        left_out = LeftOut.of(self.gone[start:stop])
        key = f"unfit-load-{number}-{self.epoch}-{uuid.uuid4().hex}"
        return client.submit(tasks.load, shard, self.epoch, left_out, key=key)

    def map(self, task: Callable[..., Any], *each: Sequence[Any], **shared: Any) -> list[Future]:
        """One task a shard."""
        name = f"unfit-{task.__name__}-{uuid.uuid4().hex}"
        futures = self.cluster.client().map(task, *each, key=name, pure=False, **shared)
        return list(futures)

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """What tasks return; after a failure, shards are mapped anew by whoever tries again."""
        try:
            return self.cluster.results(futures)
        except BaseException:
            self._mapped = None
            raise

    def left_out(self, mask: np.ndarray) -> list[LeftOut]:
        """Those who do not count in a pass although their shards have them."""
        if np.array_equal(mask, self._here):
            return [LeftOut.nobody()] * len(self.ranges)
        out = self._here & ~mask
        return [LeftOut.of(out[start:stop]) for start, stop in self.ranges]
