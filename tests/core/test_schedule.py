"""The order of an epoch is a permutation, its inverse is its inverse, and it mixes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unfit.core.kernels.schedule import (
    Share,
    epoch_of,
    epoch_order,
    fill_slots,
    find_positions,
    window_rows,
)


@given(
    n=st.integers(1, 5000),
    share=st.floats(0.01, 1),
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 50),
)
def test_order_and_positions_are_inverse_permutations(n, share, seed, epoch):
    window = max(1, int(n * share))
    order = epoch_order(n, window, seed, epoch)
    assert np.array_equal(np.sort(order), np.arange(n))
    keys, visit, starts = epoch_of(n, window, np.uint64(seed), epoch)
    positions = np.empty(n, np.int64)
    for thread in range(3):
        find_positions(np.arange(n), positions, n, window, keys, starts, Share(thread, 3))
    assert np.array_equal(positions[order], np.arange(n))
    begin, end = n // 3, n // 3 + max(1, n // 2)
    part = np.empty(end - begin, np.int32)
    fill_slots(part, begin, end, n, window, keys, visit, starts)
    assert np.array_equal(part, order[begin:end])


def test_windows_are_visited_whole():
    order = epoch_order(1000, 128, 1, 0)
    changes = np.count_nonzero(np.diff(order // 128))
    assert changes == len(range(0, 1000, 128)) - 1


def test_every_slot_comes_everywhere():
    # 2,000 epochs of 16 slots: each slot at each position about 125 times (sd 11).
    counts = np.zeros((16, 16))
    for epoch in range(2000):
        counts[np.arange(16), epoch_order(16, 16, 3, epoch)] += 1
    assert counts.min() > 125 - 6 * 11
    assert counts.max() < 125 + 6 * 11


def test_neighbours_do_not_stay_neighbours():
    n = 4096
    together = [
        np.mean(np.abs(np.diff(epoch_order(n, n, 5, e).astype(int))) == 1) for e in range(50)
    ]
    assert np.mean(together) < 5 * 2 / n


@pytest.mark.parametrize("n", [8, 12, 32, 64, 100, 256, 1000])
def test_every_pair_of_rows_shares_a_batch_as_often_as_chance_has_it(n):
    batch, epochs = n // 4, 600
    together = np.zeros((n, n))
    partitions = set()
    for epoch in range(epochs):
        label = np.empty(n, int)
        label[epoch_order(n, n, 1, epoch)] = np.minimum(np.arange(n) // batch, 3)
        together += label[:, None] == label
        partitions.add(label.tobytes())
    assert len(partitions) > (300 if n == 8 else 590)
    share = together[np.triu_indices(n, 1)] / epochs
    sizes = np.bincount(label)
    expected = (sizes * (sizes - 1)).sum() / (n * (n - 1))
    deviation = np.sqrt(expected * (1 - expected) / epochs)
    assert np.abs(share - expected).max() < 6.5 * deviation
    assert share.std() < 1.3 * deviation


def test_the_order_of_windows_is_random_too():
    orders = {tuple(epoch_order(16 * 4, 4, 2, e)[::4] // 4) for e in range(500)}
    assert len(orders) > 495


def test_windows_are_powers_of_two():
    assert window_rows(1_000_000, 256) == 4096
    assert window_rows(11_982, 3136) == 8192
    assert window_rows(1000, 64) == 1000  # fits a window: one permutation of all
    assert window_rows(1, 64) == 1
