"""The engine "dask" on two worker processes of this machine against one process with as many cores.

tools/cluster_study.py measures the same at the size that docs/scaling.md states.
"""

import logging
from collections.abc import Callable, Iterator

import numpy as np

from unfit.core.losses import LOGISTIC
from unfit.core.objective import Rows
from unfit.engines import Dask
from unfit.engines.base import Engine, make_engine
from unfit.errors import Unavailable
from unfit.methods import METHODS, Settings

from .measure import best_of
from .sections import Row, seconds

N, COLUMNS, WORKERS = 1_000_000, 50, 2
CONFIGURATION = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
}


def cluster(n: int = N) -> Iterator[Row]:
    """Passes, a training and the erasure of one row, in turn with one process."""
    try:
        import dask
        from distributed import LocalCluster
    except ImportError:
        raise Unavailable("the section 'cluster' needs Dask; install unfit[cluster]") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set(CONFIGURATION),
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
        ) as running,
    ):
        rows = made_up(n)
        pair = Dask(running.scheduler_address)(rows, 2), make_engine(rows, 2, name="cpu")
        ours, theirs = (of_engine(data) for data in pair)
        for what in ours:
            # in turns, as the machine is shared
            taken = np.array([[best_of(1, ours[what]), best_of(1, theirs[what])] for _ in range(5)])
            cluster_s, one_s = taken.min(axis=0)
            yield Row(
                section="cluster",
                dataset=f"{n:,} x {COLUMNS}",
                what=what,
                ours=seconds(cluster_s),
                against="one process",
                theirs=seconds(one_s),
                ratio=one_s / cluster_s,
            )


def made_up(n: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS), np.float32) / np.float32(COLUMNS**0.5)
    y = X[:, 0] + 0.3 * rng.standard_normal(n, np.float32) > 0
    return Rows(X, y.astype(np.int32), True, LOGISTIC)


def of_engine(data: Engine) -> dict[str, Callable[[], object]]:
    W, rng = np.full((data.k, data.d), 0.01), np.random.default_rng(0)
    products = data.value_gradient_products(W)[2]
    method = METHODS["fisher"](Settings(tol=1e-8), refine=True)
    state = method.prepare(method.train(data, rng), data)
    return {
        "values and gradients": lambda: data.value_gradient_sum(W),
        "product with the Hessian": lambda: products(np.array([0]), W),
        "Hessian": lambda: data.hessian_sum(W),
        "training by Newton": lambda: method.train(data, rng),
        "fisher, 1 row": lambda: method.unlearn(state, data, np.array([17]), rng),
    }
