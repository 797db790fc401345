"""The contract of an engine."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unfit.core.objective import Rows
from unfit.engines.base import Engine
from unfit.engines.sgd import SgdEngine
from unfit.errors import Unavailable
from unfit.testing.cases import CASES, Case, protect, require_same, rng


def check_engine(make: Callable[[Rows, int], Engine], cases: list[Case] | None = None) -> None:
    """The contract of an engine: it computes what the formulae say, of the rows that remain."""
    for given in cases or CASES:
        case = replace(given, sparse=getattr(make, "takes_sparse", False))
        rows, deleted = case.rows(), case.deleted
        protect(rows)
        data = make(rows, case.n_classes)
        assert isinstance(data, Engine), "an engine derives from unfit.engines.base.Engine"
        W = rng(1).standard_normal((data.k, data.d)) / 10
        check_sums(data, rows, W, case.tolerance)
        mask = data.without(deleted)
        assert data.remaining.all(), "`without` changed what remains"
        before = data.value_gradient_sum(W, mask)
        tried = data.shared()
        tried.forget(deleted)
        assert data.n_remaining == 400, "an engine from `shared` shares its mask"
        require_same(tried.gradient_sum(W), before[1], case.tolerance, "a mask and `forget`")
        measured = data.measured_gradient_sum(W, mask)
        require_same(measured, before[1], case.tolerance, "a gradient that is measured")
        assert data.weight_without(deleted) == data.total_weight(mask), "weights of what remains"
        if data.forms_hessian:
            of_mask = data.hessian_sum(W, mask)
            require_same(tried.hessian_sum(W), of_mask, case.tolerance, "a mask and `forget`")
        check_sums(tried, rows.take(np.flatnonzero(mask)), W, case.tolerance)
        left = pickle.loads(pickle.dumps(tried))
        assert left.erased.sum() == len(deleted), "a pickle holds rows that were forgotten"
        require_same(left.gradient_sum(W), tried.gradient_sum(W), case.tolerance, "a pickle")
        if data.takes_sample_weight:
            check_weights(make, case)
        if isinstance(data, SgdEngine):
            layout = data.lay_out(rng(2).permutation(400).astype(np.int32))
            assert (layout.n, layout.d) == (400, data.d)
        few = data.miniature(12)
        assert (few.k, few.n_remaining, few.dtype) == (data.k, 12, data.dtype)


def check_weights(make: Callable[[Rows, int], Engine], case: Case) -> None:
    """Sums over rows with whole weights are those over rows repeated so often."""
    times = rng(5).integers(0, 4, 400)
    plain = case.rows()
    weighted = make(replace(plain, sample_weight=times.astype(np.float64)), case.n_classes)
    repeated = make(plain.take(np.repeat(np.arange(400), times)), case.n_classes)
    W = rng(1).standard_normal((weighted.k, weighted.d)) / 10
    assert weighted.total_weight() == repeated.total_weight() == times.sum()
    pairs = zip(weighted.value_gradient_sum(W), repeated.value_gradient_sum(W), strict=True)
    for one, other in pairs:
        require_same(one, other, case.tolerance, "sums over weighted rows")
    problems, V = np.arange(weighted.k), rng(2).standard_normal(W.shape)
    one, other = (data.value_gradient_products(W)[2](problems, V) for data in (weighted, repeated))
    require_same(one, other, case.tolerance, "products with weighted rows")
    if weighted.forms_hessian:
        _check_weighted_hessians(weighted, repeated, times, case.tolerance)
    left = pickle.loads(pickle.dumps(weighted))
    assert left.total_weight() == times.sum(), "a pickle loses the sample weights"


def _check_weighted_hessians(
    weighted: Engine, repeated: Engine, times: np.ndarray, tolerance: float
) -> None:
    W = rng(1).standard_normal((weighted.k, weighted.d)) / 10
    one, other = weighted.hessian_sum(W), repeated.hessian_sum(W)
    require_same(one, other, tolerance, "Hessian sums over weighted rows")
    some = np.arange(0, len(times), 7)
    copies = np.flatnonzero(np.isin(np.repeat(np.arange(len(times)), times), some))
    pairs = zip(weighted.sums_of(W, some), repeated.sums_of(W, copies), strict=True)
    for one, other in pairs:
        require_same(one, other, tolerance, "sums over some weighted rows")


def check_sums(data: Engine, rows: Rows, W: np.ndarray, tolerance: float) -> None:
    """Sums over what remains against the formulae, in float64, on those rows."""
    k, n = len(W), len(rows)
    X = np.ones((n, rows.d))
    X[:, : rows.X.shape[1]] = rows.dense()
    margin, target = X @ W.T, (rows.targets(k)).astype(np.float64)
    loss = rows.loss
    value, gradient = data.value_gradient_sum(W)
    require_same(value, loss.value(margin, target).sum(axis=0), tolerance, "the sum of values")
    goal = loss.slope(margin, target).T @ X
    require_same(gradient, goal, tolerance, "the sum of gradients")
    curvature = loss.curvature(margin, target)
    hessian = np.array([(X * curvature[:, c, None]).T @ X for c in range(k)])
    v = rng(3).standard_normal(data.d)
    check_products(data, W, hessian, tolerance)
    if data.forms_hessian:
        require_same(data.hessian_sum(W), hessian, tolerance, "the sum of Hessians")
        require_same(data.gram_sum(), X.T @ X, tolerance, "the Gram matrix")
    else:
        _check_no_hessian(data, W)
    for c, factor in enumerate(data.factors(W, None, 0.5)):
        image = hessian[c] @ factor.solve(v) + 0.5 * factor.solve(v)
        require_same(image, v, 10 * tolerance, "a factor and its Hessian")
    where = np.flatnonzero(data.remaining)
    assert data.n_remaining == n == len(where), "n_remaining is not the number of rows that remain"
    taken = data.take(where[::7])
    assert np.array_equal(taken.dense(), rows.dense()[::7]), "`take` gives other rows"
    assert np.array_equal(taken.codes, rows.codes[::7]), "`take` gives other classes"
    if data.forms_hessian:
        some = data.sums_of(W, where[::7])
        expected = loss.slope(margin, target)[::7].T @ X[::7]
        require_same(some[0], expected, tolerance, "the gradient of some rows")
    require_same(data.margins(W, where[::7]), margin[::7], tolerance, "margins")
    n_classes = max(2, len(W))
    for leaving in (where[:0], where[rows.codes == rows.codes[0]]):
        left = np.setdiff1d(where, leaving)
        found = np.flatnonzero(data.classes_without(leaving, n_classes))
        assert np.array_equal(found, np.unique(data.codes[left])), "a class with rows is not seen"


def _check_no_hessian(data: Engine, W: np.ndarray) -> None:
    """An engine without d x d matrices says so, in the same way to everybody who asks for one."""
    assert data.wide(), "an engine without d x d matrices is wide"
    asking: list[Callable[[], object]] = [
        lambda: data.hessian_sum(W),
        data.gram_sum,
        lambda: data.sums_of(W, np.arange(3)),
    ]
    for ask in asking:
        try:
            ask()
        except Unavailable:
            continue
        raise AssertionError("forms_hessian is False, and yet a d x d matrix was made")


def check_products(data: Engine, W: np.ndarray, hessian: np.ndarray, tolerance: float) -> None:
    """Values, gradients and products of one call, against those of the others."""
    value, gradient = data.value_gradient_sum(W)
    found_value, found_gradient, products = data.value_gradient_products(W)
    require_same(found_value, value, tolerance, "the values beside products")
    require_same(found_gradient, gradient, tolerance, "the gradients beside products")
    for problems in (np.arange(len(W)), np.arange(len(W))[::-2], np.zeros(2, np.intp)):
        V = rng(3).standard_normal((len(problems), data.d))
        goal = np.array([hessian[c] @ v for c, v in zip(problems, V, strict=True)])
        product = products(problems, V)
        assert product.dtype == np.float64, "products are float64"
        require_same(product, goal, tolerance, "products with the Hessians")
        rough = products(problems, V.astype(np.float32))
        require_same(rough, goal, max(tolerance, 1e-4), "products with float32 vectors")
