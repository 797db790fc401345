"""The benchmark of sparse rows, on made-up ones: its figures are what it says they are."""

import importlib
import re

import numpy as np
import pytest
from scipy import sparse

from unfit.cli.bench import _package

BENCH = importlib.import_module(f"{_package()}.sparse")


@pytest.mark.slow
def test_the_section_compares_like_with_like():
    rng = np.random.default_rng(0)
    X = sparse.random_array((600, 300), density=0.05, rng=rng, dtype=np.float32, format="csr")
    y = np.argmax(X @ rng.standard_normal((300, 4)), axis=1)
    requests = [np.array([3]), np.array([10, 11])]
    data = BENCH.SparseData(
        name="made up", X=X, y=y, requests=requests, whom="author", classes=(2, 4)
    )
    rows = list(BENCH.sparse(data))
    assert [row.what.split(",")[0] for row in rows] == [
        "product of 1 problem",
        "product of 4 problems",
        *["fit", "forget one author"] * 2,
    ]
    for row in rows:
        assert row.section == "sparse"
        assert row.ratio > 0
    for row in rows[2:]:
        assert row.ratio == pytest.approx(_seconds(row.theirs) / _seconds(row.ours), rel=0.02)
    for row in rows[3::2]:
        smaller = int(re.search(r"residual ([\d,]+) times smaller", row.what)[1].replace(",", ""))
        assert smaller >= 50


def _seconds(shown):
    number, unit = shown.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
