"""The small problems that methods, engines and losses are tried on."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from unfit.core.losses import LOGISTIC, Loss
from unfit.core.objective import Rows
from unfit.core.sparse_rows import SparseRows, sparse_rows
from unfit.engines.base import Engine, make_engine
from unfit.methods import METHODS, Method, Settings, State

MethodClass = type[Method]
Check = Callable[[MethodClass, "Case"], None]

FAST = Settings(epochs=20, batch_size=64, burn_in=5, period=5, l2=1e-3)


@dataclass(frozen=True)
class Case:
    """A small problem: rows, codes, and the rows to delete from it."""

    dtype: str
    n_classes: int
    loss: Loss = LOGISTIC
    sparse: bool = False

    def rows(self, repeat: int = 0) -> Rows:
        """400 rows of 24 columns, two numbers in three of them 0 where they are sparse; the first
        `repeat` rows appear again at the end."""
        rng = np.random.default_rng(7)
        X = rng.standard_normal((400, 24)) / np.sqrt(24)
        if self.sparse:
            X *= np.sqrt(3) * (np.random.default_rng(9).random(X.shape) < 1 / 3)
        scores = X @ rng.standard_normal((24, self.n_classes)) + 0.3 * rng.standard_normal(
            (400, self.n_classes)
        )
        index = np.concatenate([np.arange(400), np.arange(repeat)])
        codes = scores.argmax(axis=1).astype(np.int32)
        rows = Rows(X[index].astype(self.dtype), codes[index], True, self.loss)
        return sparse_rows(csr_array(rows.X), rows) if self.sparse else rows

    def data(self, rows: Rows | None = None) -> Engine:
        return make_engine(rows or self.rows(), self.n_classes)

    @property
    def deleted(self) -> np.ndarray:
        return np.sort(np.random.default_rng(8).choice(400, 30, replace=False))

    @property
    def tolerance(self) -> float:
        """Agreement of two ways to compute the same thing, relative."""
        return 1e-8 if self.dtype == "float64" else 1e-4


def protect(rows: Rows) -> None:
    """Make it an error to write to the rows."""
    arrays = [rows.X] if not isinstance(rows, SparseRows) else rows.compressed
    for array in (*arrays, rows.codes):
        array.flags.writeable = False


CASES = [Case(dtype, k) for dtype in ("float32", "float64") for k in (2, 3)]
SPARSE_CASES = [replace(case, sparse=True) for case in CASES]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def trained(method: Method, data: Engine, seed: int = 0) -> State:
    return method.prepare(method.train(data, rng(seed)), data)


def retrained(method: Method, data: Engine, deleted: np.ndarray, state: State) -> np.ndarray:
    """A full retraining: by Newton the optimum, by SGD the same batches without the rows."""
    if state.run is not None:
        exact = type(method)(replace(method.settings, period=1))
        return exact.unlearn(state, data, deleted, rng()).weights
    return METHODS["retrain"](method.settings).optimum(data, rng(), mask=data.without(deleted))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def require_same(a: np.ndarray, b: np.ndarray, tolerance: float, what: str) -> None:
    found = distance(a, b)
    assert found <= tolerance, f"{what}: relative distance {found:.2e} is over {tolerance:g}"
