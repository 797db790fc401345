"""What a request on sparse rows costs, counted in passes; and one problem solved in one go."""

import numpy as np
import pytest
from scipy import sparse

from unfit import LogisticRegression
from unfit.core import conjugate_gradients as cg
from unfit.core.sparse_rows import make_rows
from unfit.engines.base import make_engine

RIDGE = 3.0
PASSES = 16  # of one request, to 1e-8 a row; as many as before systems were solved in one go


def _texts(n=3000, seed=0):
    """Rows of a few topics, each with common words of its own, of length 1 as texts are."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 8, n)
    common = np.arange(400)[None] // 50 == topic[:, None]
    X = rng.random((n, 400)) * (rng.random((n, 400)) < 0.02 + 0.4 * common)
    X /= np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    return sparse.csr_array(X.astype(np.float32)), (topic + rng.integers(0, 3, n)) % 8


def _system(guided):
    X, topic = _texts()
    data = make_engine(make_rows(X, (topic > 3).astype(np.int32), True), 2)
    W = np.zeros((1, data.d))
    _, gradient, sums = data.value_gradient_products(W)
    assert data._matrix.basis is not None
    return data, sums, gradient, data.guide(None, RIDGE) if guided else cg.unguided


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("precision", [1e-2, 1e-3, 1e-8])
def test_a_system_solved_in_one_go_takes_the_same_steps(guided, precision):
    """The same products, and the same solution."""
    data, sums, rhs, guide = _system(guided)
    wanted = np.array([precision])
    products = data.regularised(sums, RIDGE)
    assert isinstance(products, cg.Solving)
    before = data.rows_read
    fast = cg.conjugate_gradients(products, guide, rhs, wanted)
    assert data.rows_read - before == fast.products * len(data)
    plain = cg.conjugate_gradients(
        lambda at, V: sums(at, V) + RIDGE * V, lambda at, V: guide(at, V), rhs, wanted
    )
    assert fast.products == plain.products
    left = rhs - products(np.array([0]), fast.x)
    assert np.linalg.norm(left) <= 1.01 * precision * np.linalg.norm(rhs)
    assert np.linalg.norm(fast.x - plain.x) <= 3 * precision * np.linalg.norm(plain.x)
    assert not fast.indefinite


def test_no_more_products_than_asked_for_and_none_where_nothing_is_left():
    data, sums, rhs, guide = _system(True)
    products = data.regularised(sums, RIDGE)
    assert cg.conjugate_gradients(products, guide, rhs, np.array([1e-9]), 2).products == 2
    nothing = cg.conjugate_gradients(products, guide, np.zeros_like(rhs), np.array([0.1]))
    assert nothing.products == 0
    assert not nothing.x.any()


def test_other_guides_and_ridges_go_the_plain_way():
    data, sums, rhs, _ = _system(True)
    shape = np.full(data.d, RIDGE)
    assert data.regularised(sums, shape).solve(cg.unguided, rhs, np.array([0.1]), 5) is None
    plain = data.regularised(sums, RIDGE)
    assert plain.solve(lambda at, V: V, rhs, np.array([0.1]), 5) is None


@pytest.mark.parametrize("classes", [2, 8])
def test_a_request_takes_a_few_passes(classes):
    X, topic = _texts()
    y = topic if classes == 8 else (topic > 3).astype(int)
    clf = LogisticRegression("retrain", l2=1e-3, tol=1e-8).fit(X, y)
    for rows in ([5], [17, 18, 900]):
        before = clf._data.rows_read
        clf.unlearn(rows)
        assert clf._data.rows_read - before <= PASSES * len(y)
        W, n = clf._state.weights, clf.n_remaining_
        residual = np.linalg.norm(clf._data.gradient_sum(W) + 1e-3 * n * W, axis=1)
        assert (residual <= 1e-8 * n).all()


def test_a_guide_is_made_anew_where_curvatures_have_changed():
    data, _, _, guide = _system(True)
    made = guide.current()
    data.value_gradient_sum(np.full((1, data.d), 1e-3))
    assert guide.current() is made
    data.value_gradient_sum(np.random.default_rng(0).standard_normal((1, data.d)) * 9)
    assert guide.current() is not made
