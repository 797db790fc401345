"""A made-up click log of five million rows: one product, a fit, and people who are forgotten.

python tools/click_log.py [rows] prints what docs/benchmarks.md quotes. Rows are made by
data/catalog/entries/clicks.py with 30 values each in 2^20 columns.
"""

import importlib
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import unfit
from unfit.cli.bench import _package
from unfit.core.sparse_rows import make_rows
from unfit.core.sparse_sums import SparseMatrix
from unfit.data.catalog.entries.clicks import generate

BITS, VALUES, TOL = 20, 30, 1e-8


def _memory(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


def _compile() -> None:
    """Get kernels ready by a smaller log that is solved in the same way, in a process of its own:
    what a compiler needs is no memory of ours."""
    code = (
        "import unfit; from unfit.data.catalog.entries.clicks import generate; "
        f"made = generate(500_000, 17, {VALUES}, n_test=1); "
        f"clf = unfit.LogisticRegression('retrain', tol={TOL}); "
        "clf.fit(made.X, made.y).unlearn([1]).unlearn(range(2, 5000))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def main(n: int) -> None:
    _compile()
    before = _memory("VmRSS")
    made = generate(n, BITS, VALUES, n_test=1)
    X, y, who = made.X, made.y, np.asarray(made.groups)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(f"rows: {size / 1e9:.3g} GB in CSR arrays")
    clf = unfit.LogisticRegression("retrain", tol=TOL)
    start = time.perf_counter()
    clf.fit(X, y)
    passes = clf._data.rows_read / n
    print(f"fit: {time.perf_counter() - start:.3g} s, {passes:.0f} passes")
    print(f"peak memory: {(_memory('VmHWM') - before) / size:.3g} x the CSR arrays, rows included")
    people = np.random.default_rng(1).permutation(who.max() + 1)
    for first, count in ((0, 1), (1, 1), (10, 1000)):
        rows = np.flatnonzero(np.isin(who, people[first : first + count]))
        start = time.perf_counter()
        clf.unlearn(rows)
        taken = time.perf_counter() - start
        print(f"forget {count:,} people, {len(rows):,} rows: {taken:.3g} s")
    del clf
    matrix = SparseMatrix(make_rows(X, y.astype(np.int32), True))
    v, curvatures = np.ones((1, matrix.rows.d)), np.full((n, 1), 0.15)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        matrix.products(curvatures, np.array([0]), v)
        times.append(time.perf_counter() - start)
    measure = importlib.import_module(f"{_package()}.measure")
    rate, most = size / min(times), max(measure.read_bandwidth() for _ in range(3))
    print(
        f"product: {1e3 * min(times):.3g} ms, {rate / 1e9:.3g} GB/s of CSR arrays, "
        f"{100 * rate / most:.3g} % of the read bandwidth, {most / 1e9:.3g} GB/s"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
