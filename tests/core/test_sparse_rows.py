"""Sparse rows against dense ones and against SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sparse_problems import sparse_and_dense

from unfit.core.kernels.sparse import LANES, gather_rows, padded
from unfit.core.losses import LOSSES
from unfit.core.objective import Rows, hessian_sum, value_gradient_sum
from unfit.core.sparse_rows import make_rows, sparse_rows
from unfit.core.sparse_sums import SparseMatrix, Transpose
from unfit.errors import BadInput


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [1, 2, 4, 5, 12, 20, 24, 25, 31])
def test_a_gathered_product_is_scipys(vectors, dtype):
    rng = np.random.default_rng(vectors)
    X = sparse.random_array((50, 37), density=0.2, rng=rng, dtype=dtype, format="csr")
    table = np.zeros((37, padded(vectors)))
    table[:, :vectors] = rng.standard_normal((37, vectors))
    out = np.full((50, padded(vectors)), np.nan)
    gather_rows((X.indptr.astype(np.int64), X.indices, X.data), table, out, (0, 50))
    np.testing.assert_allclose(out, X.astype(np.float64) @ table, rtol=1e-13, atol=1e-13)
    assert vectors == 1 or padded(vectors) % LANES == 0


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 60),
    p=st.integers(1, 40),
    n_classes=st.sampled_from([2, 3, 7]),
    density=st.sampled_from([0.0, 0.1, 0.6]),
    dtype=st.sampled_from(["float32", "float64"]),
    intercept=st.booleans(),
    masked=st.booleans(),
)
def test_sums_are_those_of_dense_rows(seed, n, p, n_classes, density, dtype, intercept, masked):
    rows, dense, W = sparse_and_dense(seed, n, p, n_classes, dtype, intercept, density)
    rng = np.random.default_rng(seed + 1)
    mask = rng.random(n) < 0.6 if masked else np.ones(n, bool)
    matrix = SparseMatrix(rows)
    found = matrix.evaluate(W, mask.astype(np.float64) if masked else None)
    values, gradients = value_gradient_sum(dense, W, mask)
    np.testing.assert_allclose(found.values, values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.gradients, gradients, rtol=1e-11, atol=1e-11)
    hessians = hessian_sum(dense, W, mask)
    problems = rng.integers(0, len(W), 5)
    V = rng.standard_normal((5, rows.d))
    expected = np.array([hessians[c] @ v for c, v in zip(problems, V, strict=True)])
    products = matrix.products(found.curvatures, problems, V)
    np.testing.assert_allclose(products, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_has_the_values_of_dense_rows(loss):
    rows, dense, W = sparse_and_dense(loss=LOSSES[loss]())
    found = SparseMatrix(rows).evaluate(W)
    values, gradients = value_gradient_sum(dense, W)
    np.testing.assert_allclose(found.values, values, rtol=1e-12)
    np.testing.assert_allclose(found.gradients, gradients, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.curvatures, dense.curvatures(W), rtol=1e-12, atol=1e-15)


def test_weights_of_rows_are_their_numbers():
    """A row that weighs 2 is a row that is there twice, and one that weighs 0 is not there."""
    rows, _, W = sparse_and_dense()
    weights = np.random.default_rng(3).integers(0, 3, len(rows))
    found = SparseMatrix(rows).evaluate(W, weights.astype(np.float64))
    repeated = SparseMatrix(rows.take(np.repeat(np.arange(len(rows)), weights))).evaluate(W)
    np.testing.assert_allclose(found.values, repeated.values, rtol=1e-12)
    np.testing.assert_allclose(found.gradients, repeated.gradients, rtol=1e-11, atol=1e-12)


def test_rows_that_leave_are_taken_off_without_a_pass():
    rows, _, W = sparse_and_dense(n=80)
    matrix, gone = SparseMatrix(rows), np.array([3, 40, 41])
    left = np.ones(80)
    left[gone] = 0
    less = matrix.evaluate(W).without(rows.take(gone), gone, W)
    expected = matrix.evaluate(W, left)
    np.testing.assert_allclose(less.values, expected.values, rtol=1e-12)
    np.testing.assert_allclose(less.gradients, expected.gradients, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(less.curvatures, expected.curvatures)


def test_the_transpose_is_scipys():
    rows, _, _ = sparse_and_dense(n=90, p=31, dtype="float32")
    ours, theirs = Transpose.of(rows), rows.X.tocsc()
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.rows, theirs.indices)
    np.testing.assert_array_equal(ours.data, theirs.data)
    assert ours.nbytes + rows.nbytes <= 2.5 * rows.nbytes


def test_rows_are_taken_spread_and_joined_as_dense_ones_are():
    rows, dense, W = sparse_and_dense()
    index, places = np.array([5, 3, 3, 59]), np.array([True, False, True, True, False, True])
    taken, goal = rows.take(index), dense.take(index)
    np.testing.assert_array_equal(taken.X.toarray(), goal.X)
    np.testing.assert_array_equal(taken.codes, goal.codes)
    np.testing.assert_array_equal(
        rows.take(dense.codes == 1).X.toarray(), dense.X[dense.codes == 1]
    )
    np.testing.assert_array_equal(taken.spread(places).X.toarray(), goal.spread(places).X)
    np.testing.assert_array_equal(taken.spread(places).codes, goal.spread(places).codes)
    np.testing.assert_array_equal(taken.joined(rows).X.toarray(), goal.joined(dense).X)
    np.testing.assert_array_equal(taken.joined(rows).codes, goal.joined(dense).codes)
    np.testing.assert_allclose(rows.squared_lengths(), dense.squared_lengths(), rtol=1e-14)
    np.testing.assert_allclose(rows.margins(W), dense.margins(W), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(rows.value_gradient(W)[1], dense.value_gradient(W)[1], atol=1e-12)
    with pytest.raises(IndexError):
        rows.take(np.array([60]))


def test_arrays_are_kept_where_they_are_as_they_should_be():
    X = sparse.random_array((20, 9), density=0.3, rng=np.random.default_rng(0), format="csr")
    like = Rows(np.zeros((0, 9)), np.zeros(20, np.int32), True)
    rows = sparse_rows(X, like)
    assert np.shares_memory(rows.data, X.data)
    assert np.shares_memory(rows.indices, X.indices)
    assert rows.indptr.dtype == np.int64
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert sparse_rows(X, like).indices.dtype == np.int32


def test_indices_of_64_bits_are_taken_where_there_are_so_many_columns():
    wide = sparse.csr_array(
        (np.array([1.0, 2.0]), np.array([5, 1 << 33]), np.array([0, 1, 2])),
        shape=(2, (1 << 33) + 1),
    )
    rows = sparse_rows(wide, Rows(np.zeros((0, 1)), np.zeros(2, np.int32), False))
    assert rows.indices.dtype == np.int64
    np.testing.assert_array_equal(rows.take(np.array([1])).indices, [1 << 33])


def _broken(change):
    X = sparse.csr_array(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]]))
    change(X)
    return X


@pytest.mark.parametrize("bits", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X: X.indices.__setitem__(2, 7), "row 1 of X has a column index outside 0 to 2"),
        (lambda X: X.indices.__setitem__(0, -1), "row 0 of X has a column index outside 0 to 2"),
        (lambda X: X.indices.__setitem__(3, 0), "row 1 of X .* repeated or not in ascending order"),
        (lambda X: X.data.__setitem__(3, np.nan), "row 1 of X holds a value that is not a finite"),
        (lambda X: X.indptr.__setitem__(1, 9), "row 1 of X ends before it begins"),
        (lambda X: X.indptr.__setitem__(2, 9), "end beyond the values that are stored"),
        (lambda X: X.indptr.__setitem__(0, 1), "does not tell where 2 rows begin"),
    ],
)
def test_what_is_not_in_canonical_form_is_refused_by_row(change, said, bits):
    X = _broken(change)
    X.indices = X.indices.astype(bits)
    with pytest.raises(BadInput, match=said):
        sparse_rows(X, Rows(np.zeros((0, 3)), np.zeros(2, np.int32), True))


def test_arrays_longer_than_their_rows_are_read_to_the_end_of_the_rows():
    X = sparse.csr_array(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]]))
    X.data, X.indices = np.append(X.data, np.nan), np.append(X.indices, 99)
    rows = sparse_rows(X, Rows(np.zeros((0, 3)), np.zeros(2, np.int32), True))
    np.testing.assert_array_equal(Transpose.of(rows).indptr, [0, 1, 2, 4])
    np.testing.assert_array_equal(rows.values_in_columns(), [1, 1, 2])


def test_values_in_columns_are_those_that_count():
    X = sparse.csr_array(np.array([[5.0, 1.0, 0.0], [3.0, 0.0, 4.0], [0.0, 2.0, 4.0]]))
    X.data[0] = 0.0  # stored all the same
    weight = np.array([1.0, 2.0, 0.0])
    rows = make_rows(X, np.zeros(3, np.int32), True, sample_weight=weight)
    np.testing.assert_array_equal(rows.values_in_columns(), [1, 1, 1])
    mask = np.array([False, True, True])
    np.testing.assert_array_equal(rows.values_in_columns(mask), [1, 0, 1])
    np.testing.assert_array_equal(replace(rows, sample_weight=None).values_in_columns(), [1, 2, 2])


def test_a_row_of_codes_follows_its_row():
    rows, _, _ = sparse_and_dense()
    relabelled = replace(rows, codes=np.arange(60, dtype=np.int32))
    np.testing.assert_array_equal(relabelled.take(np.array([7, 2])).codes, [7, 2])
