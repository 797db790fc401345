"""The tool that says what bounds a product: its visits are those of a product."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import sparse_limits as tool


def _columns(n=50, values=4, p=64):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.choice(p, values, replace=False) for _ in range(n)]).astype(np.int32)


@pytest.mark.parametrize("most", [64, 1 << 20])
def test_a_visit_is_a_product_with_rows_of_ones(most):
    columns, rng = _columns(), np.random.default_rng(1)
    X = sparse.csr_array((np.ones(200), columns, np.arange(0, 201, 4)), (50, 64))
    table = np.zeros((64, 2))
    table[:, 0] = v = rng.standard_normal(64)
    tool.visit(tool.folded(columns, most), 4, table.reshape(-1))
    np.testing.assert_allclose(table[:, 1], X.T @ (X @ v), rtol=1e-12, atol=1e-12)


def test_common_columns_come_first_and_folding_stays_among_them():
    places = tool.common_first(_columns(), 64)
    counts = np.bincount(places, minlength=64)
    assert (np.diff(counts) <= 0).all()
    few = tool.folded(places, 8)
    assert few.max() < 8
    assert (few[places < 8] == places[places < 8]).all()
    many = tool.folded(places, 1 << 20)  # indices of 32 bits are twice the places
    np.testing.assert_array_equal(many, 2 * places)


def test_it_prints_a_time_for_each_level(capsys):
    tool.main(500)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [name for name, _ in tool.LEVELS]
    assert "100 % of the values" in lines[0]
