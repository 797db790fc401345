"""Compile the kernels that most tests need: `python tools/compile_kernels.py`.

numba keeps what it compiled beside the source: tests in several processes load it instead of
compiling it once each. `make test` runs this when a kernel has changed.
"""

import itertools
import warnings

import numpy as np

import unfit

METHODS = ("fisher", "influence", "deltagrad", "retrain")


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) / 5
    cases = itertools.product(METHODS, ("float32", "float64"), (2, 3))
    for method, dtype, classes in cases:
        y = rng.integers(0, classes, len(X))
        model = unfit.LogisticRegression(method, dtype=dtype, epochs=2, batch_size=32)
        model.fit(X, y).unlearn(np.arange(8)).prepare().unlearn([20]).audit()
    for kind, dtype in itertools.product((unfit.RidgeClassifier, unfit.LinearSVC), ("float32",)):
        kind(dtype=dtype).fit(X, X[:, 0] > 0).unlearn([1, 2]).audit()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
