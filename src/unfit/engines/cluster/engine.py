"""The engine "dask": sums over shards, added here in the order of the shards.

One task a thread and a pass, with the weights as its argument, sums over the shards that lie
there. The order of additions is fixed, so a result does not depend on who computed what. This
process holds the positions of who left, and reads the few rows of a request from the files
themselves, which it sees as the workers do. Every sum says how many rows it counted, and that is
compared with the mask here: nobody who left can come back unnoticed. May know core, the other
engines and Dask.
"""

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from unfit.core.by_products import Systems
from unfit.core.conjugate_gradients import unguided
from unfit.core.factors import Factor
from unfit.core.objective import Products, Rows
from unfit.core.penalty import Ridge
from unfit.core.sgd import power_of_two_above
from unfit.core.sparse_rows import SparseRows
from unfit.engines.base import Engine
from unfit.engines.cluster import tasks
from unfit.engines.cluster.connection import connect
from unfit.engines.cluster.masks import FewMask
from unfit.engines.cluster.settings import Dask, installed_version
from unfit.engines.cluster.shards import Shards
from unfit.engines.cluster.tasks import Part, Shard
from unfit.engines.cpu import CpuEngine
from unfit.engines.sparse import MOST_PRODUCTS, OF_WEIGHTS, PRECISION, ProductsOnly, SparseEngine
from unfit.errors import Damaged, Unavailable
from unfit.row_files import RowFiles, write_rows

T = TypeVar("T")
_FORGOTTEN = "rows were forgotten while this worked with them; run it again"
_MOST_HERE = 1 << 30  # bytes of rows that may come to this process


class DaskEngine(Engine):
    """Dense rows in files, summed by the workers of a cluster."""

    name = "dask"
    takes_sample_weight = True

    def __init__(self, rows: Rows, n_classes: int, files: RowFiles | None, settings: Dask) -> None:
        if files is not None:
            self._own(files)
        super().__init__(rows, n_classes)
        cluster = connect(settings)
        cluster.client()
        if files is None:
            files = write_rows(new_folder(settings), rows, n_classes)
            self._own(files)
        shard = Shard(
            files=files,
            number=0,
            start=0,
            stop=0,
            intercept=rows.intercept,
            loss=rows.loss,
            n_classes=n_classes,
            version=installed_version(),
        )
        self.files = files
        self._shards = Shards(cluster, files, shard)
        self._tried = False  # whether deletions are on trial here
        self._keeper: Engine | None = None  # of the files, while engines share them
        self._copied_at: int | None = None  # how many were gone then; None for no copy

    def _own(self, files: RowFiles) -> None:
        """Files that belong to an engine go with it."""
        if files.temporary:
            weakref.finalize(self, shutil.rmtree, files.folder, ignore_errors=True)

    @property
    def made_by(self) -> Dask:
        return self._shards.cluster.settings

    @staticmethod
    def _new_mask(n: int, value: bool) -> np.ndarray:
        return FewMask.full(n, value).standing_in()

    def _keep(self, mask: np.ndarray | None) -> FewMask:
        return FewMask.of(self.remaining if mask is None else mask)

    def nth(self, ranks: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self._keep(mask).nth(ranks)

    def shared(self) -> Self:
        other = super().shared()
        other._tried, other._keeper = True, self._keeper or self
        return other

    def copied(self) -> Self:
        """The files are not copied: once rows of them leave, whatever is asked is refused."""
        other = self.shared()
        other._copied_at = len(self._shards.gone.few)
        return other

    def _require_current(self) -> None:
        """After rows were read: they are those of the engine that this one is a copy of."""
        if self._copied_at is not None and self._copied_at != len(self._shards.gone.few):
            raise Unavailable(_FORGOTTEN)

    def beside(self, rows: Rows) -> Engine:
        return CpuEngine(rows, self.classes)

    def miniature(self, n: int) -> Engine:
        return self.beside(self.take(np.zeros(0, np.int64))).miniature(n)

    def forget(self, rows: np.ndarray) -> None:
        super().forget(rows)
        if not self._tried and len(rows):
            self._shards.leave(rows)

    def erase(self, rows: np.ndarray) -> None:
        super().erase(rows)
        if self.files.temporary:
            self.files.zero(rows)
        if not self._tried and len(rows):
            self._shards.leave(rows)

    def take(self, rows: np.ndarray) -> Rows:
        size = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        if size * self.files.row_bytes > _MOST_HERE:
            raise Unavailable(
                f"{size:,} rows take {size * self.files.row_bytes / 1e9:.3g} GB, too much for the "
                "process that asks the cluster; ask for fewer rows (of an audit: give it test rows)"
            )
        taken = self._read(np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)
        self._require_current()
        return taken

    def _read(self, rows: np.ndarray) -> Rows:
        of_label = np.asarray(self.files.class_of_label, np.int32)
        codes = of_label[self.files.read("labels", rows)]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return Rows(self.files.read("X", rows), codes, self.intercept, self.loss, weight)

    def shards_of(self, rows: np.ndarray) -> int:
        """How many shards some rows lie in."""
        return len(self._shards.numbers_of(rows))

    @property
    def shards_mapped(self) -> int:
        """How often a worker has mapped a shard, so far."""
        return self._shards.loads

    def _pass(self, what: Callable[..., Any], mask: np.ndarray | None) -> list[Part]:
        """what(engine, mask) of every shard, in their order; the rows they counted are checked."""
        keep, shards = self._keep(mask), self._shards
        done = shards.run(tasks.summed, shards.left_out(keep), shards.epochs, what=what)
        return self._checked(shards.results(done), keep)

    def _checked(self, parts: list[Part], keep: FewMask) -> list[Part]:
        self._require_current()
        for number, ((start, stop), part) in enumerate(
            zip(self._shards.ranges, parts, strict=True)
        ):
            wanted = keep.count(start, stop)
            if part.rows < wanted and self._copied_at is not None:
                raise Unavailable(_FORGOTTEN)  # by another process: this one has not heard of it
            if part.rows != wanted:
                raise Damaged(
                    f"shard {number} of {Path(self.files.folder).name} has {part.rows:,} rows that "
                    f"count instead of {wanted:,}; open the model again"
                )
        return parts

    def _summed(self, what: Callable[..., Any], mask: np.ndarray | None) -> list[np.ndarray]:
        parts = self._pass(what, mask)
        self.rows_read += sum(part.rows for part in parts)
        return _added(parts)

    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = self._summed(tasks.ValueGradient(W), mask)
        return values, gradients

    def measured_gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self._summed(tasks.MeasuredGradient(W), mask)[0]

    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return self._summed(tasks.Hessian(W, self.precise), mask)[0]

    def radius(self) -> float | None:
        parts = self._pass(tasks.longest, None)
        self.rows_read += sum(part.rows for part in parts)
        return power_of_two_above(sqrt(max(part.sums[0] for part in parts)))

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray:
        return _added(self._pass(tasks.gram, mask))[0]

    def of_blocks(self, function: Callable[[Rows], T], mask: np.ndarray | None = None) -> list[T]:
        parts = self._pass(tasks.OfBlocks(function), mask)
        return [found for part in parts for found in part.sums]

    def value_gradient_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Products]:
        evaluation = self._shards.evaluation(self._keep(mask), W)
        found = evaluation.after(tasks.totals)
        values, gradients = _added(self._checked(found, evaluation.keep))
        self.rows_read += evaluation.keep.count()

        def products(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            parts = evaluation.after(tasks.product, problems=problems, V=V)
            self.rows_read += len(self)
            return _added(self._checked(parts, evaluation.keep))[0]

        return values, gradients, products


class SparseDaskEngine(ProductsOnly, DaskEngine):
    """Sparse rows in files, summed by the workers of a cluster; no d x d matrix is made."""

    def __init__(self, rows: Rows, n_classes: int, files: RowFiles | None, settings: Dask) -> None:
        super().__init__(rows, n_classes, files, settings)
        self._values_in_columns: np.ndarray | None = None  # of the rows that remain; when asked for

    def beside(self, rows: Rows) -> Engine:
        return SparseEngine(rows, self.classes)

    def radius(self) -> float | None:
        return None

    def _read(self, rows: np.ndarray) -> Rows:
        whole = self.files.rows(0, len(self), self.intercept, self.loss)
        return replace(whole, codes=self.codes, sample_weight=self.sample_weight).take(rows)

    def forget(self, rows: np.ndarray) -> None:
        if self._values_in_columns is not None:
            self._values_in_columns = self._values_in_columns - self._counts_of(rows)
        super().forget(rows)

    def _counts_of(self, rows: np.ndarray) -> np.ndarray:
        taken = self.take(rows)
        assert isinstance(taken, SparseRows)
        return taken.values_in_columns()

    def emptied_columns(self, rows: np.ndarray) -> np.ndarray:
        if self._values_in_columns is None:
            self._values_in_columns = _added(self._pass(tasks.column_counts, None))[0]
        leaving = self._counts_of(rows)
        return np.flatnonzero((leaving > 0) & (leaving == self._values_in_columns))

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: Ridge) -> Sequence[Factor]:
        _, _, products = self.value_gradient_products(W, mask)

        def regularised(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            return np.asarray(products(problems, V) + ridge * V)

        enough = None
        if not isinstance(ridge, np.ndarray):
            enough = np.asarray(OF_WEIGHTS * ridge * np.linalg.norm(W, axis=1))
        systems = Systems(
            products=regularised,
            guide=unguided,
            precision=PRECISION,
            most=MOST_PRODUCTS,
            dtype=np.dtype(np.float64),
            enough=enough,
        )
        return systems.factors(self.k)


def make(rows: Rows, n_classes: int, files: RowFiles | None, settings: Dask) -> Engine:
    """The engine "dask" for rows of either kind."""
    kind = SparseDaskEngine if isinstance(rows, SparseRows) else DaskEngine
    return kind(rows, n_classes, files, settings)


def _added(parts: Sequence[Part]) -> list[np.ndarray]:
    """Sums of all shards, added from the first to the last."""
    total = [np.array(one) for one in parts[0].sums]
    for part in parts[1:]:
        for one, more in zip(total, part.sums, strict=True):
            one += more
    return total


def new_folder(settings: Dask) -> Path:
    """A folder for rows in memory, which is not there yet."""
    if settings.folder is None and not settings.local:
        raise Unavailable(
            f"the cluster at {settings.address} may run on other machines: name a folder that all "
            "of them see, as Dask(address, folder='/shared/rows')"
        )
    parent = Path(settings.folder or tempfile.gettempdir()).expanduser().resolve()
    if not parent.is_dir():
        raise Unavailable(f"the folder {parent} for the rows is not there; make it first")
    return parent / f"unfit-rows-{uuid.uuid4().hex}"
