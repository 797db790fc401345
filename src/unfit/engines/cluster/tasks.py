"""What runs on a worker: map a shard, sum over its rows.

A shard is a range of the rows of some files. `load` maps it and leaves out whom the deletion list
names; whatever else is done with a shard is done with what `load` returned, so a worker that takes
over from a dead one begins there. Nothing here is pickled with rows in it: what a task left behind
goes to another worker as a description, and is made again there. Every task carries the epoch of
the deletion list, and refuses a shard of another one. One task uses one core.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from threadpoolctl import threadpool_limits

from unfit.core.kernels.parallel import limited_threads
from unfit.core.losses import Loss
from unfit.core.objective import Rows, longest_square
from unfit.core.sparse_rows import SparseRows
from unfit.engines.base import Engine
from unfit.engines.cluster.settings import installed_version
from unfit.engines.cpu import CpuEngine
from unfit.engines.sparse import SparseEngine
from unfit.errors import Unavailable
from unfit.row_files import RowFiles

BLOCK = 4096  # rows that a function of blocks is given at a time
_PACKED_FROM = 32  # bits take less than positions of 4 bytes from one row in so many on
_LARGE = 1 << 26  # bytes of a shard's rows
_limited: list[object] = []


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A range of rows, and what they mean."""

    files: RowFiles
    number: int
    start: int
    stop: int
    intercept: bool
    loss: Loss
    n_classes: int
    version: str

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class LeftOut:
    """Rows of a shard that do not count: rising positions in it, or one bit a row."""

    array: np.ndarray
    packed: bool

    @classmethod
    def at(cls, places: np.ndarray, n: int) -> "LeftOut":
        """places: rising positions in a shard of n rows."""
        if len(places) * _PACKED_FROM <= n:
            return cls(places.astype(np.int32), False)
        out = np.zeros(n, np.bool_)
        out[places] = True
        return cls.of(out)

    @classmethod
    def of(cls, out: np.ndarray) -> "LeftOut":
        """out: a mask of those rows, which are many."""
        return cls(np.packbits(out), True)

    def none(self) -> bool:
        return not self.packed and len(self.array) == 0

    def taken_from(self, mask: np.ndarray) -> np.ndarray:
        """A copy of a mask (n,), False where a row is left out."""
        if self.packed:
            return mask & ~np.unpackbits(self.array, count=len(mask)).view(np.bool_)
        kept = mask.copy()
        kept[self.array] = False
        return kept


@dataclass(frozen=True)
class Part:
    """A sum over the rows of a shard that count, and how many they are."""

    rows: int
    sums: Any


class Loaded:
    """A shard as an ordinary engine over the mapped file, without the rows left out."""

    def __init__(self, shard: Shard, epoch: int, left_out: LeftOut) -> None:
        self.shard, self.epoch, self.left_out = shard, epoch, left_out
        shard.files.check()
        rows = shard.files.rows(shard.start, shard.stop, shard.intercept, shard.loss)
        kind = SparseEngine if isinstance(rows, SparseRows) else CpuEngine
        self.engine: CpuEngine | SparseEngine = kind(rows, shard.n_classes)
        self._live = shard.files.live(shard.start, shard.stop).view(np.bool_)
        self._n_live = int(np.count_nonzero(self._live))
        self.base = left_out.taken_from(self._live)
        self.n = int(np.count_nonzero(self.base))

    def __reduce__(self) -> tuple[object, ...]:
        return load, (self.shard, self.epoch, self.left_out)

    def __sizeof__(self) -> int:
        """What it would cost another worker to have it: the scheduler keeps work where it is."""
        return int(len(self.shard) * self.shard.files.row_bytes)

    def kept(self, epoch: int, more: LeftOut) -> tuple[np.ndarray | None, int]:
        """The mask of the rows that count in a pass, None for all of the shard, and their number.
        more: left out in this pass alone."""
        if epoch != self.epoch:
            raise Unavailable(
                f"shard {self.shard.number} was mapped before rows were forgotten; run it again"
            )
        if more.none():
            return (None if self.n == len(self.shard) else self.base), self.n
        mask = more.taken_from(self.base)
        return mask, int(np.count_nonzero(mask))

    def require_live(self) -> None:
        """After a pass: no row that counted was zeroed meanwhile."""
        if np.count_nonzero(self._live) == self._n_live:
            return
        if np.count_nonzero(self._live & self.base) != self.n:  # else those who were left out went
            raise Unavailable(
                f"rows of shard {self.shard.number} were purged while they were read; run it again"
            )


class Evaluated:
    """Values and gradients of a shard at some weights, and what products with its Hessian need."""

    def __init__(self, loaded: Loaded, more: LeftOut, epoch: int, W: np.ndarray) -> None:
        self.loaded, self._made_of = loaded, (loaded, more, epoch, W)
        mask, self.rows = loaded.kept(epoch, more)
        with limited_threads(1):
            found = loaded.engine.value_gradient_products(W, mask)
        self.values, self.gradients, self.products = found
        loaded.require_live()

    def __reduce__(self) -> tuple[object, ...]:
        return Evaluated, self._made_of

    def __sizeof__(self) -> int:
        return self.loaded.__sizeof__()


def load(shard: Shard, epoch: int, left_out: LeftOut) -> Loaded:
    """Map a shard. left_out: whom the deletion list names; rows erased in the file go as well."""
    require_fit(shard.version)
    if not _limited:  # one task, one core: BLAS would take them all
        _limited.append(threadpool_limits(1))
    if len(shard) * shard.files.row_bytes > _LARGE:
        gc.collect()  # engines know themselves: a shard mapped before must not lie beside this one
    return Loaded(shard, epoch, left_out)


def require_fit(version: str) -> None:
    """That this worker has the unfit of whoever asks, and writes nothing to its disk."""
    if version != installed_version():
        raise Unavailable(other_version("a worker", installed_version(), version))
    if spills := facts().spills:
        raise Unavailable(spilling("a worker", spills[0]))


def applied(version: str, function: Callable[[Any], Any], item: Any) -> Any:
    """function(item), on a worker that may."""
    require_fit(version)
    return function(item)


@dataclass(frozen=True)
class Facts:
    """What a process of the cluster says of itself. spills: settings that let it write to disk."""

    version: str
    spills: tuple[str, ...]


def facts() -> Facts:
    """Of the process that this runs in."""
    keys = ("target", "spill")
    on = [key for key in keys if dask.config.get(f"distributed.worker.memory.{key}", None)]
    return Facts(installed_version(), tuple(on))


def other_version(who: str, theirs: str, ours: str) -> str:
    return (
        f"{who} has unfit {theirs} and this process has {ours}; install the same version everywhere"
    )


def spilling(who: str, key: str) -> str:
    """Rows must not be written to a worker's disk."""
    return (
        f"{who} may write what it has in memory to its disk (distributed.worker.memory.{key}), "
        "where no purge finds it; start workers with "
        f"DASK_DISTRIBUTED__WORKER__MEMORY__{key.upper()}=False"
    )


def summed(
    group: Sequence[Loaded],
    more: Sequence[LeftOut],
    epochs: Sequence[int],
    *,
    what: Callable[[Engine, np.ndarray | None], Any],
) -> list[Part]:
    """what(engine, mask) over the rows that count, of each shard of a group."""
    parts = []
    for loaded, out, epoch in zip(group, more, epochs, strict=True):
        mask, rows = loaded.kept(epoch, out)
        with limited_threads(1):
            found = what(loaded.engine, mask)
        loaded.require_live()
        parts.append(Part(rows, found))
    return parts


@dataclass(frozen=True)
class ValueGradient:
    W: np.ndarray

    def __call__(self, engine: Engine, mask: np.ndarray | None) -> list[np.ndarray]:
        return list(engine.value_gradient_sum(self.W, mask))


@dataclass(frozen=True)
class MeasuredGradient:
    W: np.ndarray

    def __call__(self, engine: Engine, mask: np.ndarray | None) -> list[np.ndarray]:
        return [engine.measured_gradient_sum(self.W, mask)]


@dataclass(frozen=True)
class Hessian:
    W: np.ndarray
    precise: bool

    def __call__(self, engine: Engine, mask: np.ndarray | None) -> list[np.ndarray]:
        engine.precise = self.precise
        return [engine.hessian_sum(self.W, mask)]


def gram(engine: Engine, mask: np.ndarray | None) -> list[np.ndarray]:
    return [engine.gram_sum(mask)]


def longest(engine: Engine, mask: np.ndarray | None) -> list[float]:
    """At least the square of the length of every row."""
    assert isinstance(engine, CpuEngine)
    return [longest_square(engine.rows, mask)]


def column_counts(engine: Engine, mask: np.ndarray | None) -> list[np.ndarray]:
    """How many rows have a value in each column."""
    assert isinstance(engine, SparseEngine)
    return [engine.rows.values_in_columns(mask)]


@dataclass(frozen=True)
class OfBlocks:
    """function(rows) of the rows that count, block by block."""

    function: Callable[[Rows], Any]

    def __call__(self, engine: Engine, mask: np.ndarray | None) -> list[Any]:
        places = np.arange(len(engine)) if mask is None else np.flatnonzero(mask)
        parts = (places[at : at + BLOCK] for at in range(0, len(places), BLOCK))
        return [self.function(engine.take(part)) for part in parts]


def evaluate(
    group: Sequence[Loaded], more: Sequence[LeftOut], epochs: Sequence[int], *, W: np.ndarray
) -> list[Evaluated]:
    shards = zip(group, more, epochs, strict=True)
    return [Evaluated(loaded, out, epoch, W) for loaded, out, epoch in shards]


def totals(group: Sequence[Evaluated]) -> list[Part]:
    return [Part(one.rows, [one.values, one.gradients]) for one in group]


def product(group: Sequence[Evaluated], *, problems: np.ndarray, V: np.ndarray) -> list[Part]:
    """The Hessian sum of each named problem of each shard times its vector, (j, d)."""
    parts = []
    for one in group:
        with limited_threads(1):
            found = one.products(problems, V)
        one.loaded.require_live()
        parts.append(Part(one.rows, [found]))
    return parts
