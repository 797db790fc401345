"""Workers of a cluster that read and write files of a workspace at once. May know Dask."""

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from distributed import Future

from unfit.engines.cluster import tasks
from unfit.engines.cluster.connection import connect
from unfit.engines.cluster.settings import Dask, installed_version

A = TypeVar("A")
B = TypeVar("B")
_AHEAD = 2  # items for each thread that are on their way: what they make waits in memory


class ClusterReaders:
    """See unfit.readers. A worker that dies is no matter: what it did is done again."""

    def __init__(self, settings: Dask) -> None:
        self._cluster = connect(settings)

    @property
    def count(self) -> int:
        return max(1, sum(self._cluster.workers().values()))

    def each(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        ahead, waiting = _AHEAD * self.count, deque[Future]()
        for item in items:
            waiting.append(self._submitted(function, item))
            if len(waiting) >= ahead:
                yield self._cluster.results([waiting.popleft()])[0]
        while waiting:
            yield self._cluster.results([waiting.popleft()])[0]

    def _submitted(self, function: Callable[[A], B], item: A) -> Future:
        key = f"unfit-{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        return self._cluster.submitted(
            lambda client: client.submit(
                tasks.applied, installed_version(), function, item, key=key, pure=False
            )
        )
