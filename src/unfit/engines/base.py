"""What an engine offers: sums over rows, products, the rows of a request, and factors.

An engine holds the rows a model was trained on and the mask of those that remain. Methods ask it
for sums and never see where the rows are. A new engine is one class: it derives from `Engine` and
says how three things are computed (`take`, `value_gradient_sum`, `hessian_sum`); everything else
has a plain default that it may do better. engines.sgd has what an engine may lack.

A package adds an engine by an entry point of the group "unfit.engines", whose class is called as
`engine(rows, n_classes)`. Which one is used is for the machine to say: the environment variable
UNFIT_ENGINE, `engine` of an estimator, or [engine] in unfit.toml; engines.auto chooses for "auto".
`make_engine` makes the one of a name. One with settings is made by whoever has them: that is `Dask`
by the workspace's session. May know core.
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from unfit.core.class_split import ClassSplit
from unfit.core.conjugate_gradients import Guide, Offer
from unfit.core.deleted_sums import sums_of_rows
from unfit.core.factors import Cholesky, Factor
from unfit.core.losses import Loss
from unfit.core.objective import Products, Rows, problems
from unfit.core.penalty import Ridge, with_ridge
from unfit.core.sparse_rows import SparseRows
from unfit.core.statistics import Statistics
from unfit.engines.auto import Task, chosen_for
from unfit.errors import Unavailable
from unfit.readers import Readers
from unfit.registry import Registry
from unfit.row_files import RowFiles

T = TypeVar("T")
BLOCK = 4096  # rows that a function of blocks is given at a time


class Engine(ABC):
    """Rows, their class codes, and sums over those that remain.

    A mask is None for the remaining rows, or a boolean array over all rows. W is (k, d) float64, d
    counts the intercept. Sums leave the regulariser out. Attributes: k problems; codes (n,), the
    class of every row; sample_weight (n,), by which sums multiply each row, or None; remaining
    (n,), a mask that only `forget` changes; erased (n,), rows whose values are not here any more;
    rows_read, by sums over the rows that remain, so far; precise, whether Hessian sums must be
    float64's throughout, as certificates need them; reason, why it was chosen, where it was.
    """

    name: ClassVar[str]
    reason: str = ""
    takes_sample_weight: ClassVar[bool] = False  # an engine that says so multiplies by them
    takes_sparse: ClassVar[bool] = False  # whether its rows are SparseRows, and not dense ones
    # Whether a d x d matrix can exist. Where it cannot, `wide` is always true, factors are known by
    # products with them, and hessian_sum, gram_sum and sums_of raise Unavailable.
    forms_hessian: ClassVar[bool] = True
    carries_sums: ClassVar[bool] = False  # whether gradients may rest on what was evaluated before

    def __init__(self, rows: Rows, n_classes: int) -> None:
        self.codes, self.intercept, self.loss = rows.codes, rows.intercept, rows.loss
        self.sample_weight = rows.sample_weight
        self.dtype: np.dtype = rows.X.dtype
        self.d, self.k = rows.d, problems(n_classes)
        self.remaining = self._new_mask(len(rows), True)
        self.erased = self._new_mask(len(rows), False)
        self.n_remaining = len(rows)
        self.rows_read = 0
        self.precise = False

    codes: np.ndarray
    intercept: bool
    loss: Loss
    sample_weight: np.ndarray | None

    @abstractmethod
    def take(self, rows: np.ndarray) -> Rows:
        """The given rows, by position or mask, copied."""

    @abstractmethod
    def value_gradient_sum(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sums of values (k,) and gradients (k, d) of the loss, in float64."""

    @abstractmethod
    def hessian_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The Hessian sum of each problem, (k, d, d), in float64."""

    def __len__(self) -> int:
        return len(self.remaining)

    @staticmethod
    def _new_mask(n: int, value: bool) -> np.ndarray:
        """A mask over n rows. An engine of more rows than this process has bytes for gives
        something that stands in for the array."""
        return np.full(n, value)

    def shared(self) -> Self:
        """The same rows with a mask of its own, to try a deletion on."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.remaining, other.rows_read = self.remaining.copy(), 0
        return other

    def __reduce__(self) -> tuple[object, ...]:
        """A pickle holds the rows that remain and no others; positions keep their meaning."""
        places = np.asarray(self.remaining)
        return _restored, (self._left(), self.classes, places, self.made_by, self.precise)

    @property
    def classes(self) -> int:
        """How many classes the rows have."""
        return 2 if self.k == 1 else self.k

    @property
    def made_by(self) -> "str | MakeEngine":
        """What `make_engine` is to be told to make another one of this kind."""
        return self.name

    def beside(self, rows: Rows) -> "Engine":
        """An engine of a few more rows of the same kind, in the memory of this process."""
        return make_engine(rows, self.classes, name=self.made_by)

    def _left(self) -> Rows:
        return self.take(np.flatnonzero(self.remaining))

    def copied(self) -> Self:
        """The same with rows of its own: those of this one may be zeroed where they lie."""
        return self.shared()

    def miniature(self, n: int) -> "Engine":
        """n made-up rows of the same kind, on which whatever must be compiled can be."""
        rng = np.random.default_rng(0)
        classes = 2 if self.k == 1 else 3
        X = rng.standard_normal((n, self.d - self.intercept)).astype(self.dtype) / 100
        codes = np.arange(n, dtype=self.codes.dtype) % classes
        return self._like(Rows(X, codes, self.intercept, self.loss), classes)

    def _like(self, rows: Rows, n_classes: int) -> "Engine":
        """An engine of other rows, with the settings of this one."""
        return type(self)(rows, n_classes)

    @property
    def compiled_for(self) -> Hashable:
        """What compiled code depends on: engines that agree in it need no second miniature."""
        return self.name, self.dtype, self.k == 1, self.intercept, self.loss

    def without(self, rows: np.ndarray) -> np.ndarray:
        """The mask of the rows that remain when `rows` leave."""
        mask = self.remaining.copy()
        mask[rows] = False
        return mask

    def classes_without(self, rows: np.ndarray, n_classes: int) -> np.ndarray:
        """Which classes have a row when `rows` leave, (n_classes,): looked up in blocks of rows, of
        which the first few nearly always show them all."""
        mask, found = self.without(rows), np.zeros(n_classes, np.bool_)
        for start in range(0, len(mask), BLOCK):
            part = slice(start, start + BLOCK)
            found |= np.bincount(self.codes[part][mask[part]], minlength=n_classes) > 0
            if found.all():
                break
        return found

    def forget(self, rows: np.ndarray) -> None:
        """Drop rows from the data. Methods never call it: whoever activates the new model does."""
        self.remaining[rows] = False
        self.n_remaining -= len(rows)

    def nth(self, ranks: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The positions of rows, by their ranks among those of a mask (None: the remaining)."""
        return np.asarray(np.flatnonzero(self.remaining if mask is None else mask)[ranks])

    def total_weight(self, mask: np.ndarray | None = None) -> float:
        """The sum of the sample weights of the rows of a mask: how many they are if unweighted."""
        if self.sample_weight is None:
            return float(self.n_remaining if mask is None else np.count_nonzero(mask))
        return float(self.sample_weight[self.remaining if mask is None else mask].sum())

    def weight_of(self, rows: np.ndarray) -> float:
        """The same of the rows at some positions."""
        return float(len(rows) if self.sample_weight is None else self.sample_weight[rows].sum())

    def weight_without(self, rows: np.ndarray) -> float:
        """The same of the rows that remain when some leave: summed, because beside heavy rows that
        leave, what is left of a difference would be rounding."""
        if self.sample_weight is None:
            return float(self.n_remaining - len(rows))
        return self.total_weight(self.without(rows))

    def expect_passes(self) -> None:  # noqa: B027  # an engine may do nothing about it
        """Many passes over the rows are to come, for each of which somebody waits: an engine may
        keep what makes them cheaper."""

    def erase(self, rows: np.ndarray) -> None:
        """The values of rows that have left are not to be here any more: whoever owns the rows
        zeroes them, and an engine what it has copied."""
        self.erased[rows] = True

    def emptied_columns(self, rows: np.ndarray) -> np.ndarray:
        """Columns in which nobody has a value once these rows leave, as far as that is known: their
        weights are zero at the optimum, and anything else would tell what the rows had."""
        return np.zeros(0, np.int64)

    def of_blocks(self, function: Callable[[Rows], T], mask: np.ndarray | None = None) -> list[T]:
        """function(rows) of the rows of a mask (None: the remaining), block by block in order.

        Where rows lie elsewhere, the function goes there: it must be one that can be pickled.
        """
        places = np.flatnonzero(self.remaining if mask is None else mask)
        parts = (places[start : start + BLOCK] for start in range(0, len(places), BLOCK))
        return [function(self.take(part)) for part in parts]

    def radius(self) -> float | None:
        """A power of two that no remaining row is longer than, intercept included: one pass, which
        is counted. None where rows lie so that it would cost more than that."""
        return None

    def margins(self, W: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """x.w of the given rows, (m, k)."""
        return self.take(rows).margins(W)

    def gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The gradient sum of each problem, (k, d)."""
        return self.value_gradient_sum(W, mask)[1]

    def measured_gradient_sum(self, W: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The same by a pass over these rows at these weights, as a certificate needs it: nothing
        is carried over from other weights, and no row was added to be taken away again."""
        return self.gradient_sum(W, mask)

    def sums_of(self, W: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient (k, d) and Hessian (k, d, d) sums of the given rows."""
        taken = self.take(rows)
        return sums_of_rows(taken, np.arange(len(taken)), W)

    def gram_sum(self, mask: np.ndarray | None = None) -> np.ndarray:
        """sum x x^T, (d, d)."""
        rows = self.take(np.flatnonzero(self.remaining if mask is None else mask))
        X = np.ones((len(rows), self.d))
        X[:, : rows.X.shape[1]] = rows.X
        return np.asarray(X.T @ X)

    def wide(self, mask: np.ndarray | None = None) -> bool:
        """Whether there are so many more columns than rows that no d x d matrix is to be made."""
        return False

    def factors(self, W: np.ndarray, mask: np.ndarray | None, ridge: Ridge) -> Sequence[Factor]:
        """The Hessian sum of each problem plus the ridge, ready to be solved with.

        ridge: one number for every column, or (d,) where the intercept is not penalised.
        """
        return [Cholesky.of(h) for h in with_ridge(self.hessian_sum(W, mask), ridge)]

    def with_factors(self, known: Statistics, roots: bool) -> Statistics:
        """Statistics with a factor of every Hessian, kept where this engine computes."""
        return known.with_factors(roots)

    def value_gradient_products(
        self, W: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Products]:
        """The sums of values (k,) and gradients (k, d), and products(problems (j,), V (j, d)).

        A product is the Hessian sum of each named problem times its vector, (j, d), by one pass
        over the rows for all. Vectors of float32 ask for no more than its precision.
        """
        hessians = self.hessian_sum(W, mask)

        def products(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            return np.asarray(np.einsum("jde,je->jd", hessians[problems], V, dtype=np.float64))

        return *self.value_gradient_sum(W, mask), products

    def regularised(self, products: Products, ridge: Ridge) -> Products:
        """Products with the Hessian sums plus the ridge, from products with the sums."""

        def regularised(problems: np.ndarray, V: np.ndarray) -> np.ndarray:
            return np.asarray(products(problems, V) + ridge * V)

        return regularised

    @property
    def numbers(self) -> int:
        """How many numbers a pass over the remaining rows reads."""
        return self.n_remaining * self.d

    @property
    def products_need_hessians(self) -> bool:
        """Whether products come from whole Hessians, so that Hessians may as well be asked for."""
        return type(self).value_gradient_products is Engine.value_gradient_products

    def guide(self, mask: np.ndarray | None, ridge: Ridge) -> Guide | None:
        """About the inverses of the Hessians plus ridge I at the weights that were evaluated last,
        where that is at hand."""
        return None

    def offer(self, mask: np.ndarray | None, ridge: Ridge) -> Offer | None:
        """Such a guide, where it can be made."""
        return None

    def class_split(self, known: Statistics) -> ClassSplit | None:
        """Sums of each of two classes at the weights of those known, where they can be used."""
        return None

    def by_class_split(self, known: Statistics, rows: np.ndarray) -> tuple[np.ndarray, Factor]:
        """The gradient sum (1, d) of the given rows, and the Hessian of those that remain then.

        From sums of each class: where most of one goes, the rows that stay are looked at.
        """
        raise ValueError("no sums of each class were prepared")


class MakeEngine(Protocol):
    """What makes an engine: a class of them, or an engine with settings of its own, as `Dask`."""

    def __call__(self, rows: Rows, n_classes: int, /) -> Engine: ...


ENGINES: Registry[MakeEngine] = Registry(
    "engine",
    "unfit.engines",
    {
        "cpu": "unfit.engines.cpu:CpuEngine",
        "sparse": "unfit.engines.sparse:SparseEngine",
        "torch": "unfit.engines.device.engine:TorchEngine",
        "dask": "unfit.engines.cluster.settings:of_environment",
    },
)
ENVIRONMENT, AUTO = "UNFIT_ENGINE", "auto"
log = logging.getLogger("unfit")


def engine_name() -> str:
    """The engine of this machine: what UNFIT_ENGINE says, else "cpu"."""
    return os.environ.get(ENVIRONMENT) or "cpu"


def make_engine(
    rows: Rows,
    n_classes: int,
    *,
    places: np.ndarray | None = None,
    name: str | MakeEngine | None = None,
    task: Task | None = None,
    files: RowFiles | None = None,
) -> Engine:
    """The engine that holds these rows: the named one, else the one of UNFIT_ENGINE, else "cpu".

    Sparse rows go to the engine "sparse", unless one that takes them is named. places: a mask over
    all positions, True where these rows are; the others are erased. task: what "auto" chooses for.
    files: where the rows lie, for an engine that reads them there.
    """
    reason = ""
    if (name or engine_name()) == AUTO:
        chosen = chosen_for(rows, n_classes, task or Task())
        reason = chosen.reason
        name = chosen.engine
        log.info("the engine %r was chosen: %s", name, reason)
    make = _maker(rows, name)
    if places is None or places.all():
        if files is not None and isinstance(make, ReadsFiles):
            return make.of_files(rows, n_classes, files)
        engine = make(rows, n_classes)
    else:
        engine = make(rows.spread(places), n_classes)
        gone = np.flatnonzero(~places)
        engine.forget(gone)
        engine.erase(gone)
    engine.reason = reason
    return engine


@runtime_checkable
class ReadsFiles(Protocol):
    """What makes an engine whose rows stay in files."""

    def of_files(self, rows: Rows, n_classes: int, files: RowFiles) -> Engine:
        """rows: the same, mapped."""
        ...


def reads_files(name: str | MakeEngine | None) -> bool:
    """Whether the named engine, or that of UNFIT_ENGINE, leaves rows in their files."""
    return isinstance(_named(name), ReadsFiles)


@runtime_checkable
class HasReaders(Protocol):
    """What makes an engine, and has processes that read files at once."""

    def readers(self) -> Readers: ...


def readers_of(name: str | MakeEngine | None) -> Readers | None:
    """Those of the named engine, or of that of UNFIT_ENGINE, where it has any."""
    if (name or engine_name()) == AUTO:
        return None
    make = _named(name)
    return make.readers() if isinstance(make, HasReaders) else None


def _named(name: str | MakeEngine | None) -> MakeEngine:
    return ENGINES.find(name or engine_name()) if name is None or isinstance(name, str) else name


def _maker(rows: Rows, name: str | MakeEngine | None) -> MakeEngine:
    make = _named(name)
    either = getattr(make, "takes_both", False)
    if not isinstance(rows, SparseRows) or either or getattr(make, "takes_sparse", False):
        return make
    if name is not None:
        raise Unavailable(
            f"The engine {name!r} holds dense rows and these are sparse; leave the engine out, "
            "or give dense rows."
        )
    return ENGINES.find("sparse")


def _restored(
    rows: Rows,
    n_classes: int,
    places: np.ndarray,
    name: str | MakeEngine,
    precise: bool = False,
) -> Engine:
    """What a pickled engine comes back as."""
    made = make_engine(rows, n_classes, places=places, name=name)
    made.precise = precise
    return made
