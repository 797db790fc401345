"""The rows of an engine as the cluster has them: mapped shard by shard, evenly over its threads.

Every shard has an epoch: how often rows of it have left. A shard whose rows leave is mapped anew,
and no other. May know Dask.
"""

import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Future

from unfit.engines.cluster import tasks
from unfit.engines.cluster.connection import Cluster
from unfit.engines.cluster.masks import FewMask
from unfit.engines.cluster.tasks import LeftOut, Shard
from unfit.row_files import RowFiles

SHARDS_PER_THREAD = 3
_LEAST = 1024  # rows of a shard, where that is for us to say
_ANYWHERE = ""  # the home of a shard that is mapped by whoever was there


class Shards:
    """The rows of an engine and of those that share them, as the cluster has them.

    gone: rows that the deletion list names, whom no task may count. loads: how many shards were
    mapped so far. Rows may leave while another thread works with the rows of before, which it then
    hears of at the end of its pass (`DaskEngine.copied`).
    """

    def __init__(self, cluster: Cluster, files: RowFiles, template: Shard) -> None:
        self.cluster, self.files = cluster, files
        self.gone = FewMask.full(files.n, False)
        self.loads = 0
        self._template = template
        self._ranges: list[tuple[int, int]] | None = None
        self._epochs: dict[int, int] = {}  # by the number of the shard; 0 for all others
        self._connection = 0
        self._mapped: dict[int, Future] = {}
        self._homes: dict[int, str] = {}  # where each was mapped, by the address of the worker
        # Released when the next tasks are on their way: workers get no message before those.
        self._last: list[Future] = []
        self._evaluations: weakref.WeakSet[Evaluation] = weakref.WeakSet()
        self._changing = threading.Lock()  # of what is gone, epochs, what is mapped; never for long

    def leave(self, rows: np.ndarray) -> None:
        """Rows are on the deletion list, or were zeroed in the files: their shards, and no others,
        are mapped anew."""
        with self._changing:
            self.gone[rows] = True
            self._last = []
            for evaluation in self._evaluations:
                evaluation.drop()
            if self._ranges is None:  # and nothing is mapped
                return
            for number in self.numbers_of(rows):
                self._epochs[number] = self._epochs.get(number, 0) + 1
                self._mapped.pop(number, None)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The rows of every shard, from start to stop: as many in each."""
        if self._ranges is None:
            n, wanted = self.files.n, self.cluster.settings.shards
            if wanted is None:
                threads = sum(self.cluster.workers().values())
                wanted = min(SHARDS_PER_THREAD * max(1, threads), max(1, n // _LEAST))
            cuts = [n * i // min(wanted, n) for i in range(min(wanted, n) + 1)]
            self._ranges = list(pairwise(cuts))
        return self._ranges

    @property
    def epochs(self) -> list[int]:
        """Of every shard."""
        return [self._epochs.get(number, 0) for number in range(len(self.ranges))]

    def numbers_of(self, rows: np.ndarray) -> list[int]:
        """The shards that some rows lie in."""
        stops = np.array([stop for _, stop in self.ranges])
        return [int(i) for i in np.unique(np.searchsorted(stops, rows, side="right"))]

    def mapped(self) -> list[Future]:
        """Every shard, mapped by some worker. A pass is as slow as the worker with the most of
        them, so each maps as many as it has threads for; when workers come or go, shards move."""
        self.cluster.client()
        ranges = self.ranges
        homes = spread(len(ranges), self.cluster.workers(), self._homes)
        moved = {i for i, home in homes.items() if self._homes.get(i) != home}
        with self._changing:
            if self._connection != self.cluster.connections:
                self._connection, self._mapped = self.cluster.connections, {}
            mapped, epochs = dict(self._mapped), dict(self._epochs)
        due = [i for i in range(len(ranges)) if i not in mapped or i in moved]
        if due:
            made = self._map(due, homes)
            mapped |= made
            with self._changing:  # rows may have left meanwhile, which shards mapped before have
                same = [i for i in due if self._epochs.get(i, 0) == epochs.get(i, 0)]
                self._mapped |= {i: made[i] for i in same}
        return [mapped[number] for number in range(len(ranges))]

    def _map(self, due: Sequence[int], homes: dict[int, str]) -> dict[int, Future]:
        """Home is a wish. The scheduler never runs a task whose home died when no worker was left,
        so a load that is not done when its home goes is made anew without one, and one that is
        done has no home any more: it can be computed again anywhere."""
        made = {number: self._load(number, homes.get(number)) for number in due}
        needed = {homes[number] for number in due if number in homes}
        if self.cluster.wait(list(made.values()), needed):
            self._homes |= {number: homes.get(number, _ANYWHERE) for number in due}
        else:
            made = {number: self._load(number, None) for number in due}
            self.cluster.wait(list(made.values()))
            self._homes |= dict.fromkeys(due, _ANYWHERE)
        self.cluster.run_anywhere(list(made.values()))
        self.loads += len(due)
        return made

    def _load(self, number: int, home: str | None) -> Future:
        start, stop = self.ranges[number]
        shard = replace(self._template, number=number, start=start, stop=stop)
        with self._changing:
            epoch, gone = self._epochs.get(number, 0), self.gone.between(start, stop)
        left_out = LeftOut.at(gone, stop - start)
        key = f"unfit-load-{number}-{epoch}-{uuid.uuid4().hex}"
        wish = {} if home is None else {"workers": [home], "allow_other_workers": True}
        return self.cluster.submitted(
            lambda client: client.submit(tasks.load, shard, epoch, left_out, key=key, **wish)
        )

    def run(self, task: Callable[..., Any], *each: Sequence[Any], **shared: Any) -> "Grouped":
        """task(shards, *each) of every group of mapped shards. each: something of every shard."""
        lists: list[Sequence[Any]] = [self.mapped(), *each]
        groups = self._groups()
        parts = [[[one[i] for i in numbers] for numbers in groups] for one in lists]
        return Grouped(groups, self._map_tasks(task, *parts, **shared))

    def evaluation(self, keep: FewMask, W: np.ndarray) -> "Evaluation":
        """What products with the Hessians at some weights need, of the rows of a mask."""
        made = Evaluation(self, keep, W)
        with self._changing:
            self._evaluations.add(made)
        return made

    def keep_evaluated(self, evaluation: "Evaluation", done: "Grouped", n_gone: int) -> None:
        """For the next products, unless rows have left since n_gone had."""
        with self._changing:
            if len(self.gone.few) == n_gone:
                evaluation.done = done

    def after(self, task: Callable[..., Any], done: "Grouped", **shared: Any) -> "Grouped":
        """task(what was done) of every group."""
        return Grouped(done.numbers, self._map_tasks(task, done.futures, **shared))

    def _map_tasks(self, task: Callable[..., Any], *each: Sequence[Any], **shared: Any) -> Any:
        # A name of their own for the tasks of a pass: the scheduler takes tasks of one name, where
        # there are many, for some that may run anywhere, and moves what they work on.
        name = f"unfit-{task.__name__}-{uuid.uuid4().hex}"
        keys = [(name, i) for i in range(len(each[0]))]
        self._last = self.cluster.submitted(
            lambda client: list(client.map(task, *each, key=keys, pure=False, **shared))
        )
        return list(self._last)

    def _groups(self) -> list[list[int]]:
        """Shards that lie together, a group a thread: a task takes a round trip of its own, so one
        task sums over all shards of a thread."""
        by_home: dict[str, list[int]] = {}
        for number in range(len(self.ranges)):
            by_home.setdefault(self._homes.get(number, _ANYWHERE), []).append(number)
        groups = [[number] for number in by_home.pop(_ANYWHERE, [])]
        threads = self.cluster.workers()
        for home, numbers in by_home.items():
            count = min(len(numbers), max(1, threads.get(home, 1)))
            cuts = [len(numbers) * i // count for i in range(count + 1)]
            groups += [numbers[first:last] for first, last in pairwise(cuts)]
        return groups

    def results(self, done: "Grouped") -> list[Any]:
        """What tasks return of every shard, in their order; after a failure, shards are mapped anew
        by whoever tries again."""
        try:
            found = self.cluster.results(done.futures)
        except BaseException:
            self._mapped = {}
            raise
        numbered = zip(done.numbers, found, strict=True)
        each = {i: one for numbers, of in numbered for i, one in zip(numbers, of, strict=True)}
        return [each[number] for number in range(len(each))]

    def left_out(self, keep: FewMask) -> list[LeftOut]:
        """Those who do not count in a pass although their shards have them."""
        out = ~keep & ~self.gone
        if out.inside:
            parts = ((out.between(start, stop), stop - start) for start, stop in self.ranges)
            return [LeftOut.at(places, n) for places, n in parts]
        return [LeftOut.of(out[start:stop]) for start, stop in self.ranges]  # all but a few


class Evaluation:
    """Shards evaluated at some weights, on the workers.

    It is dropped when rows leave: whoever still knows it would keep shards mapped that are mapped
    anew beside them. Asked again, it is made again, without those who left.
    """

    def __init__(self, shards: Shards, keep: FewMask, W: np.ndarray) -> None:
        self._shards, self._keep, self._W = shards, keep.copy(), W
        self.done: Grouped | None = None

    @property
    def keep(self) -> FewMask:
        """The rows that count."""
        kept: FewMask = self._keep & ~self._shards.gone
        return kept

    def drop(self) -> None:
        self.done = None

    def after(self, task: Callable[..., Any], **shared: Any) -> list[Any]:
        """task(what was evaluated) of every shard."""
        shards, done = self._shards, self.done
        if done is None:
            n_gone, left_out = len(shards.gone.few), shards.left_out(self.keep)
            done = shards.run(tasks.evaluate, left_out, shards.epochs, W=self._W)
            shards.keep_evaluated(self, done, n_gone)
        return shards.results(shards.after(task, done, **shared))


@dataclass(frozen=True)
class Grouped:
    """A task for each group of shards, which returns something of every shard in it."""

    numbers: list[list[int]]
    futures: list[Future]


def spread(shards: int, threads: dict[str, int], before: dict[int, str]) -> dict[int, str]:
    """The worker of each shard, so that all threads have as many: in the order of the addresses,
    except that whoever has one already keeps it where that is not too many. threads: of each
    worker; nobody has a home where there are no workers."""
    names = sorted(name for name, count in threads.items() if count > 0)
    total = sum(threads[name] for name in names)
    room, upto = {}, 0
    for name in names:
        first, upto = upto, upto + threads[name]
        room[name] = shards * upto // total - shards * first // total
    homes: dict[int, str] = {}
    for number in range(shards):
        name = before.get(number, _ANYWHERE)
        if room.get(name, 0) > 0:
            homes[number] = name
            room[name] -= 1
    free = iter([name for name in names for _ in range(room[name])])
    for number in range(shards if names else 0):
        if number not in homes:
            homes[number] = next(free)
    return homes
