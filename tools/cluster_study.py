"""What the engine "dask" costs and survives, as docs/scaling.md states it: two workers of one
thread against one process with the same cores.

    python tools/cluster_study.py make FOLDER --rows 20000000     made-up rows, in blocks
    python tools/cluster_study.py cluster FOLDER                  train, forget; times, memory
    python tools/cluster_study.py one FOLDER                      the same in one process
    python tools/cluster_study.py growth FOLDER                   a pass over n/4, n/2 and n rows
    python tools/cluster_study.py kill FOLDER --rows 500000       kill -9 at 20 random moments
    python tools/cluster_study.py compare FOLDER                  weights of `cluster` and `one`

`--rows` takes the first rows of the folder. Results are written as JSON beside the rows.
"""

import argparse
import json
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
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
from unfit.methods import METHODS, Settings
from unfit.row_files import Array, RowFiles, described, row_arrays

COLUMNS, BLOCK = 50, 1 << 18
NO_SPILLING = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
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
def cluster() -> Iterator[LocalCluster]:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set(NO_SPILLING),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
        ) as running,
    ):
        yield running


def engine(files: RowFiles, address: str | None) -> Engine:
    """address: of a scheduler; None for one process."""
    rows = files.rows(0, files.n, True, LOGISTIC)
    if address is None:
        return make_engine(rows, 2, name="cpu")
    return Dask(address).of_files(rows, 2, files)


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = what()
    return time.perf_counter() - started, found


def best(what: Callable[[], Any], times: int = 3) -> float:
    what()
    return min(timed(what)[0] for _ in range(times))


def passes(data: Engine) -> dict[str, float]:
    """Seconds of a pass of each kind."""
    W = np.full((data.k, data.d), 0.01)
    products = data.value_gradient_products(W)[2]
    one = np.array([0])
    return {
        "gradient_pass_s": best(lambda: data.value_gradient_sum(W)),
        "product_pass_s": best(lambda: products(one, W)),
        "hessian_pass_s": best(lambda: data.hessian_sum(W), 1),
    }


def work(data: Engine) -> dict[str, Any]:
    """Train, forget one person and ten thousand, retrain, audit."""
    rng, method = np.random.default_rng(1), METHODS["fisher"](SETTINGS, refine=True)
    found: dict[str, Any] = {"rows": len(data), **passes(data)}
    found["train_s"], state = timed(lambda: method.train(data, rng))
    found["prepare_s"], state = timed(lambda: method.prepare(state, data))
    gone = rng.choice(len(data), 10_001, replace=False)
    for name, rows in (("forget_1", gone[:1]), ("forget_10000", gone[1:])):
        read = data.rows_read
        found[f"{name}_s"], state = timed(
            lambda state=state, rows=rows: method.unlearn(state, data, rows, rng)
        )
        found[f"{name}_passes"] = (data.rows_read - read) / len(data)
        if hasattr(data, "shards_of"):
            found[f"{name}_shards"] = [data.shards_of(rows), data.n_shards]
        data.forget(rows)
        found[f"{name}_weights"] = state.weights.tolist()
    found["retrain_s"], exact = timed(lambda: retrain(method, data))
    found["distance_from_retraining"] = float(
        np.linalg.norm(exact.weights - state.weights) / np.linalg.norm(exact.weights)
    )
    return found


def memory() -> float:
    """Peak of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker_memory(pid: int) -> dict[str, float]:
    """Of a worker in MB: at its peak, and what of it now is not mapped files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {
        line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("Vm", "Rss"))
    }
    return {"peak": int(found["VmHWM"]) / 1024, "own": int(found["RssAnon"]) / 1024}


def on_cluster(folder: Path, n: int | None) -> dict[str, Any]:
    with cluster() as running:
        found = work(engine(opened(folder, n), running.scheduler_address))
        found["coordinator_peak_mb"] = memory()
        found["workers_mb"] = [worker_memory(nanny.pid) for nanny in running.workers.values()]
    return found


def growth(folder: Path) -> dict[str, Any]:
    whole = opened(folder, None)
    with cluster() as running:
        return {
            str(n): passes(engine(replace(whole, n=n), running.scheduler_address))
            for n in (whole.n // 4, whole.n // 2, whole.n)
        }


def killed(folder: Path, n: int | None, times: int = 20) -> dict[str, Any]:
    """kill -9 of a worker at random moments of training, forgetting and retraining."""
    files, rng = opened(folder, n), np.random.default_rng(2)
    expected = _story(engine(files, None))
    worst, kills = 0.0, 0
    with cluster() as running:
        length, _ = timed(lambda: _story(engine(files, running.scheduler_address)))
        while kills < times:
            stop = threading.Event()

            def kill(stop: threading.Event = stop) -> None:
                nonlocal kills
                while not stop.wait(rng.uniform(0.5, max(length, 2.0))):
                    pids = started(running)
                    if len(pids) == 2:
                        os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
                        kills += 1

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                found = _story(engine(files, running.scheduler_address))
            finally:
                stop.set()
                killer.join()
            apart = np.linalg.norm(found - expected) / np.linalg.norm(expected)
            worst = max(worst, float(apart))
    return {"rows": files.n, "kills": kills, "worst_distance": worst, "undisturbed_s": length}


def started(running: LocalCluster) -> list[int]:
    """Of the workers at work: one that is killed while it starts is not started again."""
    known = set(running.scheduler.workers)
    return [w.pid for w in running.workers.values() if w.pid and w.worker_address in known]


def _story(data: Engine) -> np.ndarray:
    """Train, forget twice, train again: all weights on the way."""
    rng, method = np.random.default_rng(1), METHODS["newton"](SETTINGS)
    state = method.prepare(method.train(data, rng), data)
    seen = [state.weights]
    for gone in (np.array([5]), np.arange(100, 1100)):
        state = method.unlearn(state, data, gone, rng)
        data.forget(gone)
        seen.append(state.weights)
    return np.concatenate([*seen, METHODS["retrain"](SETTINGS).train(data, rng).weights])


def compare(folder: Path) -> dict[str, Any]:
    """Of what `cluster` and `one` have left: weights, and times of a pass."""
    ours, theirs = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("cluster", "one")
    )
    found: dict[str, Any] = {"rows": [ours["rows"], theirs["rows"]]}
    for name in ("forget_1_weights", "forget_10000_weights"):
        a, b = np.array(ours[name]), np.array(theirs[name])
        found[name] = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    for name in ("gradient_pass_s", "product_pass_s", "hessian_pass_s", "train_s"):
        found[f"{name} ratio"] = ours[name] / theirs[name]
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("what", choices=["make", "cluster", "one", "growth", "kill", "compare"])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rows", type=int)
    given = asked.parse_args()
    folder, n = given.folder, given.rows
    if given.what == "make":
        make(folder, n or 20_000_000)
        return
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "cluster": lambda: on_cluster(folder, n),
        "one": lambda: work(engine(opened(folder, n), None)) | {"peak_mb": memory()},
        "growth": lambda: growth(folder),
        "kill": lambda: killed(folder, n),
        "compare": lambda: compare(folder),
    }
    found = steps[given.what]()
    (folder / f"{given.what}.json").write_text(json.dumps(found))
    shown = {k: v for k, v in found.items() if isinstance(v, float) or not k.endswith("_weights")}
    print(json.dumps(shown, indent=1))


if __name__ == "__main__":
    main()
