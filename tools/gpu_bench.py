"""What the engine "torch" does on this machine's GPU, against the limits measured in the same run.

    PYTHONPATH=src python tools/gpu_bench.py [--only hessian,passes] [--json FILE] [--small]

Needs PyTorch, NumPy, SciPy, numba and scikit-learn, and nothing else of unfit's dependencies. Rows
are made up: the shapes of EPSILON (400,000 x 2,000 float32) and MNIST (60,000 x 784, 10 classes).
Every time is the best of several after a warm-up, with the device synchronised at both ends. Times
of unfit include what crosses the bus. --small runs everything on few rows, on any device.
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: tensors in scikit-learn

import numpy as np
import sklearn
import torch
from sklearn.linear_model import LogisticRegression

if importlib.util.find_spec("annotated_types") is None:  # bounds of options; none is given here
    stand_in = types.ModuleType("annotated_types")
    stand_in.Ge = lambda least: ("at least", least)  # type: ignore[attr-defined]
    sys.modules["annotated_types"] = stand_in

from unfit.core.objective import Rows
from unfit.core.sgd import Plan
from unfit.engines.base import Engine, make_engine
from unfit.engines.device import fused
from unfit.engines.device.engine import TorchEngine
from unfit.engines.device.memory import chosen_device
from unfit.engines.device.sums import matmul_precision
from unfit.methods import METHODS, Settings

# Rows and columns of the passes that tools/draw_engines.py draws beside those of the other engines.
SIZES = ((250_000, 50), (1_000_000, 50), (4_000_000, 50), (16_000_000, 50))
WIDTHS = ((400_000, 50), (400_000, 200), (400_000, 800), (400_000, 2_000))
SHAPES = ((2, 8, 3), (2, 4, 3), (2, 4, 2), (1, 4, 4), (1, 4, 2), (1, 2, 4), (2, 2, 3), (1, 8, 4))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure; asked: what it should be, and whether it is."""

    section: str
    what: str
    value: float
    unit: str
    note: str = ""
    asked: str = ""


def synchronized(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best(device: torch.device, run: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest of several runs, after one to warm up."""
    found = float("inf")
    for turn in range(times + 1):
        synchronized(device)
        start = time.perf_counter()
        run()
        synchronized(device)
        if turn:
            found = min(found, time.perf_counter() - start)
    return found


def asked(value: float, least: float | None = None, most: float | None = None) -> str:
    if least is not None:
        return f">= {least:g}: {'yes' if value >= least else 'NO'}"
    return f"<= {most:g}: {'yes' if value <= (most or 0) else 'NO'}"


def made_up(n: int, p: int, classes: int, device: torch.device, seed: int = 0) -> Rows:
    """Rows of about length 1 whose classes a linear model finds with some errors."""
    made = torch.Generator(device).manual_seed(seed)
    planted = torch.randn(p, classes, generator=made, device=device) * 3
    X, codes = np.empty((n, p), np.float32), np.empty(n, np.int32)
    for start in range(0, n, 50_000):
        stop = min(start + 50_000, n)
        block = torch.randn(stop - start, p, generator=made, device=device) / p**0.5
        noise = torch.randn(stop - start, classes, generator=made, device=device)
        X[start:stop] = block.cpu().numpy()
        codes[start:stop] = (block @ planted + noise).argmax(1).int().cpu().numpy()
    return Rows(X, codes, True)


class Bench:
    """What the sections share: the device, sizes, and engines that are made when first used."""

    def __init__(self, small: bool) -> None:
        self.device, self.small = chosen_device(), small
        self.n, self.p = (6_000, 600) if small else (400_000, 2_000)
        self.m = self.n // 100
        self.digits = (3_000, 100) if small else (60_000, 784)
        self.settings = Settings(l2=1e-4, tol=1e-8)

    @cached_property
    def rows(self) -> Rows:
        return made_up(self.n, self.p, 2, self.device)

    @cached_property
    def engine(self) -> TorchEngine:
        return TorchEngine(self.rows, 2)

    @cached_property
    def weights(self) -> np.ndarray:
        return np.random.default_rng(1).standard_normal((1, self.engine.d)) / 10

    @cached_property
    def copy_bandwidth(self) -> float:
        """Bytes read and written per second by a copy on the device."""
        size = (2 << 30) if self.device.type == "cuda" else (64 << 20)
        a = torch.ones(size // 4, device=self.device)
        b = torch.empty_like(a)
        return 2 * size / best(self.device, lambda: b.copy_(a), 10)

    def plain_matmul(self, rough: bool = False) -> float:
        """Operations per second of X^T X by one product of float32."""
        X = self.engine._there.X
        with matmul_precision(self.device, rough):
            return 2 * self.n * self.p**2 / best(self.device, lambda: X.T @ X, 3)


def ceilings(bench: Bench) -> Iterator[Figure]:
    yield Figure(
        section="ceilings",
        what="copy, read + write",
        value=bench.copy_bandwidth / 1e12,
        unit="TB/s",
    )
    for what, rough in (("X^T X, float32", False), ("X^T X, TF32", True)):
        rate = bench.plain_matmul(rough) / 1e12
        yield Figure(section="ceilings", what=what, value=rate, unit="TFLOP/s")
    X = bench.engine._there.X[: bench.n // 8].double()
    rate = 2 * len(X) * bench.p**2 / best(bench.device, lambda: X.T @ X, 3)
    yield Figure(section="ceilings", what="X^T X, float64", value=rate / 1e12, unit="TFLOP/s")


def hessian(bench: Bench) -> Iterator[Figure]:
    engine, plain = bench.engine, bench.plain_matmul()
    W, flops = engine._sent(bench.weights), 2 * bench.n * bench.p**2
    goal = engine._sums.hessians(W, None, precise=True)
    kinds = {"float32": {}, "TF32": {"rough": True}, "float64": {"precise": True}}
    for what, options in kinds.items():
        run = lambda o=options: engine._sums.hessians(W, None, **o)  # noqa: E731
        seconds, found = best(bench.device, run, 3), run()
        wrong = float((found - goal).norm() / goal.norm())
        share = 100 * flops / seconds / plain
        yield Figure(
            section="hessian",
            what=f"Hessian sum, {what}",
            value=1e3 * seconds,
            unit="ms",
            note=f"{flops / seconds / 1e12:.1f} TFLOP/s counted as 2 n d^2; error {wrong:.1e}",
        )
        yield Figure(
            section="hessian",
            what=f"  share of a plain float32 matmul, {what}",
            value=share,
            unit="%",
            asked=asked(share, least=70) if what == "float32" else "",
        )
    H = goal.clone()
    H.diagonal(dim1=-2, dim2=-1).add_(1e-4 * bench.n)
    seconds = best(bench.device, lambda: torch.linalg.cholesky_ex(H), 3)
    yield Figure(section="hessian", what="Cholesky factor, float64", value=1e3 * seconds, unit="ms")


def passes(bench: Bench) -> Iterator[Figure]:
    engine, copy = bench.engine, bench.copy_bandwidth
    traffic = 4.0 * bench.n * bench.p
    _, gradient, products = engine.value_gradient_products(bench.weights)
    V, only = np.random.default_rng(2).standard_normal((1, engine.d)), np.arange(1)
    product = products(only, V)

    def figure(what: str, seconds: float, note: str, least: float | None = None) -> Figure:
        share = 100 * traffic / seconds / copy
        return Figure(
            section="passes",
            what=what,
            value=share,
            unit="% of copy",
            note=f"{1e3 * seconds:.3f} ms; {note}",
            asked=asked(share, least=least) if least else "",
        )

    fused_there = engine._sums.fused
    for ways in ("fused", "blocks")[not fused_there :]:
        engine._sums.fused = ways == "fused"
        found, image = engine.gradient_sum(bench.weights), products(only, V)
        apart = max(_apart(found, gradient), _apart(image, product))
        least = 60 if ways == "fused" or not fused_there else None
        seconds = best(bench.device, lambda: engine.value_gradient_sum(bench.weights))
        yield figure(f"value and gradient, {ways}", seconds, f"apart {apart:.0e}", least)
        seconds = best(bench.device, lambda: products(only, V))
        yield figure(f"product, {ways}", seconds, "", least)
    engine._sums.fused = fused_there
    usual = fused.shape_of
    for shape in SHAPES if fused_there else ():
        fused.shape_of = lambda columns, shape=shape: shape
        a = best(bench.device, lambda: engine.value_gradient_sum(bench.weights), 3)
        b = best(bench.device, lambda: products(only, V), 3)
        yield figure(f"  gradient by tile, warps, stages {shape}", a, f"product {1e3 * b:.3f} ms")
    fused.shape_of = usual


def sizes(bench: Bench) -> Iterator[Figure]:
    """Passes as a method asks for them, weights in and sums out; a Hessian stays on the device."""
    for n, p in ((600, 20), (600, 40)) if bench.small else SIZES + WIDTHS:
        engine = TorchEngine(made_up(n, p, 2, bench.device), 2)
        W = np.full((1, engine.d), 0.01)
        for what, one in (
            ("values and gradients", lambda data=engine, W=W: data.value_gradient_sum(W)),
            ("Hessian", lambda data=engine, W=W: data._hessians(W, None)),
        ):
            seconds = best(bench.device, one, 5)
            yield Figure(
                section="sizes", what=f"{what}, {n:,} x {p:,}", value=1e3 * seconds, unit="ms"
            )
        del engine


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def sgd(bench: Bench) -> Iterator[Figure]:
    """An epoch of batch 512, from the difference of two trainings: capture and start left out."""
    engine, rng = bench.engine, np.random.default_rng(5)
    layout = engine.lay_out(rng.permutation(bench.n).astype(np.int32))
    start, short, long = np.zeros((1, engine.d)), 10, 40

    def run(epochs: int) -> np.ndarray:
        return engine.sgd(layout, Plan(1, epochs, 512, 1.0, 1e-4), start)

    first = best(bench.device, lambda: run(1), 2)
    yield Figure(section="sgd", what="one epoch, launched", value=1e3 * first, unit="ms")
    few, many = best(bench.device, lambda: run(short), 2), best(bench.device, lambda: run(long), 2)
    epoch = 1e3 * (many - few) / (long - short)
    yield Figure(section="sgd", what="epoch", value=epoch, unit="ms", asked=asked(epoch, most=10))
    yield Figure(section="sgd", what=f"{long} epochs, all in", value=1e3 * many, unit="ms")
    order = best(bench.device, lambda: layout.order(Plan(1, 1, 512, 1.0, 1e-4), 3))
    yield Figure(section="sgd", what="order of an epoch, host", value=1e3 * order, unit="ms")


def unlearn(bench: Bench) -> Iterator[Figure]:
    """NEWTON with its inverse at hand, from the call to weights whose mean gradient is 1e-8."""
    yield from _unlearned("unlearn", bench.engine, bench, bench.m, most=10)


def one_row(bench: Bench) -> Iterator[Figure]:
    for name in ("torch", "cpu"):
        engine = bench.engine if name == "torch" else make_engine(bench.rows, 2, name="cpu")
        yield from _unlearned(f"one row, engine {name}", engine, bench, 1)


def _unlearned(
    section: str, engine: Engine, bench: Bench, m: int, most: float | None = None
) -> Iterator[Figure]:
    method = METHODS["newton"](bench.settings)
    method.options = replace(method.options, residual=1e-8)  # where no pydantic checks options
    rng = np.random.default_rng(3)
    start = time.perf_counter()
    state = method.train(engine, rng)
    trained = time.perf_counter() - start
    yield Figure(section=section, what="train", value=trained, unit="s", note="first call")
    start = time.perf_counter()
    state = method.prepare(state, engine)
    prepared = time.perf_counter() - start
    yield Figure(section=section, what="prepare", value=prepared, unit="s", note="first call")
    rows = np.sort(rng.choice(len(engine), m, replace=False))
    before = engine.rows_read
    after = method.unlearn(state, engine, rows, rng)
    passes = (engine.rows_read - before) / len(engine)
    mask = engine.without(rows)
    ridge = method.ridge(engine, mask)
    left = engine.gradient_sum(after.weights, mask) + ridge * after.weights
    residual = float(np.linalg.norm(left, axis=1).max()) / (len(engine) - m)
    seconds = best(bench.device, lambda: method.unlearn(state, engine, rows, rng), 5)
    yield Figure(
        section=section,
        what=f"unlearn {m:,} rows",
        value=1e3 * seconds,
        unit="ms",
        note=f"residual {residual:.1e}, {passes:.1f} passes",
        asked="" if most is None else asked(1e3 * seconds, most=most),
    )


def mnist(bench: Bench) -> Iterator[Figure]:
    n, p = bench.digits
    engine = TorchEngine(made_up(n, p, 10, bench.device, 4), 10)
    yield from _unlearned("mnist shape", engine, bench, n // 100)
    method = METHODS["newton"](bench.settings)
    seconds = best(bench.device, lambda: method.train(engine, np.random.default_rng(0)), 2)
    yield Figure(section="mnist shape", what="train, warm", value=1e3 * seconds, unit="ms")


def scikit_learn(bench: Bench) -> Iterator[Figure]:
    """Fits of a quarter of the rows without intercept, all to tol 1e-6; and what that left."""
    n = bench.n // 4
    rows = replace(bench.rows, X=bench.rows.X[:n], codes=bench.rows.codes[:n], intercept=False)
    engine, method = TorchEngine(rows, 2), METHODS["newton"](replace(bench.settings, tol=1e-6))
    ridge = method.ridge(engine)

    def figure(what: str, seconds: float, weights: np.ndarray) -> Figure:
        left = engine.gradient_sum(weights) + ridge * weights
        note = f"mean gradient {np.linalg.norm(left) / n:.1e}"
        return Figure(section="scikit-learn", what=what, value=seconds, unit="s", note=note)

    found: list[np.ndarray] = []
    rng = np.random.default_rng(0)
    ours = best(bench.device, lambda: found.append(method.train(engine, rng).weights), 3)
    yield figure(f"unfit, engine torch, {n:,} rows", ours, found[-1])
    for solver in ("lbfgs", "newton-cholesky"):
        fitted = LogisticRegression(
            C=1 / (1e-4 * n), solver=solver, tol=1e-6, max_iter=300, fit_intercept=False
        )
        start = time.perf_counter()
        fitted.fit(rows.X, rows.codes)
        yield figure(f"{solver}, CPU", time.perf_counter() - start, fitted.coef_)
    yield _scikit_learn_on_gpu(bench, rows, figure)


def _scikit_learn_on_gpu(
    bench: Bench, rows: Rows, figure: Callable[[str, float, np.ndarray], Figure]
) -> Figure:
    """lbfgs on tensors, where scikit-learn's array API takes them; else what it says."""
    n = len(rows)
    fitted = LogisticRegression(C=1 / (1e-4 * n), tol=1e-6, max_iter=300, fit_intercept=False)
    X = torch.from_numpy(rows.X).to(bench.device)
    y = torch.from_numpy(rows.codes.astype(np.int64)).to(bench.device)
    try:
        with sklearn.config_context(array_api_dispatch=True):
            seconds = best(bench.device, lambda: fitted.fit(X, y), 1)
            return figure("lbfgs, tensors on the device", seconds, fitted.coef_.cpu().numpy())
    except Exception as failure:  # which of several depends on scikit-learn's version
        note = f"not available: {type(failure).__name__}: {failure}"[:120]
        what = "lbfgs, tensors on the device"
        return Figure(section="scikit-learn", what=what, value=float("nan"), unit="s", note=note)


SECTIONS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "ceilings": ceilings,
    "hessian": hessian,
    "passes": passes,
    "sizes": sizes,
    "sgd": sgd,
    "unlearn": unlearn,
    "one-row": one_row,
    "mnist": mnist,
    "scikit-learn": scikit_learn,
}


def machine(device: torch.device) -> dict[str, object]:
    found: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "device": str(device),
    }
    for name in ("triton", "sklearn", "scipy", "numba"):
        if importlib.util.find_spec(name) is not None:
            found[name] = importlib.import_module(name).__version__
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
        found["cuda"] = torch.version.cuda
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by commas")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs")
    given = parser.parse_args()
    chosen = given.only.split(",")
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    bench = Bench(given.small)
    about = machine(bench.device)
    print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    figures: list[Figure] = []
    for name in chosen:
        start = time.perf_counter()
        for found in SECTIONS[name](bench):
            figures.append(found)
            line = f"{found.section:24} {found.what:46} {found.value:10.3f} {found.unit:10}"
            print(f"{line} {found.asked:14} {found.note}", flush=True)
        print(f"({name}: {time.perf_counter() - start:.1f} s)", flush=True)
        if given.json is not None:
            content = {"machine": about, "figures": [asdict(one) for one in figures]}
            given.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
