"""The kernels of a GPU against the engine "cpu", in Triton's interpreter; run as a program.

Triton decides when it is imported whether its kernels are interpreted, so this wants a process of
its own, with TRITON_INTERPRET=1. Prints the largest relative difference.
"""

from dataclasses import replace

import numpy as np

from unfit.core.losses import LOSSES
from unfit.core.objective import Rows
from unfit.core.sgd import Plan
from unfit.engines.cpu import CpuEngine
from unfit.engines.device import fused
from unfit.engines.device.engine import TorchEngine


def sums_apart() -> float:
    """Values, gradients and products: of all losses, with and without weights and intercept."""
    rng, worst = np.random.default_rng(4), 0.0
    X = rng.standard_normal((70, 9)).astype(np.float32)
    codes = rng.integers(0, 2, 70).astype(np.int32)
    for name in LOSSES.built_in():
        plain = Rows(X, codes, True, LOSSES[name]())
        weighted = replace(plain, sample_weight=rng.integers(0, 3, 70).astype(float))
        for rows in (plain, weighted, replace(plain, intercept=False)):
            engines = TorchEngine(rows, 2), CpuEngine(rows, 2)
            assert engines[0]._sums.fused
            W, mask = rng.standard_normal((1, rows.d)), rng.random(70) < 0.7
            for keep in (None, mask):
                ours, theirs = (_sums(engine, W, keep) for engine in engines)
                for a, b in zip(ours, theirs, strict=True):
                    worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max()))
    return worst


def _sums(engine, W, keep):
    value, gradient, products = engine.value_gradient_products(W, keep)
    return value, gradient, products(np.arange(1), W + 1)


def sgd_apart() -> float:
    """Three epochs of SGD, the last batch short: weights and the stored run."""
    rng, worst = np.random.default_rng(5), 0.0
    X = rng.standard_normal((50, 9))
    for classes, intercept in ((2, True), (3, False)):
        codes = rng.integers(0, classes, 50).astype(np.int32)
        fast = TorchEngine(Rows(X.astype(np.float32), codes, intercept), classes)
        slow = CpuEngine(Rows(X.astype(np.float32).astype(float), codes, intercept), classes)
        plan, start = Plan(7, 3, 16, 0.5, 1e-3), rng.standard_normal((fast.k, fast.d))
        found = []
        for engine in (fast, slow):
            run = np.zeros((plan.steps(50), 2, *start.shape))
            layout = engine.lay_out(np.arange(50)[::-1].astype(np.int32))
            tilt = start / 50
            weights = engine.sgd(layout, plan, start, linear_term=tilt, trajectory=run)
            found.append((weights, run))
        for a, b in zip(*found, strict=True):
            worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max()))
    return worst


if __name__ == "__main__":
    fused.INTERPRETED = True
    print(max(sums_apart(), sgd_apart()))
