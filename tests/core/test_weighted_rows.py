"""Sample weights in every sum: a weight of 3 is the row three times, a weight of 0 is no row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_objective import problem

from unfit.core.class_split import ClassSplit
from unfit.core.deleted_sums import (
    gradient_and_roots,
    sums_of_rows,
)
from unfit.core.dual import Gram
from unfit.core.losses import LOGISTIC, SquaredError, SquaredHinge
from unfit.core.objective import (
    Rows,
    hessian_sum,
    root_weighted,
    value_gradient_products,
    value_gradient_sum,
)
from unfit.core.penalty import Penalty
from unfit.core.statistics import Statistics
from unfit.engines.base import make_engine

LOSSES = [LOGISTIC, SquaredError(), SquaredHinge()]


def weighted(seed=0, loss=LOGISTIC, **shape):
    """Rows with whole weights from 0 to 3, the same rows repeated, and weights of a model."""
    plain, W = problem(seed, **shape)
    times = np.random.default_rng(seed + 1).integers(0, 4, len(plain))
    repeated = np.repeat(np.arange(len(plain)), times)
    rows = Rows(plain.X, plain.codes, plain.intercept, loss, times.astype(np.float64))
    return rows, Rows(plain.X, plain.codes, plain.intercept, loss).take(repeated), W


def close(found, expected, dtype=np.float64):
    tolerance = 1e-10 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("p", [5, 300])  # by the kernel of narrow rows, and by BLAS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_sum_is_that_of_repeated_rows(loss, p, dtype):
    rows, repeated, W = weighted(3, loss, n=90, p=p, n_classes=3, dtype=dtype)
    W = W / 10
    for found, expected in zip(
        value_gradient_sum(rows, W), value_gradient_sum(repeated, W), strict=True
    ):
        close(found, expected)
    close(hessian_sum(rows, W), hessian_sum(repeated, W), dtype)
    close(hessian_sum(rows, W, precise=True), hessian_sum(repeated, W, precise=True))
    everything = np.arange(len(rows)), np.arange(len(repeated))
    of_rows, of_repeated = (
        sums_of_rows(some, index, W)
        for some, index in zip((rows, repeated), everything, strict=True)
    )
    for found, expected in zip(of_rows, of_repeated, strict=True):
        close(found, expected, dtype)
    gradient, roots = gradient_and_roots(rows, W)
    close(gradient, of_repeated[0], dtype)
    v = np.random.default_rng(0).standard_normal(rows.d)
    _, gradient, products = value_gradient_products(rows, W)
    close(gradient, of_repeated[0], dtype)
    images = products(np.arange(len(W)), np.tile(v, (len(W), 1)).astype(dtype))
    pairs = zip(roots, root_weighted(rows, W), images, of_repeated[1], strict=True)
    for U, same, image, hessian in pairs:
        close(U.T @ U, hessian, dtype)
        close(same.T @ same, hessian, dtype)
        close(image, hessian @ v, dtype)
    assert rows.total_weight == repeated.total_weight == len(repeated)


@given(seed=st.integers(0, 300), share=st.floats(0.05, 0.9))
def test_masks_and_engines_keep_weights_beside_their_rows(seed, share):
    rows, _, W = weighted(seed, n=60, n_classes=3)
    mask = np.random.default_rng(seed + 2).random(60) < share
    data = make_engine(rows, 3)
    left = rows.take(mask)
    assert data.total_weight(mask) == left.total_weight == rows.sample_weight[mask].sum()
    assert data.weight_of(np.flatnonzero(mask)) == left.total_weight
    close(data.gradient_sum(W, mask), value_gradient_sum(left, W)[1])
    close(data.hessian_sum(W, mask), hessian_sum(left, W))
    if mask.any():
        value, gradient, products = data.value_gradient_products(W, mask)
        close(value, value_gradient_sum(left, W)[0])
        close(gradient, value_gradient_sum(left, W)[1])
        v = np.ones((1, rows.d))
        close(products(np.array([1]), v)[0], hessian_sum(left, W)[1] @ v[0])
    copied = data.copied()
    rows.sample_weight[:] = 0
    assert copied.total_weight(mask) == left.total_weight


def test_a_pickled_engine_has_the_weights_of_what_remains_and_no_others():
    import pickle

    rows, _, W = weighted(5, n=60)
    data = make_engine(rows, 2)
    data.forget(np.arange(0, 60, 3))
    back = pickle.loads(pickle.dumps(data))
    assert back.total_weight() == data.total_weight()
    assert not back.sample_weight[~data.remaining].any()
    close(back.gradient_sum(W), data.gradient_sum(W))


def test_rows_that_are_joined_keep_their_weights():
    rows, _, W = weighted(6, n=60)
    one, other = rows.take(np.arange(20)), rows.take(np.arange(20, 60))
    close(value_gradient_sum(one.joined(other), W)[1], value_gradient_sum(rows, W)[1])
    assert one.joined(other).total_weight == rows.total_weight


def test_rows_fewer_than_columns_are_weighted_in_their_gram_matrix():
    rows, repeated, W = weighted(7, n=30, p=40)
    (found,) = Gram.of(rows, np.ones(30, bool)).factors(W, np.ones(30, bool), 0.3)
    H = hessian_sum(repeated, W)[0] + 0.3 * np.eye(41)
    v = np.random.default_rng(1).standard_normal(41)
    close(found.solve(v), np.linalg.solve(H, v))
    close(found.product(v), H @ v)


@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.9, 0.2), (0.1, 0.8)])
def test_the_smaller_side_of_a_class_is_weighted(shares):
    rows, _, W = weighted(8, n=200, p=9)
    penalty, everybody = Penalty(1e-2), np.ones(200, bool)
    whole = Statistics.of_rows(rows, W, penalty)
    of_class = [rows.take(rows.codes == c) for c in (0, 1)]
    gradients = np.array([value_gradient_sum(part, W)[1][0] for part in of_class])
    split = ClassSplit.of(
        whole.hessian_sum[0],
        hessian_sum(of_class[0], W)[0],
        gradients,
        (len(of_class[0]), len(of_class[1])),
        penalty.ridge(rows.total_weight),
        rows.X.dtype,
    )
    gone = np.concatenate(
        [
            np.flatnonzero(rows.codes == c)[: round(share * len(of_class[c]))]
            for c, share in enumerate(shares)
        ]
    )
    leaving = rows.take(gone)
    shift = penalty.leaving(leaving.total_weight, rows.d)
    gradient, factor = split.leave(rows, everybody, gone, W, float(shift))
    close(gradient, value_gradient_sum(leaving, W)[1])
    left = rows.take(np.delete(np.arange(200), gone))
    rhs = np.random.default_rng(2).standard_normal(rows.d)
    expected = np.linalg.solve(Statistics.of_rows(left, W, penalty).hessian_sum[0], rhs)
    np.testing.assert_allclose(factor.solve(rhs), expected, rtol=1e-7)
