"""The engine of sparse rows: factors known by products, what it keeps, what it does not make."""

import numpy as np
import pytest
from scipy import sparse

from unfit.core.conjugate_gradients import conjugate_gradients, unguided
from unfit.core.deflation import MOST, Basis
from unfit.core.losses import LOGISTIC
from unfit.core.objective import hessian_sum
from unfit.core.sparse_rows import make_rows
from unfit.core.sparse_sums import SparseMatrix
from unfit.engines.base import make_engine
from unfit.errors import Unavailable
from unfit.methods import METHODS, Settings

RIDGE = 0.3


def made(classes=3, n=300, p=40, seed=0, dtype="float64"):
    """Rows that share a direction, as word counts do; sparse, and dense in float64."""
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((n, p))) * (rng.random((n, p)) < 0.3)
    X = X.astype(dtype)
    codes = rng.integers(0, classes, n).astype(np.int32)
    dense = make_rows(X.astype(np.float64), codes, True, LOGISTIC)
    data = make_engine(make_rows(sparse.csr_array(X), codes, True, LOGISTIC), classes)
    return data, dense, rng.standard_normal((data.k, data.d)) / 5


@pytest.mark.parametrize("classes", [2, 3])
def test_factors_solve_to_a_billionth_of_the_weights(classes):
    data, dense, W = made(classes)
    exact = hessian_sum(dense, W) + RIDGE * np.eye(data.d)
    rhs = np.random.default_rng(5).standard_normal(W.shape)
    expected = np.linalg.solve(exact, rhs[:, :, None])[:, :, 0]
    for c, factor in enumerate(data.factors(W, None, RIDGE)):
        assert np.linalg.norm(factor.solve(rhs[c]) - expected[c]) <= 1e-9 * np.linalg.norm(W[c])
        assert not factor.solve(np.zeros(data.d)).any()


def test_roots_are_those_of_the_eigenvectors():
    data, dense, W = made()
    b = np.random.default_rng(5).standard_normal(data.d)
    values, vectors = np.linalg.eigh(hessian_sum(dense, W)[2] + RIDGE * np.eye(data.d))
    expected = vectors @ (values**-0.25 * (vectors.T @ b))
    found = data.factors(W, None, RIDGE)[2].inverse_fourth_root(b)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_known_of_all_rows_is_used_when_some_leave(classes):
    data, dense, W = made(classes)
    gone = np.array([3, 9, 100])
    data.value_gradient_sum(W)
    read = data.rows_read
    values, gradients, products = data.value_gradient_products(W, data.without(gone))
    assert data.rows_read == read  # without a pass
    left = dense.take(np.setdiff1d(np.arange(300), gone))
    expected = left.value_gradient(W)
    np.testing.assert_allclose(values, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-10, atol=1e-11)
    V = np.random.default_rng(2).standard_normal(W.shape)
    goal = np.einsum("kde,ke->kd", hessian_sum(left, W), V)
    np.testing.assert_allclose(products(np.arange(data.k), V), goal, rtol=1e-10, atol=1e-10)
    assert data.rows_read == read + 300


def test_rows_that_come_back_are_summed_again():
    data, dense, W = made()
    data.gradient_sum(W, data.without(np.arange(150)))
    some = dense.take(np.arange(300) % 2 == 0)
    found = data.gradient_sum(W, np.arange(300) % 2 == 0)
    np.testing.assert_allclose(found, some.value_gradient(W)[1], rtol=1e-10, atol=1e-11)


def test_the_gradient_given_out_is_the_callers_own():
    data, _, W = made()
    first = data.gradient_sum(W)
    kept = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(data.gradient_sum(W), kept)


def test_no_matrix_of_columns_times_columns_is_made():
    data, _, W = made()
    for ask in (lambda: data.hessian_sum(W), data.gram_sum, lambda: data.sums_of(W, [1])):
        with pytest.raises(Unavailable, match="no Hessian of columns times columns: .* 41 x 41"):
            ask()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_guide_is_right_along_its_directions(classes):
    data, dense, W = made(classes)
    basis = data._matrix.basis
    assert basis is not None
    Q = basis.directions.astype(np.float64)
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-6)
    curvatures = data._matrix.evaluate(W).curvatures
    guide = basis.guide(curvatures, RIDGE)
    for c, hessian in enumerate(hessian_sum(dense, W)):
        inner = Q @ (hessian + RIDGE * np.eye(data.d)) @ Q.T
        across = np.random.default_rng(c).standard_normal(data.d)
        across -= Q.T @ (Q @ across)
        along = Q.T @ np.arange(1.0, len(Q) + 1)
        expected = Q.T @ np.linalg.solve(inner, Q @ along)
        np.testing.assert_allclose(guide(np.array([c]), along[None])[0], expected, rtol=1e-3)
        turned = guide(np.array([c]), across[None])[0]
        np.testing.assert_allclose(
            turned, across * (turned @ across / (across @ across)), atol=1e-3
        )
        assert turned @ across > 0


def test_the_directions_are_those_in_which_rows_are_longest():
    data, dense, _ = made(n=500)
    X = np.column_stack([dense.X, np.ones(500)])
    longest = np.linalg.svd(X)[2][0]
    assert abs(data._matrix.basis.directions[0] @ longest) > 0.999
    assert data._matrix.basis.directions.shape[0] <= MOST


def test_a_guide_makes_products_fewer():
    """Rows of a few topics, each with common words of its own, as texts are."""
    rng = np.random.default_rng(0)
    common = np.arange(400)[None] // 50 == rng.integers(0, 8, 3000)[:, None]
    X = sparse.csr_array(rng.random((3000, 400)) * (rng.random((3000, 400)) < 0.02 + 0.4 * common))
    data = make_engine(make_rows(X, rng.integers(0, 2, 3000).astype(np.int32), True), 2)
    W, ridge = np.zeros((1, data.d)), 3.0
    rhs = data.gradient_sum(W)
    _, _, products = data.value_gradient_products(W)
    taken = [
        conjugate_gradients(
            lambda at, V: products(at, V) + ridge * V, guide, rhs, np.array([1e-6])
        ).products
        for guide in (unguided, data._matrix.basis.guide(data._last.curvatures, ridge))
    ]
    assert taken[1] <= 0.7 * taken[0]


def test_a_basis_that_would_take_too_much_memory_is_not_made():
    X = sparse.random_array((50, 5000), density=0.002, rng=np.random.default_rng(0), format="csr")
    codes = (np.arange(50) % 2).astype(np.int32)
    matrix = SparseMatrix(make_rows(X, codes, True))
    assert matrix.basis is None
    assert matrix.products_per_basis(1) is None
    data = make_engine(matrix.rows, 2)
    assert data.offer(None, 1.0) is None
    found = METHODS["retrain"](Settings(l2=1e-2)).minimum(data)
    assert found.converged


def test_a_basis_of_few_columns_is_all_of_them():
    X = np.random.default_rng(0).standard_normal((30, 6))
    basis = Basis.of(lambda V: V @ (X.T @ X), lambda V: (X @ V.T).astype(np.float32), 6, 4)
    assert basis.directions.shape == (4, 6)
    assert basis.components.shape == (30, 4)


@pytest.mark.parametrize("classes", [2, 3])
def test_nothing_that_was_computed_tells_of_rows_that_were_erased(classes):
    data, _, W = made(classes)
    for array in (data.rows.data, data.rows.indices):
        array.setflags(write=True)
    gone = np.array([3, 9])
    rows = data.rows
    own = rows.indices[rows.indptr[3]]
    rows.data[(rows.indices == own) & (np.repeat(np.arange(300), np.diff(rows.indptr)) != 3)] = 0.0
    data._matrix.basis  # noqa: B018  # made when asked for
    data.value_gradient_sum(W)
    moved = W + 1e-3
    data.value_gradient_products(moved, data.without(gone))
    emptied = data.emptied_columns(gone)
    assert own in emptied
    data.forget(gone)
    inside = np.isin(np.repeat(np.arange(300), np.diff(rows.indptr)), gone)
    rows.data[inside] = rows.indices[inside] = 0  # as whoever owns them does
    data.erase(gone)
    assert data._at_model is None
    assert data._ahead is data._last is data._guide is None
    known, basis = data._on_trial, data._matrix.basis
    assert not known.found.curvatures[gone].any()
    assert known.found.margins is None or not known.found.margins[gone].any()
    assert not known.weights[:, emptied].any()
    assert not known.found.gradients[:, emptied].any()
    assert not basis.components[gone].any()
    assert not basis.directions[:, emptied].any()
    assert not data._matrix.hot_columns._tables
    # what is kept is still right, and saves the next request a pass
    moved[:, emptied] = 0.0
    read = data.rows_read
    found = data.value_gradient_sum(moved)
    assert data.rows_read == read
    fresh = make_engine(rows.take(np.flatnonzero(data.remaining)), classes).value_gradient_sum(
        moved
    )
    for one, other in zip(found, fresh, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_directions_are_dropped_where_nobody_knows_which_columns_are_empty():
    data, _, _ = made(2)
    assert data._matrix.basis is not None
    data.forget(np.array([3]))
    data.erase(np.array([3]))
    assert not data._matrix.has_basis
