"""The tool that draws a stream of single rows counts what it says it counts."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import unfit

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from stream_1000 import answered, drawn, summary

ROWS, COLUMNS, L2 = 1500, 300, 1e-3


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS)) / np.sqrt(COLUMNS)
    return X, X[:, 0] + 0.05 * rng.standard_normal(ROWS) > 0


def test_residuals_passes_and_moves_of_the_point(rows, tmp_path) -> None:
    X, y = rows
    clf = unfit.LogisticRegression(l2=L2, dtype="float64", fit_intercept=False).fit(X, y)
    order = np.random.default_rng(1).permutation(ROWS)[:60].tolist()
    found = answered(clf, order)
    assert len(found) == 60
    left = np.delete(X, order, axis=0), np.delete(y, order)
    slopes = 1 / (1 + np.exp(-left[0] @ clf.coef_[0])) - left[1]
    gradient = slopes @ left[0] + L2 * len(left[1]) * clf.coef_[0]
    assert found[-1].residual == pytest.approx(np.linalg.norm(gradient) / len(left[1]), rel=1e-6)
    passes = [one.passes for one in found]
    assert passes == sorted(passes)
    assert passes[-1] > 0
    assert all(after.passes > before.passes for before, after in moves(found))
    told = summary(found, 1e-7)
    assert told["requests"] == 60
    assert told["within_tolerance"] == sum(one.residual <= 1e-7 for one in found)
    assert told["largest_residual"] == max(one.residual for one in found)
    drawn(found, 1e-7, "rows").savefig(tmp_path / "stream.png")
    assert (tmp_path / "stream.png").stat().st_size > 1000


def moves(found):
    return [(a, b) for a, b in pairwise(found) if b.moved]
