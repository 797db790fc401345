"""One vector and sparse rows, in the order of common columns, against SciPy and dense rows."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from sparse_problems import sparse_and_dense

from unfit.core import hot_columns, sparse_rows, sparse_sums
from unfit.core.deflation import MORE, PRODUCTS
from unfit.core.hot_columns import HotColumns, OneSystem
from unfit.core.kernels import sparse as kernels_of_several
from unfit.core.kernels import sparse_pairs
from unfit.core.kernels.pairs_of_columns import RAREST
from unfit.core.kernels.parallel import KERNEL, limited_threads
from unfit.core.kernels.vectors import add_dots, advance, by_threads, turn
from unfit.core.sparse_rows import make_rows, shares_of
from unfit.core.sparse_sums import SparseMatrix

KINDS = ["alike", "wide", "different", "wide different"]


@pytest.fixture(autouse=True)
def _small_last_cache(monkeypatch):
    """So that columns are asked for ahead where values differ, too, in tables of a test's size."""
    monkeypatch.setattr(hot_columns, "_IN_LAST_CACHE", 1 << 15)


def _one_hot(n=400, fields=7, span=30, rng=None):
    """Rows with one value in each field, divided by their length, of as many kinds as lengths."""
    rng = rng or np.random.default_rng(0)
    X = sparse.lil_array((n, fields * span), dtype=np.float32)
    for field in range(fields):
        there = rng.random(n) < 0.8
        columns = field * span + np.minimum(rng.zipf(1.5, n), span) - 1
        X[np.flatnonzero(there), columns[there]] = 1.0
    X = X.tocsr()
    lengths = np.sqrt(np.maximum(1, np.diff(X.indptr)))
    X.data /= np.repeat(lengths, np.diff(X.indptr)).astype(np.float32)
    return X


def _rows(kind, intercept):
    rng = np.random.default_rng(1)
    if kind.endswith("different"):
        p = 40_000 if kind.startswith("wide") else 210
        X = sparse.random_array((400, p), density=21 / p, rng=rng, dtype=np.float32, format="csr")
    else:
        X = _one_hot()
    if kind == "wide":  # tables too large for a cache, whose lines are asked for ahead
        spread = rng.permutation(40_000)[:210]
        indices = spread[X.indices].astype(np.int32)
        X = sparse.csr_array((X.data, indices, X.indptr), (400, 40_000))
        X.sort_indices()
    return make_rows(X, rng.integers(0, 2, 400).astype(np.int32), intercept)


def _with_intercept(rows):
    X = rows.X.toarray().astype(np.float64)
    return np.hstack([X, np.ones((len(X), 1))]) if rows.intercept else X


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "digits"), [("float64", 1e-12), ("float32", 1e-5)])
def test_a_product_is_that_of_dense_rows(kind, intercept, dtype, digits):
    rows = _rows(kind, intercept)
    X, rng = _with_intercept(rows), np.random.default_rng(2)
    curvatures, v = rng.random((len(rows), 2)), rng.standard_normal(rows.d)
    curvatures[::7] = 0.0
    hot = HotColumns.of(rows)
    assert hot.alike == (kind in ("alike", "wide"))
    assert hot._asks == kind.startswith("wide")
    found = hot.product(curvatures, 1, v.astype(dtype))
    expected = X.T @ (curvatures[:, 1] * (X @ v))
    assert np.linalg.norm(found - expected) <= digits * np.linalg.norm(expected)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_dense_rows(kind, intercept):
    rows = _rows(kind, intercept)
    rng = np.random.default_rng(3)
    w, weights = rng.standard_normal(rows.d), 3 * rng.random(len(rows))
    weights[rng.random(len(rows)) < 0.3] = 0.0
    X, loss = _with_intercept(rows), rows.loss
    margins, targets = X @ w, (rows.codes == 1).astype(float)
    hot = HotColumns.of(rows)
    for known in (None, margins.copy()):
        found = hot.value_gradient(w, weights, known)
        values = weights * loss.value(margins, targets)
        assert found.value == pytest.approx(values.sum(), rel=1e-12)
        gradient = X.T @ (weights * loss.slope(margins, targets))
        np.testing.assert_allclose(found.gradient, gradient, rtol=1e-11, atol=1e-11)
        expected = weights * loss.curvature(margins, targets)
        np.testing.assert_allclose(found.curvatures[:, 0], expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found.margins, margins * (weights > 0), rtol=1e-12, atol=1e-14)


@pytest.fixture
def several_shares(monkeypatch):
    """Rows of a test's size are shared by threads, too, one of which may have none."""
    monkeypatch.setattr(sparse_rows, "_WORTH_A_THREAD", 8)
    with limited_threads(5):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_sums_by_several_threads_are_those_of_dense_rows(kind, several_shares):
    rows, rng = _rows(kind, True), np.random.default_rng(11)
    X, hot = _with_intercept(rows), HotColumns.of(rows)
    assert len(shares_of(rows.indptr, 1)) == 5
    assert hot.alike == (kind in ("alike", "wide"))
    curvatures, v = rng.random((len(rows), 1)), rng.standard_normal(rows.d)
    expected = X.T @ (curvatures[:, 0] * (X @ v))
    np.testing.assert_allclose(hot.product(curvatures, 0, v), expected, rtol=1e-11, atol=1e-11)
    found, targets = hot.value_gradient(v, None), (rows.codes == 1).astype(float)
    gradient = X.T @ rows.loss.slope(X @ v, targets)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-11, atol=1e-11)


def test_one_row_of_different_values_makes_all_different(several_shares):
    rows = _rows("alike", True)
    X = rows.X.copy()
    row = int(np.flatnonzero(np.diff(X.indptr) > 1)[0])  # of the first thread
    X.data[X.indptr[row]] *= 2
    assert not HotColumns.of(make_rows(X, rows.codes, True)).alike


def test_values_in_columns_are_counted_by_several_threads(several_shares):
    rows, mask = _rows("different", True), np.arange(400) % 3 > 0
    expected = (rows.X[mask].toarray() != 0).sum(axis=0)
    np.testing.assert_array_equal(rows.values_in_columns(mask), expected)


def test_margins_of_rows_without_weight_may_be_anything():
    rows, rng = _rows("alike", True), np.random.default_rng(12)
    hot, w = HotColumns.of(rows), rng.standard_normal(rows.d)
    weights = (rng.random(len(rows)) < 0.5).astype(float)
    known = hot.value_gradient(w, None).margins
    right = hot.value_gradient(w, weights, known.copy())
    known[weights == 0] = np.nan
    found = hot.value_gradient(w, weights, known)
    assert found.value == right.value
    np.testing.assert_array_equal(found.gradient, right.gradient)
    np.testing.assert_array_equal(found.curvatures, right.curvatures)
    np.testing.assert_array_equal(found.margins, right.margins)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("kind", KINDS)
def test_indices_of_every_width_say_the_same(kind, dtype):
    """Those of 16 bits hold places, longer ones twice of them; two are read at once, or one."""
    rows, rng = _rows(kind, True), np.random.default_rng(9)
    short, v = HotColumns.of(rows), rng.standard_normal(rows.d)
    assert short.indices.dtype == np.uint16
    long = replace(short, indices=2 * short.indices.astype(dtype), _tables=[])
    curvatures = rng.random((len(rows), 1))
    np.testing.assert_allclose(
        long.product(curvatures, 0, v), short.product(curvatures, 0, v), rtol=1e-12, atol=1e-12
    )
    one, other = long.value_gradient(v, None), short.value_gradient(v, None)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.margins, other.margins, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("stored", [0, 1, 2, 5, 6, 7])
@pytest.mark.parametrize("alike", [True, False])
def test_few_values_in_many_columns(stored, alike):
    """None are asked for ahead where there are fewer than that reads."""
    p, rng = 70_000, np.random.default_rng(10)
    values = np.ones(stored) if alike else rng.random(stored)
    X = sparse.csr_array(
        (
            values.astype(np.float32),
            (np.sort(rng.integers(0, 3, stored)), np.arange(stored) * 9999),
        ),
        (3, p),
    )
    rows = make_rows(X, np.array([0, 1, 1], np.int32), True)
    hot, v = HotColumns.of(rows), rng.standard_normal(rows.d)
    assert hot._asks == (stored >= RAREST)
    margins = X.astype(np.float64) @ v[:-1] + v[-1]
    expected = np.append(X.T.astype(np.float64) @ margins, margins.sum())
    np.testing.assert_allclose(hot.product(np.ones((3, 1)), 0, v), expected, rtol=1e-12, atol=1e-12)


def test_margins_that_are_known_are_not_computed_again():
    """The weights are then not looked at: margins of others lead to the gradient there."""
    rows, rng = _rows("different", True), np.random.default_rng(6)
    w, other = rng.standard_normal((2, rows.d))
    hot = HotColumns.of(rows)
    there = hot.value_gradient(other, None)
    found = hot.value_gradient(w, None, there.margins.copy())
    np.testing.assert_allclose(found.gradient, there.gradient, rtol=1e-13)


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_comes_with_the_margins_it_leads_to(kind, most):
    rows, rng = _rows(kind, True), np.random.default_rng(7)
    X, w = _with_intercept(rows), rng.standard_normal(rows.d)
    curvatures = rng.random((len(rows), 1))
    curvatures[::5] = 0.0  # rows on a flat part of their loss move, too
    guide = np.zeros((0, rows.d), np.float32), np.zeros((0, 0)), 1.0
    system = OneSystem(
        curvatures=curvatures, problem=0, ridge=2.0, guide=guide, margins=np.asarray(X @ w)
    )
    before = system.margins.copy()
    hot = HotColumns.of(rows)
    solved, margins = hot.solve(system, rng.standard_normal((1, rows.d)), 1e-9, most)
    assert 0 < solved.products <= most
    np.testing.assert_allclose(margins, X @ (w - solved.x[0]), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(system.margins, before)
    plain = replace(system, margins=None)
    again, nothing = hot.solve(plain, solved.left * 0 + 1.0, 1e-9, most)
    assert nothing is None
    assert again.products > 0


def test_columns_stand_in_the_order_of_how_many_rows_have_them():
    hot = HotColumns.of(_rows("alike", True))
    counts = np.bincount(hot.rows.indices, minlength=len(hot.places))
    in_order = np.empty_like(counts)
    in_order[hot.places] = counts
    levels = np.frexp(in_order)[1]
    assert (np.diff(levels) <= 0).all()
    assert sorted(hot.places) == list(range(len(counts)))
    assert hot.indices.dtype == np.uint16


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("longest", [5, 200])
def test_the_rarest_columns_of_a_row_come_last(longest, dtype):
    rng, common = np.random.default_rng(5), sparse_pairs._COMMON
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, longest, 80))])
    columns = rng.integers(0, 6000, indptr[-1]).astype(np.int32)
    places, times = rng.permutation(6000).astype(np.int32), 1 if dtype == np.uint16 else 2
    found = np.zeros(len(columns), dtype)
    for share in ((0, 30), (30, 80)):
        sparse_pairs.relabel_rarest_last(indptr, columns, places, found, share)
    for a, b in pairwise(indptr):
        row = found[a:b].astype(np.int64) // times
        rarest = row[np.count_nonzero(row < common) :]
        np.testing.assert_array_equal(np.sort(row), np.sort(places[columns[a:b]]))
        np.testing.assert_array_equal(rarest, np.sort(rarest))
        assert (rarest >= common).all()


def test_columns_of_many_rows_are_ordered_by_some_of_them(monkeypatch):
    rows = _rows("alike", True)
    monkeypatch.setattr(hot_columns, "_COUNTED", rows.indices.size // 2)
    monkeypatch.setattr(hot_columns, "_BLOCK", 50)
    hot, rng = HotColumns.of(rows), np.random.default_rng(8)
    curvatures, v, X = (
        rng.random((len(rows), 1)),
        rng.standard_normal(rows.d),
        _with_intercept(rows),
    )
    assert sorted(hot.places) == list(range(rows.shape[1]))
    expected = X.T @ (curvatures[:, 0] * (X @ v))
    np.testing.assert_allclose(hot.product(curvatures, 0, v), expected, rtol=1e-11, atol=1e-11)


def test_more_columns_than_16_bits_hold_have_longer_indices():
    rng = np.random.default_rng(4)
    shape = (300, (1 << 16) + 10)
    X = sparse.random_array(shape, density=1e-3, rng=rng, dtype=np.float32, format="csr")
    rows = make_rows(X, rng.integers(0, 2, 300).astype(np.int32), True)
    hot, v = HotColumns.of(rows), rng.standard_normal(rows.d)
    assert hot.indices.dtype == np.uint32
    margins = X.astype(np.float64) @ v[:-1] + v[-1]
    found = hot.product(np.ones((300, 1)), 0, v)
    expected = np.append(X.T.astype(np.float64) @ margins, margins.sum())
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_kept_of_rows_that_were_erased(kind):
    rows = _rows(kind, True)
    matrix, gone = SparseMatrix(rows), np.array([3, 40, 41])
    hot = matrix.hot_columns
    matrix.erase(gone)
    for row in gone:
        assert not hot.indices[rows.indptr[row] : rows.indptr[row + 1]].any()
        assert not hot.alike or hot.data[row] == 0
    stays = np.delete(np.arange(len(rows)), gone)
    fresh = HotColumns.of(rows)
    for row in stays[:60]:
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        np.testing.assert_array_equal(hot.indices[part], fresh.indices[part])


def test_one_problem_is_summed_without_a_transpose():
    rows, _, W = sparse_and_dense(n=400, p=12, n_classes=2, density=0.6)
    matrix = SparseMatrix(rows)
    found = matrix.evaluate(W)
    matrix.products(found.curvatures, np.array([0]), W)
    assert "hot_columns" in matrix.__dict__
    assert "transpose" not in matrix.__dict__


def test_a_basis_of_large_rows_is_made_without_a_transpose(monkeypatch):
    rows = _rows("different", True)
    expected = SparseMatrix(rows).basis
    monkeypatch.setattr(sparse_sums, "_LARGE", 0)
    matrix = SparseMatrix(rows)
    found = matrix.basis
    assert "transpose" not in matrix.__dict__
    assert matrix.products_per_basis(1) == PRODUCTS * (len(found.directions) + MORE)
    assert abs(found.directions[0] @ expected.directions[0]) > 0.9999
    np.testing.assert_allclose(
        found.directions @ found.directions.T, np.eye(len(found.directions)), atol=1e-5
    )


def test_steps_of_conjugate_gradients_are_those_of_the_formulae():
    rng = np.random.default_rng(5)
    x, left, direction = rng.standard_normal((3, 4, 300_000))
    at, image = np.array([0, 2]), rng.standard_normal((2, 300_000))
    steps, ratios = rng.standard_normal((2, 2))
    moved = x + 0, left + 0, direction + 0

    dots = by_threads(300_000, 2, (2,), lambda out, s: add_dots(left, at, image, out, s))
    np.testing.assert_allclose(dots.sum(axis=0), np.einsum("kd,kd->k", left[at], image), rtol=1e-9)

    squares = by_threads(
        300_000, 4, (2,), lambda out, s: advance(moved, at, steps, image, out, s)
    ).sum(axis=0)
    x[at] += steps[:, None] * direction[at]
    left[at] -= steps[:, None] * image
    np.testing.assert_allclose(moved[0], x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moved[1], left, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, np.einsum("kd,kd->k", left[at], left[at]), rtol=1e-12)

    by_threads(300_000, 2, (), lambda _, s: turn(moved[2], at, ratios, image, s))
    direction[at] = image + ratios[:, None] * direction[at]
    np.testing.assert_allclose(moved[2], direction, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_references_are_counted_while_rows_are_read(kind, tmp_path):
    """Each would be an atomic operation on what all threads share, for every row. In a process with
    an empty cache: kernels that others call have no signatures where those were loaded from one."""
    check = f"import test_hot_columns; test_hot_columns._check_references({kind!r})"
    here = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": here}
    done = subprocess.run([sys.executable, "-c", check], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _check_references(kind):
    rows, other = _rows(kind, True), {"alike": "_alike", "wide": "_alike"}.get(kind, "")
    hot, several = HotColumns.of(rows), SparseMatrix(rows)
    w = np.zeros(rows.d)
    hot.product(hot.value_gradient(w, None).curvatures, 0, w)
    several.evaluate(np.zeros((3, rows.d)))
    names = [f"{name}{other}" for name in ("_add_product", "_gather", "_scatter")]
    kernels = [getattr(sparse_pairs, name) for name in names]
    for kernel in [*kernels, kernels_of_several._gather]:
        compiled = njit(**{**KERNEL, "cache": False})(kernel.py_func)
        compiled.compile(kernel.signatures[0])
        lines = next(iter(compiled.inspect_asm().values())).splitlines()
        wrapper = next(
            i for i, line in enumerate(lines) if line.endswith(":") and "cpython" in line
        )
        assert wrapper > 50
        assert not any("NRT_" in line for line in lines[:wrapper])
