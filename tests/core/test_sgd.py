"""The fused SGD kernel against a plain loop over the same batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from unfit.core.kernels.rows import BLOCK, Span, add_gradient
from unfit.core.kernels.schedule import epoch_order
from unfit.core.losses import LOGISTIC
from unfit.core.objective import Rows
from unfit.core.sgd import Plan, train_sgd
from unfit.engines.cpu import CpuEngine


def laid_out(n=101, p=7, n_classes=2, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, p)) / np.sqrt(p)).astype(dtype)
    codes = rng.integers(0, n_classes, n).astype(np.int32)
    data = CpuEngine(Rows(X, codes, True), n_classes)
    return data, data.lay_out(rng.permutation(n).astype(np.int32))


def batches_of(layout, plan):
    """Row numbers (of the caller's X) of every batch of the plan, in order."""
    for epoch in range(plan.epochs):
        rows = layout.row_of[epoch_order(layout.n, layout.window, plan.seed, epoch)]
        for start in range(0, layout.n, plan.batch_size):
            yield rows[start : start + plan.batch_size]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("batch_size", [10, 32, 101])
def test_equals_the_plain_loop(batch_size, n_classes, threads):
    data, layout = laid_out(n_classes=n_classes)
    plan = Plan(11, 4, batch_size, 1.0, 1e-3)
    start = np.random.default_rng(1).standard_normal((data.k, data.d))
    stored = np.zeros((plan.steps(layout.n), 2, data.k, data.d))
    W = train_sgd(layout, plan, start, trajectory=stored, threads=threads)
    X = reference.with_ones(data.rows.X, True)
    for c in range(data.k):
        t = reference.targets(data.rows.codes, c, data.k)
        w, steps = reference.sgd(start[c], X, t, batches_of(layout, plan), 1.0, 1e-3)
        np.testing.assert_allclose(W[c], w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(stored[:, 0, c], [s[0] for s in steps], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(stored[:, 1, c], [s[1] for s in steps], rtol=1e-9, atol=1e-12)


def test_float32_follows_float64():
    (data, layout), (_, double) = (laid_out(n=3000, dtype=t) for t in (np.float32, np.float64))
    plan, start = Plan(3, 5, 64, 1.0, 1e-3), np.zeros((1, data.d))
    np.testing.assert_allclose(
        train_sgd(layout, plan, start), train_sgd(double, plan, start), rtol=1e-4, atol=1e-5
    )


def test_linear_term_is_added_to_every_step():
    data, layout = laid_out()
    plan = Plan(5, 1, layout.n, 0.5, 1e-3)
    linear_term = np.random.default_rng(2).standard_normal((1, data.d))
    zero = np.zeros((1, data.d))
    plain = train_sgd(layout, plan, zero)
    np.testing.assert_allclose(
        train_sgd(layout, plan, zero, linear_term=linear_term), plain - 0.5 * linear_term
    )


def test_a_large_batch_is_summed_in_float64():
    data, layout = laid_out(n=200_000, p=3, dtype=np.float32)
    plan = Plan(1, 1, layout.n, 1.0, 0.0)
    W = train_sgd(layout, plan, np.zeros((1, 4)))
    expected = -reference.mean_data_gradient(
        np.zeros(4), reference.with_ones(data.rows.X, True), data.rows.codes == 1
    )
    np.testing.assert_allclose(W[0], expected, rtol=1e-5, atol=1e-8)


def test_progress_counts_epochs():
    _, layout = laid_out()
    seen = []
    train_sgd(
        layout, Plan(1, 6, 32, 1.0, 0.0), np.zeros((1, 8)), progress=lambda *a: seen.append(a)
    )
    assert seen[-1] == ("training", 6, 6)


@given(
    m=st.integers(0, 90),
    start=st.integers(0, 5),
    width=st.sampled_from([4, 8, 12, 64, 1028]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_add_gradient_for_any_number_of_rows(m, start, width, dtype):
    width = width * 2 if dtype == np.float32 else width
    rng = np.random.default_rng(m)
    X = (rng.standard_normal((50, width)) / np.sqrt(width)).astype(dtype)
    codes, w = rng.integers(0, 2, 50).astype(np.int32), rng.standard_normal(width).astype(dtype)
    slots = rng.integers(0, 50, m + start + 3).astype(np.int32)
    gradient, scratch = np.zeros(width, dtype), (np.zeros(BLOCK, dtype), np.zeros(BLOCK, dtype))
    span = Span(start, start + m, 0)
    add_gradient(X.ravel(), width, codes, slots, span, LOGISTIC.compiled, 1, w, gradient, *scratch)
    rows = slots[start : start + m]
    expected = reference.gradient(w.astype(float), X[rows].astype(float), codes[rows] == 1, 0)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(gradient, expected, atol=tolerance * max(1, m))
