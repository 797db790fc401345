"""Compile the kernels that most tests need: `python tools/compile_kernels.py`.

numba keeps what it compiled beside the source: tests in several processes load it instead of
compiling it once each. `make test` runs this when a kernel has changed. What it runs are small
models of every kind, and the contracts of the engines and losses, which ask for nearly every
kernel; as many at a time as there are cores.
"""

import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy import sparse

import unfit
from unfit.core.losses import LOSSES
from unfit.engines.base import ENGINES
from unfit.testing import Case, check_engine, check_loss

METHODS = ("fisher", "influence", "deltagrad", "retrain")
KINDS = (unfit.LogisticRegression, unfit.RidgeClassifier, unfit.LinearSVC)
ENGINE_NAMES = ("cpu", "sparse")


def of_method(method: str, dtype: str, classes: int) -> None:
    """Dense rows, forgotten by every method."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)) / 5, rng.integers(0, classes, 300)
    model = unfit.LogisticRegression(method, dtype=dtype, epochs=2, batch_size=32)
    model.fit(X, y).unlearn(np.arange(8)).prepare().unlearn([20]).audit()


def of_loss(kind: type[unfit.LogisticRegression], as_sparse: bool) -> None:
    """Every loss, with dense and with sparse rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) / 5
    rows = sparse.csr_array(X) if as_sparse else X
    for dtype in ("float32", "float64"):
        kind(dtype=dtype).fit(rows, X[:, 0] > 0).unlearn([1, 2]).audit()


def of_wide_rows(dtype: str) -> None:
    """Rows that are wide enough for sums of each class, and for products instead of Hessians."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 520)) / 20, rng.integers(0, 2, 900)
    model = unfit.LogisticRegression("fisher", dtype=dtype, deletion_batch_size=64, l2=1e-2)
    model.fit(X, y).unlearn(np.arange(64))
    unfit.LogisticRegression("fisher", dtype=dtype, l2=1e-2).fit(X, y).unlearn(np.arange(64))
    few = unfit.LogisticRegression("influence", dtype=dtype, l2=1e-2).fit(X, y)
    few.prepare().unlearn([5, 6]).unlearn([7, 8])


def certified(kind: type[unfit.LogisticRegression], dtype: str) -> None:
    """What bounds a release, whatever the loss."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) / 5
    kind(dtype=dtype, epsilon=1.0, l2=1e-3).fit(X, X[:, 0] > 0).unlearn([1, 2])


def contract_of_engine(name: str) -> None:
    check_engine(ENGINES[name])


def engine_with_loss(name: str, loss: str) -> None:
    check_engine(ENGINES[name], [Case("float64", 3, LOSSES[loss]())])


def contract_of_loss(loss: str) -> None:
    check_loss(LOSSES[loss])


def jobs() -> list[Callable[[], None]]:
    """What compiles most comes first, so that no core is left alone with it at the end."""
    models = itertools.product(METHODS, ("float32", "float64"), (2, 3))
    return [
        *(partial(contract_of_engine, name) for name in reversed(ENGINE_NAMES)),
        *(partial(contract_of_loss, loss) for loss in LOSSES),
        *(partial(of_method, *case) for case in models),
        *(partial(engine_with_loss, *case) for case in itertools.product(ENGINE_NAMES, LOSSES)),
        *(partial(of_loss, *case) for case in itertools.product(KINDS, (False, True))),
        *(partial(certified, *case) for case in itertools.product(KINDS, ("float32", "float64"))),
        *(partial(of_wide_rows, dtype) for dtype in ("float32", "float64")),
    ]


def run(number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs()[number]()


def main() -> None:
    fresh = multiprocessing.get_context("spawn")  # a fork would share locks of running threads
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fresh) as pool:
        for _ in pool.map(run, range(len(jobs()))):
            pass


if __name__ == "__main__":
    main()
