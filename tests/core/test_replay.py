"""DELTAGRAD's kernel against a plain NumPy version, over two deletions in sequence."""

import numpy as np
import pytest
from test_sgd import batches_of, laid_out

import reference
from unfit.core.objective import Rows
from unfit.core.replay import CURVATURE_FLOOR, GONE, LEAVING, PRESENT, Cadence, replay
from unfit.core.sgd import Plan, train_sgd
from unfit.engines.cpu import CpuEngine

ETA, L2 = 0.2, 1e-2  # small steps: with tiny batches and large ones DELTAGRAD itself wanders off


def setting(n_classes=2, batch_size=12, dtype=np.float64, n=103):
    data, layout = laid_out(n=n, n_classes=n_classes, dtype=dtype)
    plan = Plan(21, 6, batch_size, ETA, L2)
    start = np.random.default_rng(1).standard_normal((data.k, data.d))
    stored = np.zeros((plan.steps(n), 2, data.k, data.d))
    train_sgd(layout, plan, start, trajectory=stored)
    batches = list(batches_of(layout, plan))
    return data, layout, plan, stored, batches


def fate_of(layout, gone, leaving):
    fate = np.full(layout.n, PRESENT, np.uint8)
    fate[np.isin(layout.row_of, list(gone))] = GONE
    fate[np.isin(layout.row_of, list(leaving))] = LEAVING
    return fate


def whole_batch(batches):
    """A request that leaves nothing of the second batch of the first epoch."""
    return {int(r) for r in batches[1]}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("burn_in", "period"), [(0, 1), (3, 2), (5, 7), (2, 50)])
@pytest.mark.parametrize("dense", [False, True], ids=["few", "many"])
def test_equals_the_plain_version_twice(burn_in, period, n_classes, threads, dense):
    data, layout, plan, stored, batches = setting(n_classes)
    rng = np.random.default_rng(4)
    first = set(rng.choice(103, 40 if dense else 4, replace=False).tolist())
    second = whole_batch(batches) - first  # the ragged last batch of 7 and an emptied one
    X = reference.with_ones(data.rows.X, True)
    present = np.ones(103, bool)
    old = stored
    counts = np.array([len(b) for b in batches])
    plain = [
        [(stored[t, 0, c], stored[t, 1, c]) for t in range(len(batches))] for c in range(data.k)
    ]
    gone = set()
    for leaving in (first, second):
        new = np.full_like(old, np.nan)
        W, counts = replay(
            layout,
            plan,
            Cadence(burn_in, period),
            fate_of(layout, gone, leaving),
            counts,
            old=old,
            new=new,
            threads=threads,
            radius=np.linalg.norm(X, axis=1).max(),
        )
        for c in range(data.k):
            t = reference.targets(data.rows.codes, c, data.k)
            w, plain[c] = reference.deltagrad(
                plain[c],
                X,
                t,
                batches,
                present,
                leaving,
                ETA,
                L2,
                burn_in,
                period,
                CURVATURE_FLOOR,
            )
            assert np.linalg.norm(W[c] - w) <= 1e-8 * np.linalg.norm(w)
            for half in (0, 1):
                expected = np.array([step[half] for step in plain[c]])
                assert np.abs(new[:, half, c] - expected).max() <= 1e-8 * np.abs(expected).max()
        gone |= leaving
        present[list(leaving)] = False
        assert np.array_equal(counts, [sum(present[r] for r in b) for b in batches])
        old = new
    assert counts.min() == 0  # a batch was emptied on the way


@pytest.mark.parametrize("threads", [1, 2])
def test_an_approximation_that_lost_its_way_is_computed_instead(threads):
    # Rows of length 50 at learning rate 1: two pairs say little of such a Hessian.
    rng = np.random.default_rng(0)
    data = CpuEngine(
        Rows(20 * rng.standard_normal((103, 7)), np.arange(103, dtype=np.int32) % 2, True), 2
    )
    layout = data.lay_out(rng.permutation(103).astype(np.int32))
    plan = Plan(21, 40, 12, 1.0, 1e-3)
    stored = np.zeros((plan.steps(103), 2, 1, data.d))
    W = train_sgd(layout, plan, np.zeros((1, data.d)), trajectory=stored)
    counts = np.array([len(b) for b in batches_of(layout, plan)])
    fate, new = fate_of(layout, set(), {5, 50, 99}), np.empty_like(stored)
    wild, _ = replay(
        layout, plan, Cadence(2, 50), fate, counts, old=stored, new=new, threads=threads
    )
    kept, _ = replay(
        layout,
        plan,
        Cadence(2, 50),
        fate,
        counts,
        old=stored,
        new=new,
        threads=threads,
        radius=layout.radius(),
    )
    assert not np.linalg.norm(wild) < 10 * np.linalg.norm(W)
    assert np.linalg.norm(kept) < 10 * np.linalg.norm(W)


def test_all_exact_is_sgd_without_the_rows():
    data, layout, plan, stored, batches = setting()
    leaving = set(range(0, 103, 9))
    counts = np.array([len(b) for b in batches])
    new = np.empty_like(stored)
    W, _ = replay(
        layout, plan, Cadence(0, 1), fate_of(layout, set(), leaving), counts, old=stored, new=new
    )
    left = [np.array([r for r in b if r not in leaving]) for b in batches]
    X = reference.with_ones(data.rows.X, True)
    w, _ = reference.sgd(stored[0, 0, 0], X, data.rows.codes == 1, left, ETA, L2)
    np.testing.assert_allclose(W[0], w, rtol=1e-9)


def test_float32_follows_float64():
    results = []
    for dtype in (np.float32, np.float64):
        _, layout, plan, stored, batches = setting(dtype=dtype, n=2000, batch_size=100)
        new = np.empty_like(stored)
        fate = fate_of(layout, set(), set(range(20)))
        counts = np.array([len(b) for b in batches])
        results.append(replay(layout, plan, Cadence(10, 5), fate, counts, old=stored, new=new)[0])
    np.testing.assert_allclose(*results, rtol=1e-2, atol=1e-3)
