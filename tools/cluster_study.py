"""What the engine "dask" costs and survives, as docs/scaling.md states it: two workers of one
thread against one process with the same cores.

    python tools/cluster_study.py make FOLDER --rows 20000000     made-up rows, in blocks
    python tools/cluster_study.py cluster FOLDER                  train, forget; times, memory
    python tools/cluster_study.py one FOLDER                      the same in one process
    python tools/cluster_study.py growth FOLDER                   both over n/4, n/2 and n rows
    python tools/cluster_study.py passes FOLDER                   passes of both, in turn
    python tools/cluster_study.py tasks FOLDER --rows 100000      what a task costs beside its rows
    python tools/cluster_study.py rough FOLDER                    the error of a Hessian in float32
    python tools/cluster_study.py compare FOLDER                  weights of `cluster` and `one`
    python tools/cluster_study.py draw FOLDER                     docs/scaling.png, of `growth`

`--rows` takes the first rows of the folder. Results are written as JSON beside the rows. What a
cluster survives is tried by tools/cluster_faults.py.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import LocalCluster

from unfit import disk
from unfit.audit.retrained import retrain
from unfit.core.losses import LOGISTIC
from unfit.engines import Dask
from unfit.engines.base import Engine, make_engine
from unfit.engines.cluster.engine import DaskEngine
from unfit.methods import METHODS, Method, Settings, State
from unfit.row_files import Array, RowFiles, described, row_arrays

COLUMNS, BLOCK = 50, 1 << 18
CONFIGURATION = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # LocalCluster looks so long after a worker died whether there is one of its name, and gives it
    # up if that one is just being started, because it died as well.
    "distributed.deploy.lost-worker-timeout": "1 hour",
}
SETTINGS = Settings(l2=1e-4, tol=1e-10)


def make(folder: Path, n: int) -> None:
    """n rows of float32 with labels of a noisy linear rule."""
    rng, folder = np.random.default_rng(0), folder.resolve()
    folder.mkdir(parents=True)
    arrays = row_arrays(n, COLUMNS, np.dtype(np.float32), False)
    disk.require_space(folder, sum(array.nbytes for array in arrays.values()), "the rows")
    rule = rng.standard_normal(COLUMNS).astype(np.float32)
    writers = {k: disk.ArrayWriter(folder / f"{k}.bin", a.dtype) for k, a in arrays.items()}
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        X = rng.standard_normal((m, COLUMNS), dtype=np.float32) / np.float32(COLUMNS**0.5)
        writers["X"].append(X)
        writers["labels"].append(X @ rule + rng.logistic(size=m) > 0)
        writers["live"].append(np.ones(m, np.uint8))
    for writer in writers.values():
        writer.__exit__(None, None, None)
    files = described(folder, arrays, COLUMNS, 2)
    (folder / "files.json").write_text(json.dumps({"digest": files.digest, "n": n}))


def opened(folder: Path, n: int | None) -> RowFiles:
    """The first n rows."""
    known = json.loads((folder / "files.json").read_text())
    whole: dict[str, Array] = row_arrays(known["n"], COLUMNS, np.dtype(np.float32), False)
    return RowFiles(
        folder=str(folder.resolve()),
        digest=known["digest"],
        n=min(n or known["n"], known["n"]),
        width=COLUMNS,
        arrays=whole,
        class_of_label=(0, 1),
    )


@contextmanager
def cluster(threads: int = 1) -> Iterator[LocalCluster]:
    """Two workers of so many threads."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set(CONFIGURATION),
        LocalCluster(
            n_workers=2,
            threads_per_worker=threads,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
        ) as running,
    ):
        yield running


def engine(files: RowFiles, address: str | None) -> Engine:
    """address: of a scheduler; None for one process."""
    rows = files.rows(0, files.n, True, LOGISTIC, in_place=address is not None)
    if address is None:
        return make_engine(rows, 2, name="cpu")
    return Dask(address).of_files(rows, 2, files)


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = what()
    return time.perf_counter() - started, found


def kinds(data: Engine) -> dict[str, Callable[[], Any]]:
    """A pass of each kind."""
    W = np.full((data.k, data.d), 0.01)
    products = data.value_gradient_products(W)[2]
    return {
        "gradient_pass_s": lambda: data.value_gradient_sum(W),
        "product_pass_s": lambda: products(np.array([0]), W),
        "hessian_pass_s": lambda: data.hessian_sum(W),
    }


def passes(data: Engine) -> dict[str, float]:
    """Seconds of a pass of each kind: the median of five after a warm-up."""
    return {name: seconds([what])[0] for name, what in kinds(data).items()}


def seconds(each: list[Callable[[], Any]], times: int = 5) -> list[float]:
    """The median of each, measured in turn, so that all see the same machine."""
    for what in each:
        what()
    return [
        float(np.median(column))
        for column in np.array([[timed(what)[0] for what in each] for _ in range(times)]).T
    ]


def in_turn(folder: Path, n: int | None) -> dict[str, Any]:
    """Passes of the cluster and of one process with the same cores."""
    files = opened(folder, n)
    with cluster() as running:
        ours, theirs = engine(files, running.scheduler_address), engine(files, None)
        pairs = zip(kinds(ours).items(), kinds(theirs).values(), strict=True)
        found = {name: seconds([what, other], 9) for (name, what), other in pairs}
    return {"rows": files.n} | {
        name: {"cluster": a, "one": b, "ratio": a / b} for name, (a, b) in found.items()
    }


def erasures(data: Engine, method: Method, state: State, people: np.ndarray) -> dict[str, Any]:
    """One person after another leaves: seconds, passes over the rows, and shards mapped, of each.

    A pass is made after each of them, as the next training would: it maps anew what it must.
    """
    rng, W = np.random.default_rng(1), np.zeros((data.k, data.d))
    found: dict[str, Any] = {"seconds": [], "passes": [], "shards_mapped": [], "shards_held": []}
    for row in people[:, None]:
        read, mapped = data.rows_read, getattr(data, "shards_mapped", 0)
        started = time.perf_counter()
        state = method.unlearn(state, data, row, rng)
        data.forget(row)
        found["seconds"].append(time.perf_counter() - started)
        found["passes"].append(round((data.rows_read - read) / len(data), 3))
        if isinstance(data, DaskEngine):
            data.gradient_sum(W)
            found["shards_mapped"].append(data.shards_mapped - mapped)
            found["shards_held"].append(data.shards_of(row))
    return found | {"state": state}


def work(data: Engine) -> dict[str, Any]:
    """Train, forget five people and then ten thousand rows, retrain."""
    rng, method = np.random.default_rng(1), METHODS["fisher"](SETTINGS, refine=True)
    found: dict[str, Any] = {"rows": len(data), **passes(data)}
    found["train_s"], state = timed(lambda: method.train(data, rng))
    found["prepare_s"], state = timed(lambda: method.prepare(state, data))
    gone = rng.choice(len(data), 10_005, replace=False)
    one = erasures(data, method, state, gone[:5])
    state = one.pop("state")
    found |= {"forget_1": one, "forget_1_s": float(np.median(one["seconds"]))}
    found["forget_1_weights"] = state.weights.tolist()
    read, many = data.rows_read, gone[5:]
    found["forget_10000_s"], state = timed(lambda: method.unlearn(state, data, many, rng))
    found["forget_10000_passes"] = (data.rows_read - read) / len(data)
    data.forget(many)
    found["forget_10000_weights"] = state.weights.tolist()
    read = data.rows_read
    found["retrain_s"], exact = timed(lambda: retrain(method, data))
    found["retrain_passes"] = (data.rows_read - read) / len(data)
    found["forget_1_of_retrain"] = found["forget_1_s"] / found["retrain_s"]
    found["distance_from_retraining"] = float(
        np.linalg.norm(exact.weights - state.weights) / np.linalg.norm(exact.weights)
    )
    return found


def memory(pid: int | str = "self") -> dict[str, float]:
    """Of a process in MB: at its peak, and now of its own and of mapped files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {
        line.split(":")[0]: line.split()[1] for line in lines if ":" in line and line[:2] in _OF
    }
    names = {"peak": "VmHWM", "own": "RssAnon", "files": "RssFile"}
    return {name: int(found[key]) / 1024 for name, key in names.items()}


_OF = ("Vm", "Rs")  # how the lines of memory begin


def on_cluster(folder: Path, n: int | None) -> dict[str, Any]:
    with cluster() as running:
        pids = [nanny.pid for nanny in running.workers.values()]
        before = {"here": memory(), "workers": [memory(pid) for pid in pids]}
        found = work(engine(opened(folder, n), running.scheduler_address))
        after = {"here": memory(), "workers": [memory(pid) for pid in pids]}
    share = found["rows"] * COLUMNS * 4 / len(pids) / 2**20
    return found | {"memory_before_mb": before, "memory_mb": after, "share_mb": share}


def tasks(folder: Path, n: int | None, counts: Sequence[int] = (6, 60, 300)) -> dict[str, Any]:
    """Seconds of a pass over few rows by so many threads, each of which has a shard and a task,
    and the line through them."""
    files, found = opened(folder, n), {}
    rows = files.rows(0, files.n, True, LOGISTIC)
    for count in counts:
        with cluster(count // 2) as running:
            data = Dask(running.scheduler_address, shards=count).of_files(rows, 2, files)
            found[count] = passes(data)["gradient_pass_s"]
    each, fixed = np.polyfit(list(found), list(found.values()), 1)
    return {"rows": files.n, "pass_s": found, "s_per_task": each, "fixed_s": fixed}


def rough(folder: Path, n: int | None, probes: int = 20) -> dict[str, Any]:
    """How far the Hessian in float32 is off, at the optimum: at most so much of itself in any
    direction, by products in float64 with random vectors.

    With H = L L^T and E the error, L^-1 E L^-T has norm s; applied to g ~ N(0, I) it is at least
    s |g_1| long, and one of 20 numbers |g_1| is above 1/2 but for a chance of 0.383^20 = 5e-9.
    """
    with cluster() as running:
        data = engine(opened(folder, n), running.scheduler_address)
        method, rng = METHODS["newton"](SETTINGS), np.random.default_rng(4)
        W = method.train(data, rng).weights
        H = data.hessian_sum(W)[0]
        products = data.value_gradient_products(W)[2]
        L = np.linalg.cholesky(H)
        lengths = []
        for _ in range(probes):
            v = np.linalg.solve(L.T, rng.standard_normal(len(H)))
            error = H @ v - products(np.array([0]), v[None])[0]
            lengths.append(float(np.linalg.norm(np.linalg.solve(L, error))))
    return {"rows": len(data), "probes": probes, "longest": max(lengths), "off": 2 * max(lengths)}


def growth(folder: Path) -> dict[str, Any]:
    """A pass of each kind and the erasure of a person, over a quarter, half and all of the rows."""
    whole = opened(folder, None)
    sizes = whole.n // 4, whole.n // 2, whole.n
    with cluster() as running:
        return {
            str(n): _of_size(engine(replace(whole, n=n), running.scheduler_address)) for n in sizes
        }


def _of_size(data: Engine) -> dict[str, float]:
    rng, method = np.random.default_rng(1), METHODS["fisher"](SETTINGS, refine=True)
    found = passes(data)
    state = method.prepare(method.train(data, rng), data)
    one = erasures(data, method, state, rng.choice(len(data), 5, replace=False))
    found["retrain_s"], _ = timed(lambda: retrain(method, data))
    return found | {"forget_1_s": float(np.median(one["seconds"]))}


def draw(folder: Path, to: Path) -> dict[str, Any]:
    """Seconds against rows, with the line of the model in docs/scaling.md through them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = json.loads((folder / "growth.json").read_text())
    sizes = np.array([int(n) for n in found], np.float64)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    lines: dict[str, Any] = {}
    for axes, named in ((left, PASSES), (right, REQUESTS)):
        for name, label in named.items():
            taken = np.array([one[name] for one in found.values()])
            if name == "forget_1_s":  # no line: whether it takes a pass depends on the rows
                axes.plot(sizes / 1e6, taken, "o:", label=label)
                continue
            slope, fixed = np.polyfit(sizes, taken, 1)
            off = np.abs(slope * sizes + fixed - taken).max() / taken.max()
            lines[name] = {"s_per_million_rows": slope * 1e6, "fixed_s": fixed, "off": off}
            (dots,) = axes.plot(sizes / 1e6, taken, "o", label=label)
            grid = np.linspace(0, sizes.max(), 100)
            axes.plot(grid / 1e6, slope * grid + fixed, color=dots.get_color(), linewidth=1)
        axes.set_xlabel("million rows of 50 columns")
        axes.legend(frameon=False)
    left.set_ylim(bottom=0)
    left.set_ylabel("seconds")
    right.set_ylabel("seconds, logarithmic")
    right.set_yscale("log")
    figure.savefig(to, dpi=150)
    return lines


PASSES = {
    "gradient_pass_s": "values and gradients",
    "product_pass_s": "product with the Hessian",
    "hessian_pass_s": "Hessian",
}
REQUESTS = {"retrain_s": "retraining", "forget_1_s": "forgetting one person"}


def compare(folder: Path) -> dict[str, Any]:
    """Of what `cluster` and `one` have left: weights, and times of a training."""
    ours, theirs = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("cluster", "one")
    )
    found: dict[str, Any] = {"rows": [ours["rows"], theirs["rows"]]}
    for name in ("forget_1_weights", "forget_10000_weights"):
        a, b = np.array(ours[name]), np.array(theirs[name])
        found[name] = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    for name in ("train_s", "retrain_s"):
        found[f"{name} ratio"] = ours[name] / theirs[name]
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["make", "cluster", "one", "passes", "tasks", "rough", "growth", "compare", "draw"]
    asked.add_argument("what", choices=parts)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rows", type=int)
    asked.add_argument("--picture", type=Path, default=Path("docs/scaling.png"))
    given = asked.parse_args()
    folder, n = given.folder, given.rows
    if given.what == "make":
        make(folder, n or 20_000_000)
        return
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "cluster": lambda: on_cluster(folder, n),
        "one": lambda: work(engine(opened(folder, n), None)) | {"memory_mb": memory()},
        "passes": lambda: in_turn(folder, n),
        "tasks": lambda: tasks(folder, n),
        "rough": lambda: rough(folder, n),
        "growth": lambda: growth(folder),
        "compare": lambda: compare(folder),
        "draw": lambda: draw(folder, given.picture),
    }
    found = steps[given.what]()
    (folder / f"{given.what}.json").write_text(json.dumps(found))
    shown = {k: v for k, v in found.items() if isinstance(v, float) or not k.endswith("_weights")}
    print(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
