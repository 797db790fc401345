"""The kernels of a GPU against the engine "cpu", in Triton's interpreter; run as a program.

Triton decides when it is imported whether its kernels are interpreted, so this wants a process of
its own, with TRITON_INTERPRET=1. Prints the largest relative difference.
"""

from dataclasses import replace

import numpy as np

from unfit.core.losses import LOSSES
from unfit.core.objective import Rows
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


if __name__ == "__main__":
    fused.INTERPRETED = True
    print(sums_apart())
